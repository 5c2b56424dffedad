"""The one-pass block drafter: every offset of a block from the target's fused states (GLANCE 3.2), in two forms."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from runtime.frozen import Frozen
from runtime.heads.eagle import EagleHead
from runtime.heads.layers import DecoderLayer, Keys, RMSNorm, Shape, unit_rms, windowed
from runtime.heads.link import Link


@dataclass(frozen=True)
class BlockConfig:
    """Sizes of a block head.

    Attributes
    ----------
    shape
        Of its layers.
    layers
        How many.
    block
        Offsets that it drafts: L.
    taps
        Target layers that are fused; the final state is read by `FeatureBlock` besides.
    rank
        Of the maps by which a `FeatureBlock` starts its later offsets.
    link
        Hidden width of the `Link` between the offsets of a `FeatureBlock`; 0 where every offset stands for itself.
    windows
        Of `DiffusionBlock`: how far each layer sees, in positions, 0 for everything; empty where no layer slides.
    windows_causal
        Whether rows of a sliding layer see none of the block's later rows.
    """

    shape: Shape
    layers: int = 2
    block: int = 8
    taps: int = 5
    rank: int = 128
    link: int = 0
    windows: tuple[int, ...] = ()
    windows_causal: bool = True


@dataclass(frozen=True, eq=False)
class Extension:
    """The start of a second pass, behind tokens that are only drafted.

    Attributes
    ----------
    context
        (1, r, d) context rows to be added, or ``None``.
    rows
        (1, M, d) first rows of the block.
    shift
        Positions by which the block's root has moved.
    shown
        Rows that hold revealed tokens, between those before the block and its offsets.
    """

    context: Tensor | None
    rows: Tensor
    shift: int
    shown: int


class FeatureBlock(nn.Module):
    """A block head that predicts the target's final features, in the form that trains on few rows.

    The context row of source t is u_t = W [f_t + sum_k s_k V_k f_t^k ; e_{t+1}], as EAGLE's with taps added. A block
    behind the root x_p starts as u_{p-1} at offset 1 and as u_{p-1} + W_j V_j u_{p-1} + m_j at the offsets j behind it,
    or with R e(x_{p+j-1}) in place of m_j where that token is revealed. Its rows see the context and each other. A
    `Link` may then tie each offset to the token before it.
    """

    rows_before = 0

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.config = config
        width = config.shape.hidden
        self.fc = nn.Linear(2 * width, width)
        self.tap_scale = nn.Parameter(torch.ones(config.taps))
        self.tap_fc = nn.Linear(config.taps * width, width, bias=False)
        self.ahead_in = nn.Parameter(torch.randn(config.block - 1, config.rank, width) * width**-0.5)
        self.ahead_out = nn.Parameter(torch.zeros(config.block - 1, width, config.rank))
        self.mask = nn.Parameter(torch.zeros(config.block - 1, width))
        self.reveal = nn.Linear(width, width, bias=False)
        # The first layer reads u as EAGLE's does, so that a trained EAGLE head is where this one begins.
        self.layers = nn.ModuleList(DecoderLayer(config.shape, first_norm=k > 0) for k in range(config.layers))
        self.link = Link(width, config.link) if config.link else None
        nn.init.zeros_(self.tap_fc.weight)
        for layer in self.layers[1:]:
            nn.init.zeros_(layer.self_attn.o_proj.weight)
            nn.init.zeros_(layer.mlp.down_proj.weight)

    def begin_from(self, eagle: EagleHead) -> None:
        """Take over an EAGLE head's weights: every offset then begins as its first prediction."""
        self.fc.load_state_dict(eagle.fc.state_dict())
        self.layers[0].load_state_dict(eagle.layer.state_dict())

    def fuse(self, states: Tensor, embedding: Tensor) -> Tensor:
        """Make the context rows (B, R, d) of target states (B, R, K + 1, d) and of the tokens that followed them."""
        taps = unit_rms(states[..., : self.config.taps, :]) * self.tap_scale[:, None].to(states.dtype)
        feature = states[..., -1, :] + self.tap_fc(taps.flatten(-2))
        return torch.as_tensor(self.fc(torch.cat([feature, embedding], dim=-1)))

    def start(self, last: Tensor, root: Tensor, revealed: Tensor | None = None) -> Tensor:
        """Make the first rows (N, L, d) of blocks behind context rows (N, d); ``revealed`` (N, r, d) embeddings."""
        inner = torch.einsum("nd,jrd->njr", last, self.ahead_in.to(last.dtype))
        later = last[:, None] + torch.einsum("njr,jer->nje", inner, self.ahead_out.to(last.dtype))
        given = self.mask.to(last.dtype).expand(len(last), -1, -1)
        if revealed is not None and (count := revealed.shape[1]):
            given = torch.cat([self.reveal(revealed), given[:, count:]], dim=1)
        return torch.cat([last[:, None], later + given], dim=1)

    def extend(self, predicted: Tensor, revealed: Tensor, root: Tensor) -> Extension:
        """Start another block behind r offsets of a first one, whose predicted features stand in for the target's.

        Parameters
        ----------
        predicted, revealed
            (1, r, d) features of the first block, and embeddings of the tokens chosen there.
        root
            (1, d) embedding of the first root.
        """
        context = self.fc(torch.cat([predicted, revealed], dim=-1))
        return Extension(context, self.start(context[:, -1], revealed[:, -1]), revealed.shape[1], 0)

    def positions(self, roots: Tensor, count: int | None = None) -> Tensor:
        """Give the positions (N, L) of the rows of blocks behind roots at positions (N,)."""
        return roots[:, None] - 1 + torch.arange(self.config.block if count is None else count, device=roots.device)

    def context(self, fused: Tensor, positions: Tensor) -> tuple[Keys, ...]:
        """Give what context rows (B, R, d) offer to each layer."""
        return tuple(layer.keys(fused, positions) for layer in self.layers)  # type: ignore[operator]

    def forward(self, rows: Tensor, positions: Tensor, seen: tuple[Keys, ...], mask: Tensor) -> Tensor:
        """Map block rows (B, M, d) to predicted features; ``mask`` is over the context and, behind it, these rows."""
        for layer, context in zip(self.layers, seen, strict=True):
            rows = layer(rows, positions, context.join(layer.keys(rows, positions)), mask)  # type: ignore[operator]
        return rows

    def output(self, frozen: Frozen) -> Tensor:
        """Give the output weights (D, d): the target's."""
        return frozen.head


