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
    """

    shape: Shape
    taps: int = 3
    form: Literal["paper", "code"] = "code"
    tap_norm: bool = False
    words: int = 0


class Eagle3Head(nn.Module):
    r"""r_t = W_R [f^{low} ; f^{mid} ; f^{high}]; then r_{t+1} = D(r_t, e_{t+1}), which predicts x_{t+2}."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.config = config
        width = config.shape.hidden
        self.fc = nn.Linear(config.taps * width, width, bias=False)
        if config.form == "paper":
            self.join = nn.Linear(2 * width, width, bias=False)
            self.layer: nn.Module = DecoderLayer(config.shape)
        else:
            self.layer = PairLayer(config.shape)
        self.norm = RMSNorm(width)
        if config.words:
            self.lm_head = nn.Linear(width, config.words, bias=False)

    def read(self, states: Tensor) -> Tensor:
        """Fuse the taps among the target's states (..., K + 1, d)."""
        taps = states[..., : self.config.taps, :]
        taps = unit_rms(taps) if self.config.tap_norm else taps
        return torch.as_tensor(self.fc(taps.flatten(-2)))

    def readout(self, state: Tensor) -> Tensor:
        """Give what the output weights read of predicted states (..., d)."""
        return torch.as_tensor(self.norm(state))

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
        return torch.as_tensor(self.layer(fused, positions, seen, mask))


class PairLayer(nn.Module):
    """A decoder layer whose attention reads state and embedding side by side (B, R, 2d); it carries the state."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.width = shape.hidden
        self.input_layernorm = RMSNorm(shape.hidden)
        self.hidden_norm = RMSNorm(shape.hidden)
        self.self_attn = Attention(shape, source=2 * shape.hidden)
        self.post_attention_layernorm = RMSNorm(shape.hidden)
        self.mlp = FeedForward(shape)

    def keys(self, pair: Tensor, positions: Tensor) -> Keys:
        """Make the keys and values of rows (B, R, 2d)."""
        return self.self_attn.project(self._normed(pair), positions)

    def forward(self, pair: Tensor, positions: Tensor, seen: Keys, mask: Tensor) -> Tensor:
        """Map rows (B, R, 2d) to states (B, R, d)."""
        state = pair[..., : self.width] + self.self_attn(self._normed(pair), positions, seen, mask)
        return torch.as_tensor(state + self.mlp(self.post_attention_layernorm(state)))

    def _normed(self, pair: Tensor) -> Tensor:
        state, embedding = pair.split(self.width, dim=-1)
        return torch.cat([self.input_layernorm(embedding), self.hidden_norm(state)], dim=-1)
