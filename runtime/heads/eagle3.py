"""The direct drafter of EAGLE-3: several target layers and the next token to a free state (seed 000, 0x08)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from runtime.frozen import Frozen
from runtime.heads.layers import Attention, DecoderLayer, FeedForward, Keys, RMSNorm, Shape, unit_rms


@dataclass(frozen=True)
class Eagle3Config:
    """Sizes and form of an EAGLE-3 head.

    Attributes
    ----------
    shape
        Of its one layer.
    taps
        Target states that are fused: low, middle and high. The final state is not read.
    form
        ``paper``: u_t = W_I [r_t ; e_{t+1}], then a decoder layer. ``code``: as the pinned code, whose attention reads
        both parts side by side, each with a norm of its own, while r_t alone is carried on.
    tap_norm
        Whether every tap is brought to a root mean square of 1 first: a target's first row can be 100 times the others.
    words
        Draft words of an output head of its own, as in the pinned code; 0 for the target's frozen head (the paper).
    source
        Width of the target's states where it is not the head's own; 0 where it is.
    read_norm
        Learned norms before the taps are fused: one of ``each`` tap, one of all taps ``joined``, or ``none``.
    residual_norm
        Whether what is carried past the attention is the normed state, not the state itself; ``code`` form only.
    carry_norm
        Whether the state behind the last norm is what the next step starts from, not the one before it.
    """

    shape: Shape
    taps: int = 3
    form: Literal["paper", "code"] = "code"
    tap_norm: bool = False
    words: int = 0
    source: int = 0
    read_norm: Literal["none", "each", "joined"] = "none"
    residual_norm: bool = False
    carry_norm: bool = False


class Eagle3Head(nn.Module):
    r"""r_t = W_R [f^{low} ; f^{mid} ; f^{high}]; then r_{t+1} = D(r_t, e_{t+1}), which predicts x_{t+2}."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.config = config
        width, eps = config.shape.hidden, config.shape.eps
        source = config.source or width
        self.fc = nn.Linear(config.taps * source, width, bias=False)
        if config.read_norm == "each":
            self.fc_norm = nn.ModuleList(RMSNorm(source, eps) for _ in range(config.taps))
        if config.read_norm == "joined":
            self.input_norm = RMSNorm(config.taps * source, eps)
        if config.form == "paper":
            self.join = nn.Linear(2 * width, width, bias=False)
            self.layer: nn.Module = DecoderLayer(config.shape)
        else:
            self.layer = PairLayer(config.shape, residual_norm=config.residual_norm)
        self.norm = RMSNorm(width, eps)
        if config.words:
            self.lm_head = nn.Linear(width, config.words, bias=False)

    def read(self, states: Tensor) -> Tensor:
        """Fuse the taps among the target's states (..., K + 1, d)."""
        taps = states[..., : self.config.taps, :]
        taps = unit_rms(taps) if self.config.tap_norm else taps
        if self.config.read_norm == "each":
            taps = torch.stack([norm(taps[..., k, :]) for k, norm in enumerate(self.fc_norm)], dim=-2)
        joined = taps.flatten(-2)
        return torch.as_tensor(self.fc(self.input_norm(joined) if self.config.read_norm == "joined" else joined))

    def readout(self, state: Tensor) -> Tensor:
        """Give what the output weights read of predicted states (..., d)."""
        return state if self.config.carry_norm else torch.as_tensor(self.norm(state))

    def output(self, frozen: Frozen) -> Tensor:
        """Give the output weights (D, d): its own, or the target's."""
        return self.lm_head.weight if self.config.words else frozen.head

    def fuse(self, feature: Tensor, embedding: Tensor) -> Tensor:
        """Join states (B, R, d) with the embeddings of the tokens that followed them."""
        pair = torch.cat([feature, embedding], dim=-1)
        return torch.as_tensor(self.join(pair)) if self.config.form == "paper" else pair

    def keys(self, fused: Tensor, positions: Tensor) -> Keys:
        """Give the rows that later rows may read."""
        return self.layer.keys(fused, positions)  # type: ignore[no-any-return, operator]

    def forward(self, fused: Tensor, positions: Tensor, seen: Keys, mask: Tensor) -> Tensor:
        """Predict the next states (B, R, d) of fused rows under a mask over ``seen``."""
        state = torch.as_tensor(self.layer(fused, positions, seen, mask))
        return torch.as_tensor(self.norm(state)) if self.config.carry_norm else state


class PairLayer(nn.Module):
    """A decoder layer whose attention reads state and embedding side by side (B, R, 2d); it carries the state."""

    def __init__(self, shape: Shape, *, residual_norm: bool = False) -> None:
        super().__init__()
        self.width, self.residual_norm = shape.hidden, residual_norm
        self.input_layernorm = RMSNorm(shape.hidden, shape.eps)
        self.hidden_norm = RMSNorm(shape.hidden, shape.eps)
        self.self_attn = Attention(shape, source=2 * shape.hidden)
        self.post_attention_layernorm = RMSNorm(shape.hidden, shape.eps)
        self.mlp = FeedForward(shape)

    def keys(self, pair: Tensor, positions: Tensor) -> Keys:
        """Make the keys and values of rows (B, R, 2d)."""
        return self.self_attn.project(self._normed(pair), positions)

    def forward(self, pair: Tensor, positions: Tensor, seen: Keys, mask: Tensor) -> Tensor:
        """Map rows (B, R, 2d) to states (B, R, d)."""
        normed = self._normed(pair)
        carried = normed[..., self.width :] if self.residual_norm else pair[..., : self.width]
        state = carried + self.self_attn(normed, positions, seen, mask)
        return torch.as_tensor(state + self.mlp(self.post_attention_layernorm(state)))

    def _normed(self, pair: Tensor) -> Tensor:
        state, embedding = pair.split(self.width, dim=-1)
        return torch.cat([self.input_layernorm(embedding), self.hidden_norm(state)], dim=-1)
