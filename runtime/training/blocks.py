"""Losses of the block heads: blocks behind random roots of a batch (GLANCE 3.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from runtime.frozen import Frozen
from runtime.heads.link import Link
from runtime.training.batches import Batch
from runtime.training.distillation import Teacher, distil, hard, soft
from runtime.training.objectives import COVERAGE_DECAY, smooth_l1


@dataclass(frozen=True)
class BlockRecipe:
    """How a block head is trained.

    Attributes
    ----------
    anchors
        Blocks in each text of a batch.
    token_weight, feature_weight
        Of coverage cross entropy and of smooth-L1 to the target's features; the paper's are 1 and 0.
    distill
        ``hard``: the observed token, as in the paper; ``soft``: the target's distribution behind the observed text.
    decay
        Offset j weighs decay^j.
    reveal
        Share of the steps in which a random prefix of every block is revealed.
    """

    anchors: int = 16
    token_weight: float = 1.0
    feature_weight: float = 0.0
    distill: str = "hard"
    decay: float = COVERAGE_DECAY
    reveal: float = 0.0


@dataclass(frozen=True, eq=False)
class BlockLoss:
    """Loss of a batch of blocks, and what it is watched by.

    Attributes
    ----------
    total
        To be minimised.
    feature, token
        Regression and coverage loss, weighted over the offsets.
    accuracy
        (L,) share of the supervised rows of every offset whose likeliest word is the target's.
    recall, norm
        Share with the target's word among the ten likeliest; root mean square of the predicted states.
    """

    total: Tensor
    feature: float
    token: float
    accuracy: list[float]
    recall: float
    norm: float


@dataclass(frozen=True, eq=False)
class Anchors:
    """Roots of a batch: ``place`` (B, A), 0 where a text offers none, and ``valid`` (B, A)."""

    place: Tensor
    valid: Tensor


def draw_anchors(batch: Batch, count: int, generator: torch.Generator) -> Anchors:
    """Draw ``count`` roots a text among the output tokens that have a token behind them, with replacement."""
    supervised = batch.supervise.float()  # source t is supervised where x_{t+1} is an output token that may be a root
    supervised[:, -1] = 0.0
    has_next = supervised[:, :-1] * (supervised[:, 1:] > 0)
    any_root = has_next.sum(-1) > 0
    weight = torch.where(any_root[:, None], has_next, torch.ones_like(has_next))
    place = torch.multinomial(weight, count, replacement=True, generator=generator) + 1
    return Anchors(place, any_root[:, None].expand(-1, count))


def block_loss(
    head: Any, batch: Batch, frozen: Frozen, recipe: BlockRecipe, generator: torch.Generator
) -> BlockLoss | None:
    """Give the loss of blocks behind random roots of ``batch``; ``None`` where no text has a root."""
    anchors = draw_anchors(batch, recipe.anchors, generator)
    block = head.config.block
    count = recipe.anchors
    embedded = frozen.embed(batch.tokens)
    places, inside = _offsets(batch, anchors, block)
    revealed = _revealed(embedded, places, recipe, block, generator)
    predicted = predict_blocks(head, batch, anchors.place, embedded, revealed)
    if (link := getattr(head, "link", None)) is not None:
        predicted = link_blocks(link, predicted, embedded, places)
    shown = 0 if revealed is None else revealed.shape[2]
    inside[..., :shown] = False
    if not inside.any():
        return None
    offset = torch.arange(block).expand(len(batch.tokens), count, -1)[inside]
    text = torch.arange(len(batch.tokens))[:, None, None].expand_as(inside)[inside]
    rows, place = predicted[inside], places[inside]
    wanted = batch.final[text, place - 1]
    weight = recipe.decay ** offset.float()
    weight = weight * len(weight) / weight.sum()
    teacher: Teacher = (
        soft(wanted, frozen.head)
        if recipe.distill == "soft"
        else hard(frozen.draft_ids()[batch.tokens[text, place]], len(frozen.draft_tokens))
    )
    distilled = distil(rows, head.output(frozen), teacher, weight)
    regression = smooth_l1(rows, wanted, weight) if recipe.feature_weight else torch.zeros(())
    right = [float(distilled.accuracy[offset == j].float().mean()) for j in range(block) if (offset == j).any()]
    return BlockLoss(
        recipe.token_weight * distilled.loss + recipe.feature_weight * regression,
        float(regression.detach()),
        float(distilled.loss.detach()),
        right,
        float(distilled.recall.float().mean()),
        float(rows.detach().float().pow(2).mean().sqrt()),
    )


def predict_blocks(head: Any, batch: Batch, roots: Tensor, embedded: Tensor, revealed: Tensor | None) -> Tensor:
    """Run the head for blocks behind ``roots`` (B, A): predicted rows (B, A, L, d).

    A block sees the sources before its root, and its own rows.
    """
    texts, count = roots.shape
    fused = head.fuse(batch.states[:, :-1], embedded[:, 1:].to(batch.states.dtype))
    sources = fused.shape[1]
    which = torch.arange(texts)[:, None]
    last, root = fused[which, roots - 1].flatten(0, 1), embedded[which, roots].flatten(0, 1)
    rows = head.start(last, root, None if revealed is None else revealed.flatten(0, 1))
    width = rows.shape[1]
    positions = head.positions(roots.flatten()).reshape(texts, count * width)
    before = torch.arange(sources) < roots[..., None]
    own = torch.eye(count, dtype=torch.bool).repeat_interleave(width, 0).repeat_interleave(width, 1)
    mask = torch.cat([before.repeat_interleave(width, 1), own.expand(texts, -1, -1)], dim=-1)[:, None]
    seen = head.context(fused, torch.arange(sources))
    out = head(rows.reshape(texts, count * width, -1), positions, seen, mask)
    return out.reshape(texts, count, width, -1)[:, :, head.rows_before :]


def link_blocks(link: Link, predicted: Tensor, embedded: Tensor, places: Tensor) -> Tensor:
    """Link predicted rows (B, A, L, d) along the tokens that the text has at their ``places`` (B, A, L)."""
    which = torch.arange(len(places))[:, None, None]
    told = embedded[which, places[..., :-1]]
    return link.along(predicted.flatten(0, 1), told.flatten(0, 1)).unflatten(0, places.shape[:2])


def _offsets(batch: Batch, anchors: Anchors, block: int) -> tuple[Tensor, Tensor]:
    """Places (B, A, L) of the tokens of each block, and whether they are there to be learned."""
    places = anchors.place[..., None] + torch.arange(1, block + 1)
    length = batch.supervise.shape[1]
    reach = places.clamp(max=length - 1)
    # Token x_i is an output token with a teacher feature f_{i-1} exactly where source i - 1 is supervised.
    known = torch.gather(batch.supervise, 1, (reach - 1).flatten(1)).reshape(places.shape)
    return reach, known & (places < length) & anchors.valid[..., None]


def _revealed(
    embedded: Tensor, places: Tensor, recipe: BlockRecipe, block: int, generator: torch.Generator
) -> Tensor | None:
    """Embeddings (B, A, r, d) of a random prefix of the blocks, of one length a step; ``None`` where none is shown."""
    if not recipe.reveal or float(torch.rand((), generator=generator)) >= recipe.reveal:
        return None
    count = int(torch.randint(1, block, (), generator=generator))
    which = torch.arange(len(places))[:, None, None]
    return embedded[which, places[..., :count]]
