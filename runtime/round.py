"""One finished round, as the log records it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from policy.candidates import Candidates
from policy.controller import Decision
from policy.tree import DraftTree
from runtime.walk import Walk


@dataclass(frozen=True)
class Times:
    """Wall-clock of the four steps of a round, ms."""

    draft_ms: float
    build_ms: float
    verify_ms: float
    commit_ms: float

    @property
    def round_ms(self) -> float:
        """The whole round."""
        return self.draft_ms + self.build_ms + self.verify_ms + self.commit_ms


@dataclass(frozen=True, eq=False)
class Round:
    """What was offered, chosen, accepted and seen in one round.

    Attributes
    ----------
    number
        0-based number of the round in its request.
    position
        Output tokens emitted before the root.
    context_len
        Committed cache rows when the round started.
    candidates, decision, outcome
        Draft, tree and walk.
    root_entropy, prev_entropy
        Entropy at the root, known after verification, and of the row that produced the root; nats.
    times
        Wall-clock of the steps.
    """

    number: int
    position: int
    context_len: int
    candidates: Candidates
    decision: Decision
    outcome: Walk
    root_entropy: float
    prev_entropy: float
    times: Times

    def row(self) -> dict[str, Any]:
        """Give the round's columns of the round log v1."""
        path = self.outcome.rows[1:]
        return {
            "round": self.number,
            "position": self.position,
            "context_len": self.context_len,
            "root_entropy": self.root_entropy,
            "prev_entropy": self.prev_entropy,
            **draft_columns(self.candidates, self.decision.tree, path),
            "truncated": self.outcome.truncated,
            **asdict(self.times),
            "round_ms": self.times.round_ms,
            "origin": "round",
        }


def draft_columns(candidates: Candidates, tree: DraftTree, path: Sequence[int]) -> dict[str, Any]:
    """Give the columns that a draft and its accepted ``path`` (tree rows below the root) determine."""
    return {
        "batch_size": 1,
        "shape": "chain" if tree.is_chain else "tree",
        "budget": tree.budget,
        "horizon": tree.horizon,
        "draft_passes": candidates.passes,
        "accept_len": len(path),
        "spine_len": tree.spine_len(path),
        "draft_entropy": candidates.entropy,
        "draft_logprobs": candidates.along(tree.tokens[tree.spine].tolist()),
        "accept_ranks": list(path),
    }
