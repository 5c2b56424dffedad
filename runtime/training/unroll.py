"""Losses of the expanding drafters, unrolled: EAGLE-1 is one pass, HASS and EAGLE-3 are several aligned ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from runtime.frozen import Frozen
from runtime.heads.expanding import Expanding
from runtime.heads.layers import Keys
from runtime.training.batches import Batch
from runtime.training.distillation import distil, soft, top_k
from runtime.training.objectives import (
    EAGLE_FEATURE_WEIGHT,
    EAGLE_TOKEN_WEIGHT,
    HASS_TOP_K,
    eagle_loss,
    feature_noise,
    pass_weights,
    smooth_l1,
)


@dataclass(frozen=True)
class UnrollRecipe:
    """How an expanding drafter is trained.

    Attributes
    ----------
    passes
        1 for EAGLE-1; HASS aligns over 3 (seed 000, 0x07B); EAGLE-3 takes 7 (0x08C).
    distill
        ``soft``: the target's whole distribution over the draft words. ``top-k``: its ten likeliest (HASS).
    feature_weight, token_weight
        Of regression and distillation; EAGLE's are 1.0 and 0.1, the HASS paper's 1.0 and 1.0, EAGLE-3's 0 and 1.
    decay
        Pass s weighs decay^s.
    through
        Whether the gradient of a pass reaches the earlier ones (EAGLE-3), or stops at the state it reads (HASS).
    noise
        On the target's features: ``paper``, uniform in [-0.1, 0.1]; ``length``: scaled by 512 / S, as EAGLE's code.
    """

    passes: int = 1
    distill: Literal["soft", "top-k"] = "soft"
    feature_weight: float = EAGLE_FEATURE_WEIGHT
    token_weight: float = EAGLE_TOKEN_WEIGHT
    decay: float = 1.0
    through: bool = False
    noise: Literal["paper", "length", "none"] = "paper"


@dataclass(frozen=True, eq=False)
class PassLoss:
    """Losses of one pass, and what it is watched by.

    Attributes
    ----------
    total
        To be minimised.
    feature, token
        Regression and distillation loss.
    accuracy, recall
        Share of supervised rows whose likeliest word is the target's, and whose ten likeliest hold it.
    norm
        Root mean square of the predicted states.
    """

    total: Tensor
    feature: float
    token: float
    accuracy: float
    recall: float
    norm: float


def unrolled_states(
    head: Expanding, batch: Batch, frozen: Frozen, passes: int, first: Tensor | None = None, *, through: bool = False
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield each pass's predicted states (B, S - 1, d), and which of its rows (B, S - 1) stand for a supervised draft.

    In pass s the row at source t reads what pass s - 1 predicted for t, and sees target rows up to t - s and its own
    ancestors (`runtime.training.visibility`). Pass 0 reads ``first``, by default what the head reads of the target.
    """
    own = head.read(batch.states[:, :-1]) if first is None else first
    embedded = frozen.embed(batch.tokens[:, 1:]).to(own.dtype)
    supervise = batch.supervise[:, :-1]
    positions = torch.arange(own.shape[1])
    state, seen = own, None
    for step in range(passes):
        fused = head.fuse(state, embedded)
        keys = head.keys(fused, positions)
        seen = keys if seen is None else seen.join(keys)
        predicted = head(fused, positions, seen, band_mask(own.shape[1], step))
        rooted = supervise.clone()
        if step:  # the chain began at an output token too
            rooted[:, step:] &= supervise[:, :-step]
            rooted[:, :step] = False
        yield predicted, rooted
        carried = predicted if through else predicted.detach()
        state = torch.cat([own[:, :1].to(carried.dtype), carried[:, :-1]], dim=1)
        seen = seen if through else Keys(seen.keys.detach(), seen.values.detach())


def unrolled_losses(
    head: Expanding, batch: Batch, frozen: Frozen, recipe: UnrollRecipe, generator: torch.Generator
) -> Iterator[PassLoss]:
    """Yield the loss of each pass that has a supervised row."""
    noisy = _noisy(head.read(batch.states[:, :-1]), recipe, generator)
    wanted = batch.final[:, 1:]
    passes = unrolled_states(head, batch, frozen, recipe.passes, noisy, through=recipe.through)
    for weight, (predicted, rooted) in zip(pass_weights(recipe.passes, recipe.decay), passes, strict=True):
        if rooted.any():
            yield _loss(head, predicted[rooted], wanted[rooted], frozen, recipe, weight)


def band_mask(length: int, step: int) -> Tensor:
    """Give the (1, 1, S, (step + 1) S) mask of pass ``step`` for one segment of S sources."""
    gap = torch.arange(length)[:, None] - torch.arange(length)
    blocks = [gap >= step, *(gap == step - earlier for earlier in range(1, step + 1))]
    return torch.cat(blocks, dim=1)[None, None]


def _noisy(feature: Tensor, recipe: UnrollRecipe, generator: torch.Generator) -> Tensor:
    if recipe.noise == "none":
        return feature
    return feature_noise(feature, generator, length=feature.shape[1] if recipe.noise == "length" else None)


def _loss(
    head: Expanding, predicted: Tensor, wanted: Tensor, frozen: Frozen, recipe: UnrollRecipe, weight: float
) -> PassLoss:
    teacher = top_k(wanted, frozen.head, HASS_TOP_K) if recipe.distill == "top-k" else soft(wanted, frozen.head)
    distilled = distil(head.readout(predicted), head.output(frozen), teacher)
    regression = smooth_l1(predicted, wanted) if recipe.feature_weight else torch.zeros(())
    return PassLoss(
        weight * eagle_loss(regression, distilled.loss, recipe.feature_weight, recipe.token_weight),
        float(regression.detach()),
        float(distilled.loss.detach()),
        float(distilled.accuracy.float().mean()),
        float(distilled.recall.float().mean()),
        float(predicted.detach().float().pow(2).mean().sqrt()),
    )
