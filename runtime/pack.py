"""A draft tree as the tensors of one target pass."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from policy.tree import DraftTree


@dataclass(frozen=True, eq=False)
class Packed:
    """Inputs of a verify pass over N + 1 rows behind ``context`` committed rows.

    Attributes
    ----------
    tokens : (1, N+1) int64
    positions : (1, N+1) int64
        Context length plus depth: siblings share a position.
    mask : (1, 1, N+1, context + N+1) bool, or None
        True where a row may look: the whole context, its ancestors and itself. None for a single row, which sees all.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor | None


def pack(tree: DraftTree, context: int, device: torch.device) -> Packed:
    """Lay out ``tree`` behind ``context`` committed rows."""
    tokens = torch.as_tensor(tree.tokens, device=device)[None]
    positions = torch.as_tensor(tree.depth, device=device)[None] + context
    if tree.budget == 0:
        return Packed(tokens, positions, None)
    mask = torch.ones(tree.rows, context + tree.rows, dtype=torch.bool)
    mask[:, context:] = torch.from_numpy(tree.mask)
    return Packed(tokens, positions, mask[None, None].to(device))


def pack_text(tokens: list[int], context: int, device: torch.device) -> Packed:
    """Lay out plain text: a chain without a root of its own."""
    count = len(tokens)
    positions = torch.arange(context, context + count, device=device)[None]
    mask = torch.ones(count, context + count, dtype=torch.bool).tril(context)
    return Packed(torch.tensor([tokens], device=device), positions, mask[None, None].to(device))
