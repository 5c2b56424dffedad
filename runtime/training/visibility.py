"""Who sees whom when a drafter is unrolled in training: prefix, draft ancestors, self, and nobody else.

Aligned training (HASS) and training-time test (EAGLE-3) run a drafter several passes over the same sources. In pass s
the row at source t reads what pass s - 1 gave at source t - 1. Its keys are those that drafting would hold: target
rows up to t - s, then its own ancestors, one from each pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from runtime.training.rows import Rows


@dataclass(frozen=True)
class Node:
    """A row of an unrolled pass: source place, pass (0 reads target features), segment."""

    source: int
    step: int
    segment: int


def sees(query: Node, key: Node) -> bool:
    """Tell whether drafting would let ``query`` read ``key``: the definition, row by row."""
    if query.segment != key.segment:
        return False
    if key.step == 0:
        return key.source <= query.source - query.step
    # An ancestor in pass k stands as many sources earlier as passes lie between.
    return key.step <= query.step and key.source == query.source - (query.step - key.step)


def dependency_mask(queries: list[Node], keys: list[Node]) -> Tensor:
    """Give the (Q, K) mask of `sees`."""
    return torch.tensor([[sees(query, key) for key in keys] for query in queries], dtype=torch.bool)


def unrolled_mask(rows: Rows, step: int) -> Tensor:
    """Give the (R, (step + 1) R) mask of pass ``step`` over the keys of passes 0..step, one after another.

    Equal to `dependency_mask` on the rows of each pass, without the loop.
    """
    same = (rows.batch[:, None] == rows.batch) & (rows.segment[:, None] == rows.segment)
    gap = rows.source[:, None] - rows.source
    blocks = [same & (gap >= step)]
    blocks += [same & (gap == step - earlier) for earlier in range(1, step + 1)]
    return torch.cat(blocks, dim=1)


def rooted(rows: Rows, step: int) -> Tensor:
    """Tell (R,) which rows have all their ancestors: ``step`` rows before them in the same segment."""
    same = (rows.batch[:, None] == rows.batch) & (rows.segment[:, None] == rows.segment)
    return (same & (rows.source[:, None] - rows.source == step)).any(dim=1)
