"""Losses of the feature drafter, unrolled: EAGLE-1 is one pass, HASS several aligned ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from runtime.frozen import Frozen
from runtime.heads.eagle import EagleHead
from runtime.heads.layers import Keys
from runtime.training.batches import Batch
from runtime.training.objectives import (
    EAGLE_FEATURE_WEIGHT,
    EAGLE_TOKEN_WEIGHT,
    HASS_TOP_K,
    eagle_loss,
    feature_noise,
    smooth_l1,
    soft_cross_entropy,
    top_k_loss,
)

Distill = Literal["soft", "top-k"]


@dataclass(frozen=True)
class EagleRecipe:
    """How a feature drafter is trained.

    Attributes
    ----------
    passes
        1 for EAGLE-1; HASS aligns over 3 (seed 000, 0x07B).
    distill
        ``soft``: the target's whole distribution (EAGLE-1). ``top-k``: its K likeliest tokens (HASS).
    feature_weight, token_weight
        Of both losses; EAGLE's are 1.0 and 0.1, the HASS paper's 1.0 and 1.0.
    noise
        ``paper``: uniform in [-0.1, 0.1]; ``length``: scaled by 512 / S, as EAGLE's code; ``none``.
    """

    passes: int = 1
    distill: Distill = "soft"
    feature_weight: float = EAGLE_FEATURE_WEIGHT
    token_weight: float = EAGLE_TOKEN_WEIGHT
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
    head: EagleHead, batch: Batch, frozen: Frozen, passes: int, first: Tensor | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield each pass's predicted states (B, S - 1, d), and which of its rows (B, S - 1) stand for a supervised draft.

    In pass s the row at source t reads what pass s - 1 predicted for t, detached, and sees target rows up to t - s and
    its own ancestors (`runtime.training.visibility`). Pass 0 reads ``first``, by default the target's own states.
    """
    own = head.read(batch.states[:, :-1])
    embedded = frozen.embed(batch.tokens[:, 1:]).to(own.dtype)
    supervise = batch.supervise[:, :-1]
    positions = torch.arange(own.shape[1])
    state, seen = own if first is None else first, None
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
        state = torch.cat([own[:, :1], predicted[:, :-1].detach()], dim=1)
        seen = Keys(seen.keys.detach(), seen.values.detach())


def unrolled_losses(
    head: EagleHead, batch: Batch, frozen: Frozen, recipe: EagleRecipe, generator: torch.Generator
) -> Iterator[PassLoss]:
    """Yield the loss of each pass that has a supervised row."""
    noisy = _noisy(head.read(batch.states[:, :-1]), recipe, generator)
    wanted = batch.final[:, 1:]
    for predicted, rooted in unrolled_states(head, batch, frozen, recipe.passes, noisy):
        if rooted.any():
            yield _loss(predicted[rooted], wanted[rooted], frozen, recipe)


def band_mask(length: int, step: int) -> Tensor:
    """Give the (1, 1, S, (step + 1) S) mask of pass ``step`` for one segment of S sources."""
    gap = torch.arange(length)[:, None] - torch.arange(length)
    blocks = [gap >= step, *(gap == step - earlier for earlier in range(1, step + 1))]
    return torch.cat(blocks, dim=1)[None, None]


def _noisy(feature: Tensor, recipe: EagleRecipe, generator: torch.Generator) -> Tensor:
    if recipe.noise == "none":
        return feature
    return feature_noise(feature, generator, length=feature.shape[1] if recipe.noise == "length" else None)


def _loss(predicted: Tensor, wanted: Tensor, frozen: Frozen, recipe: EagleRecipe) -> PassLoss:
    every = torch.ones(len(predicted), dtype=torch.bool)
    logits = frozen.logits(predicted.float())
    with torch.no_grad():
        target_prob = frozen.logits(wanted.float()).softmax(-1)
        best = target_prob.argmax(-1, keepdim=True)
        top = logits.topk(min(10, logits.shape[-1]), dim=-1).indices
    regression = smooth_l1(predicted, wanted, every)
    distilled = (
        top_k_loss(logits, target_prob, every, HASS_TOP_K)
        if recipe.distill == "top-k"
        else soft_cross_entropy(logits, target_prob, every)
    )
    return PassLoss(
        eagle_loss(regression, distilled, recipe.feature_weight, recipe.token_weight),
        float(regression.detach()),
        float(distilled.detach()),
        float((top[:, :1] == best).float().mean()),
        float((top == best).any(-1).float().mean()),
        float(predicted.detach().float().pow(2).mean().sqrt()),
    )
