"""Chains: the policy that verifies the drafter's most probable path alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policy.candidates import Candidates
from policy.controller import Controller, Decision, require_size
from policy.tree import DraftTree


def spine(candidates: Candidates, depth: int) -> DraftTree:
    """Build the chain of the most probable child at each node, at most ``depth`` deep."""
    key, tokens, scores = 0, [candidates.root], [0.0]
    while len(tokens) <= depth and (row := candidates.row(key)):
        tokens.append(row[0].token)
        scores.append(scores[-1] + row[0].log_prob)
        key = row[0].key
    parent = np.arange(-1, len(tokens) - 1)
    return DraftTree(np.array(tokens, dtype=np.int64), parent, np.array(scores))


@dataclass(frozen=True)
class FixedChain:
    """A chain of the same depth every round."""

    depth: int

    def __post_init__(self) -> None:
        """Refuse what is no size."""
        require_size("depth", self.depth)

    def start(self) -> Controller:
        """Begin a request; a fixed depth has no state."""
        return self

    def decide(self, candidates: Candidates, prev_entropy: float) -> Decision:
        """Take the chain, as deep as the drafter offers it."""
        return Decision(spine(candidates, self.depth))

    def observe(self, candidates: Candidates, decision: Decision, emitted: Sequence[int]) -> None:
        """Learn nothing."""
