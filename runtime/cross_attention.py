"""Targets that look at the image by cross-attention layers between the text's own layers (Mllama)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from runtime.errors import TargetError
from runtime.image import Image, ImageState

_INPUTS = ("pixel_values", "aspect_ratio_ids", "aspect_ratio_mask", "cross_attention_mask")


@dataclass(frozen=True, eq=False)
class CrossAttention:
    """The cross-attention layers' keys come from the image alone, once; a mask says which tiles each text row sees."""

    model: Any

    def prefill(self, tokens: list[int], image: Image) -> tuple[dict[str, Tensor], ImageState]:
        """Give pixels, aspect ratios and the mask; later rows see what the prompt's last row sees."""
        inputs = image.take(_INPUTS, self.model.device)
        self._check(tokens, inputs)
        return inputs, ImageState(sight=inputs["cross_attention_mask"][:, -1:].clone())

    def plain(self, tokens: list[int], image: Image) -> dict[str, Tensor]:
        """Give the same, the mask's last row repeated for what follows the prompt."""
        inputs = image.take(_INPUTS, self.model.device)
        mask = inputs["cross_attention_mask"]
        behind = mask[:, -1:].expand(-1, len(tokens) - mask.shape[1], -1, -1)
        return {**inputs, "cross_attention_mask": torch.cat([mask, behind], dim=1)}

    def sample(self, rng: np.random.Generator, words: np.ndarray) -> tuple[list[int], Image]:
        """Make an image of one tile behind one word, and words that see it."""
        vision = self.model.config.vision_config
        tiles, size = int(vision.max_num_tiles), int(np.max(vision.image_size))
        text = [int(token) for token in rng.choice(words, 9)]
        tokens = [text[0], int(self.model.config.image_token_index), *text[1:]]
        pixels = torch.zeros(1, 1, tiles, int(vision.num_channels), size, size)
        pixels[0, 0, 0] = torch.tensor(rng.standard_normal(pixels.shape[3:]), dtype=torch.float32)
        filled = torch.zeros(1, 1, tiles, dtype=torch.long)
        filled[..., 0] = 1
        sees = torch.zeros(1, len(tokens), 1, tiles, dtype=torch.long)
        sees[:, 1:, :, 0] = 1
        ratio = torch.ones(1, 1, dtype=torch.long)
        return tokens, Image(dict(zip(_INPUTS, (pixels, ratio, filled, sees), strict=True)))

    def _check(self, tokens: list[int], inputs: dict[str, Tensor]) -> None:
        pixels, mask = inputs["pixel_values"], inputs["cross_attention_mask"]
        if pixels.ndim != 6 or len(pixels) != 1:
            shape = tuple(pixels.shape)
            raise TargetError(f"image: pixel_values has shape {shape}, expected (1, images, tiles, channels, h, w)")
        images, tiles = pixels.shape[1:3]
        if tuple(mask.shape) != (1, len(tokens), images, tiles):
            wanted = (1, len(tokens), images, tiles)
            raise TargetError(f"image: cross_attention_mask has shape {tuple(mask.shape)}, expected {wanted}")
        held = tokens.count(self.model.config.image_token_index)
        if held != images:
            raise TargetError(f"the prompt holds {held} image tokens, {images} images came with it")
