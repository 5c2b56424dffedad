"""What a drafter offers: a trie of candidate tokens with their conditional draft probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from policy.errors import TreeError
from policy.tree import BoolArray, FloatArray, IntArray


class Child(NamedTuple):
    """One alternative below a node: conditional log probability, token, and the key of its own row."""

    log_prob: float
    token: int
    key: int


class Rows(Protocol):
    """Candidates as `policy.build.best_first` reads them."""

    def row(self, key: int) -> Sequence[Child]:
        """List the alternatives below the node ``key`` (0 is the root), most probable first."""
        ...


@dataclass(frozen=True, eq=False)
class Candidates:
    """A trie of candidate nodes, as n-gram and expanding drafters produce it.

    Attributes
    ----------
    tokens, parent : (M+1,) int64
        Row 0 is the root; ``parent[i] < i``.
    log_prob : (M+1,) float64
        Conditional log draft probability of each node given its parent; 0 at the root. Siblings sum to at most 1:
        omitted mass is allowed (EAGLE-2 expansion rule).
    confidence : float
        The drafter's own confidence before any token is verified; the match length of an n-gram drafter.
    passes : int
        Forward passes that drafting took.
    """

    tokens: IntArray
    parent: IntArray
    log_prob: FloatArray
    confidence: float = 0.0
    passes: int = 0

    def __post_init__(self) -> None:
        """Refuse arrays that are no trie of probabilities."""
        count = len(self.tokens)
        if not len(self.parent) == len(self.log_prob) == count or count == 0:
            raise TreeError(f"candidates have lengths {count}, {len(self.parent)}, {len(self.log_prob)}, expected one")
        if self.parent[0] != -1 or ((self.parent[1:] < 0) | (self.parent[1:] >= np.arange(1, count))).any():
            raise TreeError("candidate parents must be earlier rows, and row 0 the root with parent -1")
        if np.isnan(self.log_prob).any() or (self.log_prob > 0).any() or self.log_prob[0] != 0:
            raise TreeError("candidate log probabilities must be at most 0, and 0 at the root")
        if count > 1:
            mass = np.bincount(self.parent[1:], weights=np.exp(self.log_prob[1:]))
            if mass.max() > 1 + 1e-6:
                raise TreeError(
                    f"siblings below row {int(mass.argmax())} have mass {mass.max():.6f}, expected at most 1"
                )

    @property
    def root(self) -> int:
        """The pending token."""
        return int(self.tokens[0])

    @property
    def count(self) -> int:
        """Candidate nodes, root excluded."""
        return len(self.tokens) - 1

    @cached_property
    def _rows(self) -> tuple[tuple[Child, ...], ...]:
        rows: list[list[Child]] = [[] for _ in self.tokens]
        for node in range(1, len(self.tokens)):
            child = Child(float(self.log_prob[node]), int(self.tokens[node]), node)
            rows[self.parent[node]].append(child)
        return tuple(tuple(sorted(row, key=lambda child: -child.log_prob)) for row in rows)

    def row(self, key: int) -> Sequence[Child]:
        """List the children of node ``key``, most probable first; ties keep the drafter's order."""
        return self._rows[key]

    def along(self, tokens: Sequence[int]) -> list[float]:
        """Conditional log draft probabilities of a path of ``tokens`` below the root.

        Raises
        ------
        TreeError
            The path leaves the candidates.
        """
        key, log_probs = 0, list[float]()
        for token in tokens:
            child = next((child for child in self._rows[key] if child.token == token), None)
            if child is None:
                raise TreeError(f"token {token} is no candidate at offset {len(log_probs) + 1}")
            log_probs.append(child.log_prob)
            key = child.key
        return log_probs

    @cached_property
    def depth(self) -> IntArray:
        """Depth of each node (M+1,), 0 at the root."""
        depth = np.zeros(len(self.tokens), dtype=np.int64)
        for node in range(1, len(depth)):
            depth[node] = depth[self.parent[node]] + 1
        return depth

    @cached_property
    def is_top(self) -> BoolArray:
        """Whether each node (M+1,) is the most probable child of its parent; false at the root."""
        top = np.zeros(len(self.tokens), dtype=np.bool_)
        top[[row[0].key for row in self._rows if row]] = True
        return top

    @property
    def entropy(self) -> float | None:
        """Draft entropy at offset 1 in nats, the omitted mass counted as one symbol; ``None`` without a draft."""
        if not self._rows[0]:
            return None
        probs = np.exp([child.log_prob for child in self._rows[0]])
        probs = np.append(probs, max(0.0, 1.0 - probs.sum()))
        return float(-(probs[probs > 0] * np.log(probs[probs > 0])).sum())

    @classmethod
    def none(cls, root: int) -> Candidates:
        """Make the offer of a drafter that has nothing to offer."""
        return cls(np.array([root]), np.array([-1]), np.zeros(1))


@dataclass(frozen=True, eq=False)
class Marginals:
    """One-pass candidates: the same marginal at every node of a depth (GLANCE Assumption 1).

    Attributes
    ----------
    root : int
        The pending token.
    tokens : (L, K) int64
        Top-K tokens at every offset, most probable first.
    log_probs : (L, K) float64
        Their log probabilities.
    """

    root: int
    tokens: IntArray
    log_probs: FloatArray

    @cached_property
    def _rows(self) -> tuple[tuple[Child, ...], ...]:
        rows = []
        for offset, (tokens, log_probs) in enumerate(zip(self.tokens, self.log_probs, strict=True), 1):
            order = np.argsort(-log_probs, kind="stable")
            rows.append(tuple(Child(float(log_probs[k]), int(tokens[k]), offset) for k in order))
        return (*rows, ())

    def row(self, key: int) -> Sequence[Child]:
        """List the alternatives at offset ``key + 1``."""
        return self._rows[key]

    def prefix(self, depth: int) -> Marginals:
        """Keep the first ``depth`` offsets."""
        return Marginals(self.root, self.tokens[:depth], self.log_probs[:depth])
