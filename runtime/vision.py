"""How a vision-language target takes an image."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from torch import Tensor

from runtime.cross_attention import CrossAttention
from runtime.image import Image, ImageState
from runtime.multimodal_rotary import MultimodalRotary

ROTARY = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe")
CROSS = ("mllama",)
# The models that are loaded with their image side.
FAMILIES = (*ROTARY, *CROSS)


class Vision(Protocol):
    """The image side of one target."""

    def prefill(self, tokens: list[int], image: Image) -> tuple[dict[str, Tensor], ImageState]:
        """Give the model's arguments for the pass over a prompt with its image, and what later passes need.

        Raises
        ------
        TargetError
            The prompt's image tokens and the image do not fit each other.
        """
        ...

    def plain(self, tokens: list[int], image: Image) -> dict[str, Tensor]:
        """Give the arguments of a plain pass over a prompt and what follows it: no cache, no positions of ours."""
        ...

    def sample(self, rng: np.random.Generator, words: np.ndarray) -> tuple[list[int], Image]:
        """Make a small image of noise, and a prompt with it of the text tokens ``words``."""
        ...


def vision_of(model: Any) -> Vision | None:
    """Find the image side of a model; ``None`` where it has none, or one that is not supported."""
    kind = model.config.model_type
    if kind in ROTARY:
        return MultimodalRotary(model)
    return CrossAttention(model) if kind in CROSS else None


def reserved_tokens(config: Any) -> frozenset[int]:
    """Tokens that stand for images or videos: text must not hold them."""
    names = ("image_token_id", "image_token_index", "video_token_id", "video_token_index")
    found = (getattr(config, name, None) for name in names)
    return frozenset(int(token) for token in found if token is not None)
