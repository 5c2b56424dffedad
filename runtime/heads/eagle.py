"""The feature drafter of EAGLE: feature and next token to the next feature (seed 000, 0x03). HASS trains the same."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from runtime.frozen import Frozen
from runtime.heads.layers import DecoderLayer, Keys, Shape


@dataclass(frozen=True)
class EagleConfig:
    """Sizes of an EAGLE head: its layer's shape."""

    shape: Shape

    def to_fields(self) -> dict[str, Any]:
        """Give plain values for a manifest."""
        return asdict(self)


class EagleHead(nn.Module):
    """u_t = W_F [f_t ; e_{t+1}] + b_F, then one decoder layer, without an input norm as in EAGLE: f_{t+1}."""

    def __init__(self, config: EagleConfig) -> None:
        super().__init__()
        self.config = config
        width = config.shape.hidden
        self.fc = nn.Linear(2 * width, width)
        self.layer = DecoderLayer(config.shape, first_norm=False)

    def read(self, states: Tensor) -> Tensor:
        """Take from the target's states (..., K + 1, d) what the drafter starts from: the final one."""
        return states[..., -1, :]

    def words(self, state: Tensor, frozen: Frozen) -> Tensor:
        """Map predicted features (..., d) to logits of the draft words, through the target's own head."""
        return frozen.logits(state.float())

    def fuse(self, feature: Tensor, embedding: Tensor) -> Tensor:
        """Join features (B, R, d) with the embeddings of the tokens that followed them."""
        return torch.as_tensor(self.fc(torch.cat([feature, embedding], dim=-1)))

    def keys(self, fused: Tensor, positions: Tensor) -> Keys:
        """Give the rows that later rows may read."""
        return self.layer.keys(fused, positions)

    def forward(self, fused: Tensor, positions: Tensor, seen: Keys, mask: Tensor) -> Tensor:
        """Predict the next features (B, R, d) of fused rows under a mask over ``seen``."""
        return torch.as_tensor(self.layer(fused, positions, seen, mask))
