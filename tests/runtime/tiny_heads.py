"""An untrained feature head on a tiny target: it drafts nonsense, by the target's states."""

from dataclasses import dataclass

import torch

from runtime.frozen import Frozen
from runtime.heads.drafting import FeatureSession
from runtime.heads.eagle import EagleConfig, EagleHead
from runtime.heads.layers import Shape
from runtime.heads.trie import Expansion
from runtime.states import FeatureAddress


@dataclass(frozen=True, eq=False)
class TinyHeadDrafter:
    head: EagleHead
    frozen: Frozen
    expansion: Expansion
    name: str = "tiny"
    reads: FeatureAddress = FeatureAddress(())  # noqa: RUF009 - frozen

    @property
    def max_nodes(self):
        return self.expansion.max_nodes

    def start(self):
        return FeatureSession(self.head, self.frozen, self.expansion)


def tiny_head(target, depth=4, width=3, children=3, seed=0):
    torch.manual_seed(seed)
    shape = Shape(int(target.model.config.hidden_size), 4, 2, 24)
    return TinyHeadDrafter(EagleHead(EagleConfig(shape)).eval(), Frozen.of(target), Expansion(depth, width, children))
