"""Draft trees as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from policy.errors import TreeError

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class DraftTree:
    """A prefix-closed set of draft tokens below the root (GLANCE Definition 1).

    Row 0 is the root. Rows stand in best-first order, so **every prefix is a valid tree** and a budget is a slice.

    Attributes
    ----------
    tokens : (N+1,) int64
        Token of each row; ``tokens[0]`` is the root token.
    parent : (N+1,) int64
        Row of each node's parent; ``parent[0] == -1`` and ``parent[i] < i``.
    log_score : (N+1,) float64
        Log path value of each node; 0 at the root, never rising from parent to child.
    """

    tokens: IntArray
    parent: IntArray
    log_score: FloatArray

    def __post_init__(self) -> None:
        """Refuse arrays that are no tree."""
        rows = len(self.tokens)
        if not len(self.parent) == len(self.log_score) == rows or rows == 0:
            shapes = f"{rows}, {len(self.parent)} and {len(self.log_score)}"
            raise TreeError(f"tokens, parent and log_score have lengths {shapes}, expected one length >= 1")
        kinds = {np.asarray(values).dtype.kind for values in (self.tokens, self.parent)}
        if not kinds <= {"i", "u"} or not isinstance(self.parent, np.ndarray):
            raise TreeError("tokens and parent must be arrays of whole numbers")
        if self.tokens.min() < 0 or self.log_score[0] != 0:
            raise TreeError("tokens are not negative, and the root has log_score 0")
        if self.parent[0] != -1:
            raise TreeError(f"row 0 has parent {self.parent[0]}, expected -1: row 0 is the root")
        wrong = (self.parent[1:] < 0) | (self.parent[1:] >= np.arange(1, rows))
        if wrong.any():
            row = int(np.argmax(wrong)) + 1
            raise TreeError(f"row {row} has parent {self.parent[row]}, expected an earlier row")
        if np.isnan(self.log_score).any() or (self.log_score[1:] > self.log_score[self.parent[1:]]).any():
            raise TreeError(
                "log_score is NaN or rises from a parent to its child; conditional probabilities are at most 1"
            )
        pairs = self.parent[1:] * (int(self.tokens.max()) + 1) + self.tokens[1:]
        if len(np.unique(pairs)) != rows - 1:
            raise TreeError("two children of one node carry the same token")

    @classmethod
    def root_only(cls, token: int) -> DraftTree:
        """Make the tree of budget 0: no speculation."""
        return cls(np.array([token]), np.array([-1]), np.zeros(1))

    @property
    def budget(self) -> int:
        """Verified draft nodes N, root excluded."""
        return len(self.tokens) - 1

    @property
    def rows(self) -> int:
        """Rows of the verify pass, N + 1."""
        return len(self.tokens)

    def prefix(self, budget: int) -> DraftTree:
        """Keep the first ``budget`` nodes in best-first order (all of them where the tree is smaller)."""
        if budget < 0:
            raise TreeError(f"budget {budget}, expected >= 0")
        stop = min(budget, self.budget) + 1
        return DraftTree(self.tokens[:stop], self.parent[:stop], self.log_score[:stop])

    @cached_property
    def depth(self) -> IntArray:
        """Depth of each row (N+1,), 0 at the root."""
        depth = np.zeros(self.rows, dtype=np.int64)
        for row in range(1, self.rows):
            depth[row] = depth[self.parent[row]] + 1
        return depth

    @property
    def horizon(self) -> int:
        """Deepest offset that a round with this tree could accept."""
        return int(self.depth.max())

    @property
    def is_chain(self) -> bool:
        """Whether every node follows the row before it."""
        return bool((self.parent == np.arange(-1, self.rows - 1)).all())

    @cached_property
    def mask(self) -> BoolArray:
        """Ancestor mask (N+1, N+1): ``mask[i, j]`` where row j is row i or one of its ancestors."""
        mask = np.eye(self.rows, dtype=np.bool_)
        for row in range(1, self.rows):
            mask[row] |= mask[self.parent[row]]
        return mask

    @cached_property
    def children(self) -> tuple[dict[int, int], ...]:
        """Map token -> row of the children of every row."""
        children: tuple[dict[int, int], ...] = tuple({} for _ in range(self.rows))
        for row in range(1, self.rows):
            children[self.parent[row]][int(self.tokens[row])] = row
        return children

    @cached_property
    def spine(self) -> IntArray:
        """Rows of the top-1 path below the root: from each node its best child (first in best-first order)."""
        spine: list[int] = []
        row = 0
        while self.children[row]:
            row = min(self.children[row].values())
            spine.append(row)
        return np.array(spine, dtype=np.int64)

    def spine_len(self, path: Sequence[int]) -> int:
        """Length of the run of ``path`` (accepted rows below the root) that follows the spine."""
        pairs = enumerate(zip(path, self.spine.tolist(), strict=False))
        return next((k for k, (row, best) in pairs if row != best), min(len(path), len(self.spine)))

    @cached_property
    def paths(self) -> tuple[IntArray, ...]:
        """Retrieve indices: the rows from the root to every leaf, root included, leaves in row order."""
        leaves = np.setdiff1d(np.arange(self.rows), self.parent[1:])
        return tuple(self.path(int(leaf)) for leaf in leaves)

    def path(self, row: int) -> IntArray:
        """Rows from the root to ``row``, both included."""
        return np.flatnonzero(self.mask[row])


def chain(root: int, tokens: IntArray, log_probs: FloatArray) -> DraftTree:
    """Make the width-1 tree of ``tokens`` (N,) with conditional log probabilities ``log_probs`` (N,)."""
    return DraftTree(
        np.concatenate([[root], np.asarray(tokens, dtype=np.int64)]),
        np.arange(-1, len(tokens)),
        np.concatenate([[0.0], np.cumsum(log_probs)]),
    )
