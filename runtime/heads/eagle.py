"""The feature drafter of EAGLE: feature and next token to the next feature (seed 000, 0x03). HASS trains the same."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from runtime.frozen import Frozen
from runtime.heads.layers import DecoderLayer, Keys, Shape


@dataclass(frozen=True)
class EagleConfig:
    """Sizes of an EAGLE head.

    Attributes
    ----------
    shape
        Of its one layer.
    bias
        Whether the joining of feature and embedding has one; the published heads of Llama 3 have none.
    """

    shape: Shape
    bias: bool = True


class EagleHead(nn.Module):
    """u_t = W_F [f_t ; e_{t+1}] + b_F, then one decoder layer, without an input norm as in EAGLE: f_{t+1}."""

    def __init__(self, config: EagleConfig) -> None:
        super().__init__()
        self.config = config
        width = config.shape.hidden
        self.fc = nn.Linear(2 * width, width, bias=config.bias)
        self.layer = DecoderLayer(config.shape, first_norm=False)

    def read(self, states: Tensor) -> Tensor:
        """Take from the target's states (..., K + 1, d) what the drafter starts from: the final one."""
        return states[..., -1, :]

    def readout(self, state: Tensor) -> Tensor:
        """Give what the output weights read of predicted states (..., d): the predicted features themselves."""
        return state

    def output(self, frozen: Frozen) -> Tensor:
        """Give the output weights (D, d): the target's own."""
        return frozen.head

    def fuse(self, feature: Tensor, embedding: Tensor) -> Tensor:
        """Join features (B, R, d) with the embeddings of the tokens that followed them."""
        return torch.as_tensor(self.fc(torch.cat([feature, embedding], dim=-1)))

    def keys(self, fused: Tensor, positions: Tensor) -> Keys:
        """Give the rows that later rows may read."""
        return self.layer.keys(fused, positions)

    def forward(self, fused: Tensor, positions: Tensor, seen: Keys, mask: Tensor) -> Tensor:
        """Predict the next features (B, R, d) of fused rows under a mask over ``seen``."""
        return torch.as_tensor(self.layer(fused, positions, seen, mask))
