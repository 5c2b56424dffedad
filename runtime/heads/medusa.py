"""Medusa's heads: every offset from the last state alone, each for itself (Cai et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from runtime.frozen import Frozen
from runtime.heads.layers import Keys


@dataclass(frozen=True)
class MedusaConfig:
    """Sizes of Medusa heads.

    Attributes
    ----------
    width
        d of the target.
    block
        Heads: offset j is drafted by head j.
    layers
        Residual layers of each head.
    """

    width: int
    block: int = 5
    layers: int = 1


class MedusaHeads(nn.Module):
    """Head j maps f_{p-1} to h_j = f + SiLU(W_j f + b_j), layer by layer; the frozen output head gives x_{p+j}.

    Behind one interface with the block heads: its blocks read neither the context nor the root.
    """

    rows_before = 0

    def __init__(self, config: MedusaConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.weight = nn.Parameter(torch.zeros(config.layers, config.block, width, width))
        self.bias = nn.Parameter(torch.zeros(config.layers, config.block, width))

    def fuse(self, states: Tensor, embedding: Tensor) -> Tensor:
        """Read the final states (B, R, d) of target states (B, R, K, d)."""
        return states[..., -1, :]

    def start(self, last: Tensor, root: Tensor, revealed: Tensor | None = None) -> Tensor:
        """Repeat the last state (N, d) for every head: (N, L, d)."""
        return last[:, None].expand(-1, self.config.block, -1)

    def positions(self, roots: Tensor) -> Tensor:
        """Give positions (N, L), which no head reads."""
        return roots[:, None] + torch.arange(self.config.block, device=roots.device)

    def context(self, fused: Tensor, positions: Tensor) -> tuple[Keys, ...]:
        """Offer no rows: no head attends."""
        return ()

    def forward(self, rows: Tensor, positions: Tensor, seen: tuple[Keys, ...], mask: Tensor) -> Tensor:
        """Map rows (B, A L, d), the heads of one block side by side, to what the output head reads."""
        blocks = rows.unflatten(1, (-1, self.config.block))
        for weight, bias in zip(self.weight, self.bias, strict=True):
            blocks = blocks + functional.silu(torch.einsum("bald,led->bale", blocks, weight) + bias)
        return blocks.flatten(1, 2)

    def output(self, frozen: Frozen) -> Tensor:
        """Give the output weights (D, d): the target's."""
        return frozen.head
