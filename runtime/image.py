"""Images as a target's processor gives them, and what of them later passes need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from runtime.errors import TargetError

# What a processor gives beside the image: the engine makes these itself.
_TEXT = {"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids"}


@dataclass(frozen=True, eq=False)
class Image:
    """The images of one prompt, shaped by the processor of the target's family.

    Attributes
    ----------
    inputs
        Tensors by the names of the model's arguments: ``pixel_values`` and, by family, ``image_grid_thw`` (images, 3)
        or ``aspect_ratio_ids`` (1, images), ``aspect_ratio_mask`` (1, images, tiles) and ``cross_attention_mask``
        (1, prompt rows, images, tiles).
    """

    inputs: Mapping[str, Tensor]

    @classmethod
    def of(cls, processed: Mapping[str, Any]) -> Image:
        """Take the image out of what a processor returned for one prompt, with ``return_tensors="pt"``.

        Raises
        ------
        TargetError
            There is no image, a video, more than one prompt, or an entry is no tensor.
        """
        video = sorted(name for name in processed if "video" in name and processed[name] is not None)
        if video:
            raise TargetError(f"image: {', '.join(video)} given, but videos are not supported")
        ids = processed.get("input_ids")
        if ids is not None and len(ids) != 1:
            raise TargetError(
                f"image: processed for {len(ids)} prompts, expected one: the engine decodes one at a time"
            )
        inputs = {name: value for name, value in processed.items() if name not in _TEXT and value is not None}
        for name, value in inputs.items():
            if not isinstance(value, Tensor):
                raise TargetError(f'image: {name} is {type(value).__name__}, expected a tensor (return_tensors="pt")')
        if "pixel_values" not in inputs:
            raise TargetError(f"image: {', '.join(inputs) or 'nothing'} given, expected pixel_values")
        return cls(inputs)

    def take(self, names: tuple[str, ...], device: torch.device) -> dict[str, Tensor]:
        """Give exactly these inputs, on the target's device.

        Raises
        ------
        TargetError
            Others are there, or one is absent: the processor of another family made them.
        """
        if set(self.inputs) != set(names):
            came = ", ".join(sorted(self.inputs))
            raise TargetError(
                f"image: its inputs are {came}, expected {', '.join(sorted(names))}: of another processor?"
            )
        return {name: self.inputs[name].to(device) for name in names}


@dataclass(frozen=True, eq=False)
class ImageState:
    """What the passes behind an image need of it; it never changes, so forks of a cache share it.

    Attributes
    ----------
    shift
        Added to a row's number to give its position: an image takes more rows than positions.
    sight
        (1, 1, images, tiles): which tiles all later rows may look at, where the target has cross-attention.
    """

    shift: int = 0
    sight: Tensor | None = None

    def inputs(self, rows: Tensor) -> dict[str, Tensor]:
        """Give the model's arguments for text rows (1, R) numbered as they stand in the cache."""
        inputs = {"position_ids": rows + self.shift}
        if self.sight is not None:
            inputs["cross_attention_mask"] = self.sight.expand(-1, rows.shape[1], -1, -1)
        return inputs
