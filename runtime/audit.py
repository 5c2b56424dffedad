"""The audit: speculative output against the target's own, token for token."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from policy.build import best_first
from policy.candidates import Candidates
from policy.controller import Controller, Decision, FixedBudget, Policy
from runtime.drafters import Drafter
from runtime.drafters.none import NoDrafter
from runtime.drafters.random import RandomDrafter
from runtime.engine import Engine
from runtime.sampling import Sampling
from runtime.target import Target


@dataclass(frozen=True)
class RandomBudget:
    """A policy that draws every round's budget, for audits; the tree is the best-first one."""

    most: int
    seed: int = 0

    def start(self) -> Controller:
        """Begin a request with its own stream of budgets."""
        return _RandomController(self.most, np.random.default_rng(self.seed), shuffle=False)


@dataclass(frozen=True)
class RandomTree:
    """A policy that verifies a random part of what is offered, of random size, in random order, for audits."""

    most: int
    seed: int = 0

    def start(self) -> Controller:
        """Begin a request with its own stream of trees."""
        return _RandomController(self.most, np.random.default_rng(self.seed), shuffle=True)


@dataclass(frozen=True)
class _RandomController:
    most: int
    rng: np.random.Generator
    shuffle: bool

    def decide(self, candidates: Candidates, prev_entropy: float) -> Decision:
        offered = self._shuffled(candidates) if self.shuffle else candidates
        return Decision(best_first(offered, candidates.root, int(self.rng.integers(0, self.most + 1))))

    def _shuffled(self, candidates: Candidates) -> Candidates:
        """Give every node a random probability that leaves its siblings theirs."""
        siblings = np.bincount(np.maximum(candidates.parent, 0), minlength=len(candidates.tokens))
        log_prob = -np.log(siblings[np.maximum(candidates.parent, 0)]) - self.rng.exponential(1.0, len(siblings))
        log_prob[0] = 0.0
        return replace(candidates, log_prob=log_prob)

    def observe(self, candidates: Candidates, decision: Decision, emitted: Sequence[int]) -> None:
        pass


@dataclass(frozen=True)
class Divergence:
    """First place where an output leaves the target's own.

    Attributes
    ----------
    position
        0-based output position.
    expected, found
        Tokens there, ``None`` where an output had ended.
    gap
        Difference of the two largest logits of the target's own row there (with their noise, where tokens are drawn): a
        near-tie explains a divergence in low precision, nothing explains it elsewhere.
    """

    position: int
    expected: int | None
    found: int | None
    gap: float


@dataclass(frozen=True, eq=False)
class System:
    """What is audited: a drafter with a policy; none of both is the target's second run."""

    name: str
    drafter: Drafter = field(default_factory=NoDrafter)
    policy: Policy = field(default_factory=lambda: FixedBudget(0))

    def engine(self, target: Target, truth: Sequence[int], seed: int, sampling: Sampling) -> Engine:
        """Make its engine for one prompt; random trees carry the ``truth`` on some branches."""
        drafter, policy = self.drafter, self.policy
        if isinstance(drafter, RandomDrafter):
            drafter = replace(drafter, seed=seed, oracle=tuple(truth))
        if isinstance(policy, RandomTree):
            policy = replace(policy, seed=seed)
        return Engine(target, drafter, policy, sampling)


def audit_prompt(
    target: Target,
    systems: Sequence[System],
    prompt: Sequence[int],
    max_new_tokens: int,
    sampling: Sampling,
    seed: int = 0,
) -> Iterator[Divergence | None]:
    """Decode a prompt plainly, then by every system; yield where each leaves the target's own output."""
    expected = plain_output(target, prompt, max_new_tokens, sampling)
    for number, system in enumerate(systems):
        engine = system.engine(target, [*prompt, *expected], seed * 1000 + number, sampling)
        yield compare(target, prompt, expected, engine.generate(prompt, max_new_tokens), sampling)


def plain_output(
    target: Target, prompt: Sequence[int], max_new_tokens: int, sampling: Sampling | None = None
) -> list[int]:
    """Decode without a drafter."""
    return Engine(target, NoDrafter(), FixedBudget(0), sampling or Sampling()).generate(prompt, max_new_tokens)


def compare(
    target: Target,
    prompt: Sequence[int],
    expected: Sequence[int],
    found: Sequence[int],
    sampling: Sampling | None = None,
) -> Divergence | None:
    """Compare an output with the target's own; ``None`` where they are identical."""
    if list(expected) == list(found):
        return None
    pairs = enumerate(zip(expected, found, strict=False))
    position = next((k for k, (a, b) in pairs if a != b), min(len(expected), len(found)))
    context = [*prompt, *expected[:position]]
    logits = target.prefill(context, target.new_cache(len(context))).logits[-1]
    *others, best = np.sort((sampling or Sampling()).scores(logits, position)).tolist()
    gap = best - others[-1] if others else math.inf
    return Divergence(position, _at(expected, position), _at(found, position), gap)


def _at(tokens: Sequence[int], position: int) -> int | None:
    return tokens[position] if position < len(tokens) else None
