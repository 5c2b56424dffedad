"""Prompt lookup: candidates copied from behind earlier occurrences of the current suffix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policy.candidates import Candidates

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class NgramDrafter:
    """Merges the continuations of several earlier matches into one trie.

    A match of length m (its last m tokens equal the last m of the context, root included) weighs 2**m. Below a node
    at depth d, a child has draft probability W_child / (W_all + escape * 2**-d): W sums the weights of the matches
    that pass there, and the escape mass shrinks with depth, because an accepted token lengthens every match by one.

    Attributes
    ----------
    min_match, max_match
        Shortest match that is used, and the length beyond which a longer one counts no more.
    matches
        Most matches that are merged, longest first, then most recent.
    depth
        Deepest candidate.
    max_nodes
        Most candidates of one offer.
    escape
        Weight of "none of these".
    """

    min_match: int = 2
    max_match: int = 16
    matches: int = 8
    depth: int = 32
    max_nodes: int = 64
    escape: float = 2.0
    name: str = "ngram"

    def __post_init__(self) -> None:
        """Refuse settings without a meaning."""
        if not (1 <= self.min_match <= self.max_match and min(self.matches, self.depth, self.max_nodes) >= 1):
            raise ValueError(f"{self}: expected 1 <= min_match <= max_match and positive matches, depth, max_nodes")

    def propose(self, tokens: Sequence[int], max_depth: int) -> Candidates:
        """Offer candidates; the offer's confidence is the length of the longest match, 0 where there is none."""
        text = np.asarray(tokens, dtype=np.int64)
        position, length = self._find(text)
        depth = min(self.depth, max_depth)
        if len(position) == 0 or depth < 1:
            return Candidates.none(int(text[-1]))
        return self._merge(text, position, length, depth)

    def _find(self, text: IntArray) -> tuple[IntArray, IntArray]:
        """Find the ends and lengths of the matches that are used, longest first, then most recent."""
        last = len(text) - 1
        position = np.flatnonzero(text[:last] == text[last])
        length = np.ones(len(position), dtype=np.int64)
        alive = np.arange(len(position))
        for back in range(1, self.max_match):
            alive = alive[position[alive] >= back]
            alive = alive[text[position[alive] - back] == text[last - back]]
            if len(alive) == 0:
                break
            length[alive] += 1
        keep = np.flatnonzero(length >= self.min_match)
        keep = keep[np.lexsort((-position[keep], -length[keep]))][: self.matches]
        return position[keep], length[keep]

    def _merge(self, text: IntArray, position: IntArray, length: IntArray, depth: int) -> Candidates:
        """Insert the continuations into a trie, and turn weights into conditional probabilities."""
        last = len(text) - 1
        tokens, parents, depths, weights = [int(text[last])], [-1], [0], [0.0]
        children: list[dict[int, int]] = [{}]
        for end, match in zip(position.tolist(), length.tolist(), strict=True):
            # A continuation that runs into the end of the text goes on from its own copy, as a loop would.
            copied = text[end + 1 + np.arange(depth) % (last - end)].tolist()
            node = 0
            for token in copied:
                child = children[node].get(token)
                if child is None:
                    if len(tokens) > self.max_nodes:
                        break
                    child = len(tokens)
                    children[node][token] = child
                    children.append({})
                    tokens.append(token)
                    parents.append(node)
                    depths.append(depths[node] + 1)
                    weights.append(0.0)
                weights[child] += 2.0**match
                node = child
        weight, parent = np.array(weights), np.array(parents)
        through = np.bincount(parent[1:], weights=weight[1:], minlength=len(tokens))
        escape = self.escape * 2.0 ** -np.array(depths)
        log_prob = np.log(np.where(parent < 0, 1.0, weight / (through + escape)[parent]))
        log_prob[0] = 0.0
        return Candidates(np.array(tokens), parent, log_prob, confidence=float(length[0]))