class DiffusionBlock(nn.Module):
    """The paper's head (GLANCE 3.2; DFlash): a masked block with attention to the fused states of k target layers.

    The context row of source t is norm(W [f_t^1 ; ... ; f_t^k]), which every layer turns into keys and values by its
    own projections. The block holds the root's embedding and L masks, or the embeddings of tokens that are revealed;
    its rows see the context and each other, and those behind the root give the offsets.
    """

    rows_before = 1

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.config = config
        width = config.shape.hidden
        self.fc = nn.Linear(config.taps * width, width, bias=False)
        self.tap_scale = nn.Parameter(torch.ones(config.taps))
        self.hidden_norm = RMSNorm(width, config.shape.eps)
        self.mask = nn.Parameter(torch.zeros(width))
        self.layers = nn.ModuleList(DecoderLayer(config.shape) for _ in range(config.layers))
        self.norm = RMSNorm(width, config.shape.eps)

    def fuse(self, states: Tensor, embedding: Tensor) -> Tensor:
        """Make the context rows (B, R, d) of target states (B, R, K, d); the tokens behind them are not read."""
        taps = states[..., : self.config.taps, :] * self.tap_scale[:, None].to(states.dtype)
        return torch.as_tensor(self.hidden_norm(self.fc(taps.flatten(-2))))

    def start(self, last: Tensor, root: Tensor, revealed: Tensor | None = None) -> Tensor:
        """Make the first rows (N, 1 + L, d) of blocks behind roots with embeddings (N, d)."""
        given = self.mask.to(root.dtype).expand(len(root), self.config.block, -1)
        if revealed is not None and (count := revealed.shape[1]):
            given = torch.cat([revealed, given[:, count:]], dim=1)
        return torch.cat([root[:, None], given], dim=1)

    def extend(self, predicted: Tensor, revealed: Tensor, root: Tensor) -> Extension:
        """Start a longer block with r tokens revealed: see `FeatureBlock.extend`."""
        masks = self.mask.to(root.dtype).expand(1, self.config.block, -1)
        rows = torch.cat([root[:, None], revealed, masks], dim=1)
        return Extension(None, rows, 0, revealed.shape[1])

    def positions(self, roots: Tensor, count: int | None = None) -> Tensor:
        """Give the positions of the rows, (N, 1 + L) unless counted otherwise, of blocks behind roots (N,)."""
        return roots[:, None] + torch.arange(1 + self.config.block if count is None else count, device=roots.device)

    def context(self, fused: Tensor, positions: Tensor) -> tuple[Keys, ...]:
        """Give what context rows (B, R, d) offer to each layer."""
        return tuple(layer.self_attn.project(fused, positions) for layer in self.layers)  # type: ignore[operator, union-attr]

    def forward(self, rows: Tensor, positions: Tensor, seen: tuple[Keys, ...], mask: Tensor) -> Tensor:
        """Map block rows (B, M, d) to what the output head reads."""
        windows = self.config.windows or (0,) * self.config.layers
        for layer, context, window in zip(self.layers, seen, windows, strict=True):
            visible = windowed(mask, positions, window, self.config.windows_causal) if window else mask
            rows = layer(rows, positions, context.join(layer.keys(rows, positions)), visible)  # type: ignore[operator]
        return torch.as_tensor(self.norm(rows))

    def output(self, frozen: Frozen) -> Tensor:
        """Give the output weights (D, d): the target's."""
        return frozen.head
