"""Targets whose image tokens stand in the text, at positions of three axes (Qwen-VL)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from runtime.errors import TargetError
from runtime.image import Image, ImageState

_INPUTS = ("pixel_values", "image_grid_thw")


@dataclass(frozen=True, eq=False)
class MultimodalRotary:
    """Image features replace the embeddings of image tokens, which lie on a grid of time, height and width.

    An image of h x w tokens advances the positions by max(h, w) only; the text behind it is shifted by as much, and
    counts on by one again. So one number carries the image to all later rows.
    """

    model: Any

    def prefill(self, tokens: list[int], image: Image) -> tuple[dict[str, Tensor], ImageState]:
        """Give pixels, grids and the (3, 1, rows) positions of a prompt."""
        inputs = image.take(_INPUTS, self.model.device)
        self._check(tokens, inputs)
        ids = torch.tensor([tokens], device=self.model.device)
        positions, shift = self.model.model.get_rope_index(
            ids, mm_token_type_ids=self._kinds(tokens), image_grid_thw=inputs["image_grid_thw"]
        )
        return {**inputs, "position_ids": positions}, ImageState(shift=int(shift))

    def plain(self, tokens: list[int], image: Image) -> dict[str, Tensor]:
        """Give pixels, grids and the kinds of the tokens; the model finds the positions itself."""
        return {**image.take(_INPUTS, self.model.device), "mm_token_type_ids": self._kinds(tokens)}

    def sample(self, rng: np.random.Generator, words: np.ndarray) -> tuple[list[int], Image]:
        """Make an image of 2 x 3 tokens between some words."""
        vision = self.model.config.vision_config
        merge = int(vision.spatial_merge_size)
        depth, side = (int(np.max(size)) for size in (vision.temporal_patch_size, vision.patch_size))
        channels = getattr(vision, "in_channels", None) or vision.in_chans
        pixels = rng.standard_normal((6 * merge * merge, channels * depth * side * side))
        grid = torch.tensor([[1, 2 * merge, 3 * merge]])
        text = [int(token) for token in rng.choice(words, 7)]
        tokens = [*text[:3], *[int(self.model.config.image_token_id)] * 6, *text[3:]]
        return tokens, Image({"pixel_values": torch.tensor(pixels, dtype=torch.float32), "image_grid_thw": grid})

    def _kinds(self, tokens: list[int]) -> Tensor:
        """Mark the image tokens by 1, the text by 0."""
        kinds = [int(token == self.model.config.image_token_id) for token in tokens]
        return torch.tensor([kinds], device=self.model.device)

    def _check(self, tokens: list[int], inputs: dict[str, Tensor]) -> None:
        grids = inputs["image_grid_thw"]
        if grids.ndim != 2 or grids.shape[1] != 3:
            raise TargetError(f"image: image_grid_thw has shape {tuple(grids.shape)}, expected (images, 3)")
        if int(grids.prod(1).sum()) != len(inputs["pixel_values"]):
            took, came = int(grids.prod(1).sum()), len(inputs["pixel_values"])
            raise TargetError(f"image: the grids take {took} patches, pixel_values holds {came}")
        if bool((grids[:, 0] != 1).any()):
            raise TargetError(f"image: grids of {grids[:, 0].tolist()} frames, but videos are not supported")
        if self.model.config.video_token_id in tokens:
            raise TargetError("the prompt holds video tokens, but videos are not supported")
        area = int(self.model.config.vision_config.spatial_merge_size) ** 2
        wanted = (grids.prod(1) // area).tolist()
        image = self.model.config.image_token_id
        held = [len(list(run)) for token, run in groupby(tokens) if token == image]
        if held != wanted:
            raise TargetError(f"the prompt holds runs of {held} image tokens, the grids of its images take {wanted}")
