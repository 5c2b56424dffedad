"""What a drafter is trained on; every loss is in fp32, and is a mean over the supervised rows."""

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


def smooth_l1(predicted: Tensor, wanted: Tensor, supervise: Tensor, beta: float = 1.0) -> Tensor:
    """Smooth-L1 distance of features (R, d): r^2 / (2 beta) below beta, then |r| - beta / 2; mean over d and rows."""
    each = functional.smooth_l1_loss(predicted.float(), wanted.float(), beta=beta, reduction="none").mean(dim=-1)
    return _mean(each, supervise)


def soft_cross_entropy(logits: Tensor, target_prob: Tensor, supervise: Tensor) -> Tensor:
    """Cross entropy against the target's distribution (R, V), which need not sum to 1; nats."""
    each = -(target_prob.float() * log_softmax(logits)).sum(dim=-1)
    return _mean(each, supervise)


def top_k_loss(logits: Tensor, target_prob: Tensor, supervise: Tensor, k: int = HASS_TOP_K) -> Tensor:
    """Cross entropy over the target's k likeliest tokens, their mass not renormalised (HASS; seed 000, 0x07A)."""
    mass, tokens = target_prob.float().topk(min(k, target_prob.shape[-1]), dim=-1)
    each = -(mass * log_softmax(logits).gather(-1, tokens)).sum(dim=-1)
    return _mean(each, supervise)


def coverage_loss(logits: Tensor, tokens: Tensor, supervise: Tensor, decay: float = COVERAGE_DECAY) -> Tensor:
    """Top-1 coverage of the target's token at every block offset, offset j weighted by decay^j (GLANCE 3.4).

    Parameters
    ----------
    logits, tokens, supervise
        (R, L, V), (R, L) and (R, L), offsets 1..L along the second axis.
    """
    weight = decay ** torch.arange(1, logits.shape[1] + 1, device=logits.device)
    picked = log_softmax(logits).gather(-1, tokens[..., None])[..., 0]
    return _mean(-picked * weight, supervise)


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


def log_softmax(logits: Tensor) -> Tensor:
    """Log-softmax in fp32, clamped at -60: far below, a CPU's exp is many times slower, and the loss says no more."""
    shifted = logits.float() - logits.float().amax(dim=-1, keepdim=True)
    shifted = shifted.clamp_min(-60.0)
    return shifted - shifted.exp().sum(dim=-1, keepdim=True).log()


def _mean(each: Tensor, supervise: Tensor) -> Tensor:
    count = supervise.sum()
    if not count:
        raise TrainingError("no supervised row: skip the step, weight decay included")
    return torch.where(supervise, each, torch.zeros_like(each)).sum() / count
