"""What a drafter is trained on beside cross entropy (`runtime.training.distillation`); losses are means in fp32."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from runtime.errors import TrainingError

Loss = TypeVar("Loss", Tensor, float)
EAGLE_FEATURE_WEIGHT, EAGLE_TOKEN_WEIGHT = 1.0, 0.1
HASS_TOP_K = 10
EAGLE3_DECAY = 0.8
COVERAGE_DECAY = 0.8


def eagle_loss(
    feature_loss: Loss,
    token_loss: Loss,
    feature_weight: float = EAGLE_FEATURE_WEIGHT,
    token_weight: float = EAGLE_TOKEN_WEIGHT,
) -> Loss:
    """Weigh both losses; EAGLE-1 takes 1.0 of regression and 0.1 of classification (seed 000, 0x04B)."""
    return feature_weight * feature_loss + token_weight * token_loss


def smooth_l1(predicted: Tensor, wanted: Tensor, weight: Tensor | None = None, beta: float = 1.0) -> Tensor:
    """Smooth-L1 distance of features (R, d): r^2 / (2 beta) below beta, then |r| - beta / 2; mean over d and rows.

    ``weight`` (R,) weighs the rows, 1 by default.

    Raises
    ------
    TrainingError
        There is no row.
    """
    if not len(predicted):
        raise TrainingError("no supervised row: skip the step, weight decay included")
    each = functional.smooth_l1_loss(predicted.float(), wanted.float(), beta=beta, reduction="none").mean(dim=-1)
    return each.mean() if weight is None else (each * weight).mean()


def pass_weights(passes: int, decay: float = EAGLE3_DECAY) -> list[float]:
    """Weights decay^s of the passes s = 0.. of training-time test (EAGLE-3; seed 000, 0x08C)."""
    return [decay**step for step in range(passes)]


def feature_noise(features: Tensor, generator: torch.Generator, *, length: int | None = None) -> Tensor:
    """Uniform noise on target features (seed 000, 0x04E).

    In [-0.1, 0.1] as the EAGLE paper reports; with ``length``, of amplitude 0.1 * 512 / length as its code draws it.
    """
    amplitude = 0.1 if length is None else 0.1 * 512 / length
    noise = torch.rand(features.shape, generator=generator, dtype=torch.float32, device=features.device)
    return features + ((noise - 0.5) * 2 * amplitude).to(features.dtype)
