"""Prompt lookup: candidates copied from behind earlier occurrences of the current suffix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lawfit.errors import LawfitError
from policy.candidates import Candidates
from runtime.drafters import Stateless

IntArray = NDArray[np.int64]

# Beyond this a longer match weighs no more: 2**1024 is no float.
_LONGEST = 500


@dataclass(frozen=True)
class NgramDrafter(Stateless):
    """Merges the continuations of several earlier matches into one trie.

    A match of length m (its last m tokens equal the last m of the context, root included) weighs 2**m. Below a node
    at depth d, a child has draft probability W_child / (W_all + escape): W sums the weights of the matches that pass
    there. Where those lie in the prompt the escape mass halves with every accepted token, as if the match grew: a text
    that is being copied goes on being copied. A phrase of the request's own output promises no such run, and its
    escape mass stays.

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
            raise LawfitError(f"{self}: expected 1 <= min_match <= max_match and positive matches, depth, max_nodes")

    def propose(self, tokens: Sequence[int], prompt_len: int, max_depth: int) -> Candidates:
        """Offer candidates; the offer's confidence is the length of the longest match, 0 where there is none."""
        text = np.asarray(tokens, dtype=np.int64)
        end, length = self._find(text)
        depth = min(self.depth, max_depth)
        if len(end) == 0 or depth < 1:
            return Candidates.none(int(text[-1]))
        trie = _Trie(int(text[-1]), self.max_nodes)
        for at, match in zip(end.tolist(), length.tolist(), strict=True):
            # A continuation that runs into the end of the text goes on from its own copy, as a loop would.
            copied = text[at + 1 + np.arange(depth) % (len(text) - 1 - at)]
            trie.insert(copied.tolist(), 2.0 ** min(match, _LONGEST), in_prompt=at < prompt_len)
        return trie.candidates(self.escape, confidence=float(length[0]))

    def _find(self, text: IntArray) -> tuple[IntArray, IntArray]:
        """Find the ends and lengths of the matches that are used, longest first, then most recent."""
        last = len(text) - 1
        end = np.flatnonzero(text[:last] == text[last])
        length = np.ones(len(end), dtype=np.int64)
        alive = np.arange(len(end))
        for back in range(1, self.max_match):
            alive = alive[end[alive] >= back]
            alive = alive[text[end[alive] - back] == text[last - back]]
            if len(alive) == 0:
                break
            length[alive] += 1
        keep = np.flatnonzero(length >= self.min_match)
        keep = keep[np.lexsort((-end[keep], -length[keep]))][: self.matches]
        return end[keep], length[keep]


class _Trie:
    """A trie under construction, with the weights of the matches that pass through each node."""

    def __init__(self, root: int, max_nodes: int) -> None:
        self.max_nodes = max_nodes
        self.tokens, self.parents, self.depths = [root], [-1], [0]
        self.weights: list[list[float]] = [[0.0, 0.0]]  # of matches in the output, in the prompt
        self.children: list[dict[int, int]] = [{}]

    def insert(self, tokens: Sequence[int], weight: float, *, in_prompt: bool) -> None:
        """Add one continuation, as far as there is room for new nodes."""
        node = 0
        for token in tokens:
            child = self.children[node].get(token)
            if child is None:
                if len(self.tokens) > self.max_nodes:
                    return
                child = self._add(node, token)
            self.weights[child][in_prompt] += weight
            node = child

    def candidates(self, escape: float, confidence: float) -> Candidates:
        """Turn weights into conditional probabilities."""
        weight, parent, depth = np.array(self.weights), np.array(self.parents), np.array(self.depths)
        through = np.stack(
            [np.bincount(parent[1:], weights=weight[1:, k], minlength=len(parent)) for k in (0, 1)], axis=1
        )
        total = through.sum(axis=1)
        shrunk = through[:, 0] + through[:, 1] * 2.0**-depth
        mass = total + escape * np.divide(shrunk, total, out=np.ones(len(total)), where=total > 0)
        log_prob = np.log(np.where(parent < 0, 1.0, weight.sum(axis=1)) / np.where(parent < 0, 1.0, mass[parent]))
        return Candidates(np.array(self.tokens), parent, log_prob, confidence)

    def _add(self, parent: int, token: int) -> int:
        node = len(self.tokens)
        self.children[parent][token] = node
        self.children.append({})
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(self.depths[parent] + 1)
        self.weights.append([0.0, 0.0])
        return node
