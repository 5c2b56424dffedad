"""The link between the offsets of a block: each is told the token chosen before it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from runtime.heads.layers import unit_rms


class Link(nn.Module):
    """z_1 = h_1, and z_j = h_j + B SiLU(A [h_j ; e(x_{p+j-1}) ; z_{j-1}]), the parts at a root mean square of 1.

    A block pass knows no token of its own block, so that its marginals pair words that do not follow each other. The
    link is a small recurrence along one path behind that pass (as in Hydra and ReDrafter), without attention.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.read = nn.Linear(3 * width, hidden)
        self.write = nn.Linear(hidden, width, bias=False)
        nn.init.zeros_(self.write.weight)

    def forward(self, block: Tensor, embedding: Tensor, before: Tensor) -> Tensor:
        """Link block rows (..., d), given the embeddings of the tokens before them and the rows before."""
        parts = torch.cat([unit_rms(block), unit_rms(embedding.to(block.dtype)), unit_rms(before)], dim=-1)
        return torch.as_tensor(block + self.write(functional.silu(self.read(parts))))

    def along(self, blocks: Tensor, embedding: Tensor) -> Tensor:
        """Link whole blocks (N, L, d) along the embeddings (N, L - 1, d) of their first tokens."""
        rows = [blocks[:, 0]]
        for j in range(1, blocks.shape[1]):
            rows.append(self(blocks[:, j], embedding[:, j - 1], rows[-1]))
        return torch.stack(rows, dim=1)
