"""How a block whose offsets are linked drafts: one pass of the block, then a small step for each level of the trie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from runtime.frozen import Frozen
from runtime.heads.link import Link
from runtime.heads.trie import Alternative, Trie, likeliest


@dataclass(frozen=True)
class Place:
    """Where the alternatives below a node come from: offset ``row`` of block ``block``, 0 or 1 (the one beyond)."""

    block: int
    row: int


class LinkedDraft:
    """Grows a trie below the root from the rows of one block pass, or of two.

    Parameters
    ----------
    link, frozen, weights
        The link, what the head borrows from its target, and the output weights (D, d).
    children
        Alternatives of each node.
    blocks
        Predicted rows (L, d) of the block behind the root, and perhaps of the block behind ``spine``.
    spine
        Tokens below whose last one the second block stands in place of the first.
    """

    def __init__(
        self,
        link: Link,
        frozen: Frozen,
        weights: Tensor,
        children: int,
        blocks: Sequence[Tensor],
        spine: Sequence[int] = (),
    ) -> None:
        self.link, self.frozen, self.weights, self.children = link, frozen, weights, children
        self.blocks, self.spine = blocks, spine
        self.places = dict[int, Place]()
        self.rows = dict[int, Tensor]()

    def __call__(self, trie: Trie, nodes: Sequence[int]) -> list[list[Alternative]]:
        """List the alternatives below each node; none where its block has ended."""
        for node in nodes:
            self.places[node] = self._place(trie, node)
        inside = [node for node in nodes if self.places[node].row < len(self.blocks[self.places[node].block])]
        if not inside:
            return [[] for _ in nodes]
        rows = self._rows(trie, inside)
        self.rows.update(zip(inside, rows, strict=True))
        found = likeliest(rows.to(self.weights.dtype) @ self.weights.T, self.children, self.frozen.draft_tokens)
        listed = dict(zip(inside, found, strict=True))
        return [listed.get(node, []) for node in nodes]

    def _place(self, trie: Trie, node: int) -> Place:
        """Place a node one offset behind its parent, or at the start of the second block."""
        if node == 0:
            return Place(0, 0)
        if len(self.blocks) > 1 and trie.depth[node] == len(self.spine) and trie.path(node) == list(self.spine):
            return Place(1, 0)
        above = self.places[trie.parent[node]]
        return Place(above.block, above.row + 1)

    def _rows(self, trie: Trie, nodes: Sequence[int]) -> Tensor:
        """Link the rows (W, d) behind the nodes; the first row of a block already knows its root."""
        places = [self.places[node] for node in nodes]
        block = torch.stack([self.blocks[place.block][place.row] for place in places])
        later = [k for k, place in enumerate(places) if place.row]
        if later:
            before = torch.stack([self.rows[trie.parent[nodes[k]]] for k in later])
            words = self.frozen.look_up([trie.tokens[nodes[k]] for k in later])[0]
            block[later] = self.link(block[later], words, before)
        return block
