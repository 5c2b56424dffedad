"""A one-pass offer with a second one hung from the leaf of its spine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policy.candidates import Child, Marginals
from policy.errors import TreeError


@dataclass(frozen=True, eq=False)
class Extended:
    """Marginals along a block, and those of another block behind its spine.

    The spine is the most probable token at each of the first ``spine`` offsets. Below its leaf the second offer stands
    in place of the first one's deeper offsets: it was drafted with the spine revealed, and reaches past the block.

    Attributes
    ----------
    first, beyond
        Offers of the block behind the root, and of the block behind the spine's leaf.
    spine
        Offsets of the spine, 1 to L.
    """

    first: Marginals
    beyond: Marginals
    spine: int

    def __post_init__(self) -> None:
        """Refuse a spine that leaves the block."""
        if not 1 <= self.spine <= len(self.first.tokens):
            raise TreeError(f"a spine of {self.spine} offsets, the block has {len(self.first.tokens)}")

    def row(self, key: int) -> Sequence[Child]:
        """List the alternatives below a node.

        Keys 0..r are the root and the nodes of a spine of r; r + 1 + d is any other node at depth d of the first offer;
        the nodes at depth d of the second one stand behind all of those.
        """
        r, depth = self.spine, len(self.first.tokens)
        other, behind = r + 1, r + 2 + depth
        if key < r:
            best, *rest = self.first.row(key)
            return [best._replace(key=key + 1), *(child._replace(key=other + key + 1) for child in rest)]
        if key == r:
            return [child._replace(key=behind + child.key) for child in self.beyond.row(0)]
        if key < behind:
            return [child._replace(key=other + child.key) for child in self.first.row(key - other)]
        return [child._replace(key=behind + child.key) for child in self.beyond.row(key - behind)]


def confident_spine(offer: Marginals, least: float) -> int:
    """Count the leading offsets whose most probable path has at least the value ``least``."""
    values = np.cumsum(offer.log_probs[:, 0])
    return int((values >= np.log(least)).sum())
