"""Policies: from candidates to the tree that is verified, with the state that one request carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from policy.acceptance import Acceptance
from policy.build import best_first
from policy.candidates import Candidates
from policy.cost import CostTable
from policy.errors import TreeError
from policy.history import History, scored
from policy.level import Level
from policy.sizing import Size, choose
from policy.tree import DraftTree


@dataclass(frozen=True, eq=False)
class Decision:
    """What a policy chose for one round, with its expectation where it has one."""

    tree: DraftTree
    expected: Size | None = None


class Controller(Protocol):
    """The policy's state for one request."""

    def decide(self, candidates: Candidates, prev_entropy: float) -> Decision:
        """Choose the tree of the coming round from what is known before verification."""
        ...

    def observe(self, candidates: Candidates, decision: Decision, emitted: Sequence[int]) -> None:
        """Learn from the tokens that the round emitted, the frontier token included."""
        ...


class Policy(Protocol):
    """How large every tree is; one controller for each request."""

    def start(self) -> Controller:
        """Begin a request."""
        ...


def require_size(name: str, value: object) -> None:
    """Raise `TreeError` unless ``value`` is a whole number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise TreeError(f"{name} is {value!r}, expected a whole number of at least 0")


@dataclass(frozen=True)
class FixedBudget:
    """The same budget every round, by raw draft probability; budget 0 is plain decoding."""

    budget: int

    def __post_init__(self) -> None:
        """Refuse what is no size."""
        require_size("budget", self.budget)

    def start(self) -> Controller:
        """Begin a request; a fixed budget has no state."""
        return self

    def decide(self, candidates: Candidates, prev_entropy: float) -> Decision:
        """Take the first ``budget`` nodes, or as many as the drafter offers."""
        return Decision(best_first(candidates, candidates.root, self.budget))

    def observe(self, candidates: Candidates, decision: Decision, emitted: Sequence[int]) -> None:
        """Learn nothing."""


@dataclass(frozen=True)
class Adaptive:
    """Size every tree by calibrated acceptance and measured cost.

    Attributes
    ----------
    acceptance
        Fitted on a round log.
    cost
        Measured on this machine.
    memory
        Rounds over which the long-run token rate forgets.
    """

    acceptance: Acceptance
    cost: CostTable
    memory: float = 64.0

    def start(self) -> Controller:
        """Begin a request at the rate of plain decoding."""
        plain_ms = float(self.cost.round_ms[0])
        return AdaptiveController(self, tokens=_PRIOR_ROUNDS, ms=_PRIOR_ROUNDS * plain_ms)


# The rate of a new request is that of plain decoding, held as firmly as this many rounds.
_PRIOR_ROUNDS = 8.0


@dataclass
class AdaptiveController:
    """State of one adaptive request.

    Attributes
    ----------
    policy
        The policy it follows.
    tokens, ms
        Discounted tokens and milliseconds, whose ratio is the long-run rate.
    history
        How far the request's drafts ran.
    level
        How far its estimates came true.
    """

    policy: Adaptive
    tokens: float
    ms: float
    history: History = field(default_factory=History)
    level: Level = field(default_factory=Level)

    @property
    def rate(self) -> float:
        """Long-run tokens per ms."""
        return self.tokens / self.ms

    def decide(self, candidates: Candidates, prev_entropy: float) -> Decision:
        """Build the calibrated best-first tree once, and keep the prefix that pays."""
        cost = self.policy.cost
        calibrated = self.policy.acceptance.calibrate(candidates, prev_entropy, self.history.run_logit)
        tree = best_first(calibrated, candidates.root, cost.max_budget)
        values = self.level.factor * np.exp(tree.log_score[1:])
        size = choose(values, cost.times(tree.budget), self.rate)
        return Decision(tree.prefix(size.budget), size)

    def observe(self, candidates: Candidates, decision: Decision, emitted: Sequence[int]) -> None:
        """Update the history with the draft's run, and the rate with the round's tokens at the table's price.

        The table's price rather than the clock's: a stalled machine should not change what is drafted. A draft that was
        not verified teaches as well: the target's own tokens tell how far it would have run.
        """
        spent = decision.expected.round_ms if decision.expected else float(self.policy.cost.round_ms[0])
        keep = 1.0 - 1.0 / self.policy.memory
        self.tokens = keep * self.tokens + len(emitted)
        self.ms = keep * self.ms + spent
        if decision.tree.budget and decision.expected:
            estimate = decision.expected.accept_len / self.level.factor
            self.level = self.level.after(estimate, len(emitted) - 1)
        if candidates.count:
            self.history = self.history.after(*scored(candidates, emitted))
