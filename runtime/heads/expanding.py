"""What heads that draft one token a pass have in common: EAGLE, HASS, EAGLE-3."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from runtime.frozen import Frozen
from runtime.heads.layers import Keys


class Expanding(Protocol):
    """A head that drafts one token a pass: EAGLE's and EAGLE-3's."""

    @property
    def config(self) -> object:
        """Sizes of the head."""
        ...

    def read(self, states: Tensor) -> Tensor:
        """Take from the target's states (..., K + 1, d) what the drafter starts from."""
        ...

    def readout(self, state: Tensor) -> Tensor:
        """Give what the output weights read of predicted states."""
        ...

    def output(self, frozen: Frozen) -> Tensor:
        """Give the output weights (D, d)."""
        ...

    def fuse(self, feature: Tensor, embedding: Tensor) -> Tensor:
        """Join states with the embeddings of the tokens that followed them."""
        ...

    def keys(self, fused: Tensor, positions: Tensor) -> Keys:
        """Give the rows that later rows may read."""
        ...

    def __call__(self, fused: Tensor, positions: Tensor, seen: Keys, mask: Tensor) -> Tensor:
        """Predict the next states."""
        ...
