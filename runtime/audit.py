"""The audit: speculative output against the target's own, token for token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policy.build import best_first
from policy.candidates import Candidates
from policy.controller import Controller, Decision, FixedBudget
from runtime.drafters.none import NoDrafter
from runtime.engine import Engine
from runtime.target import Target


@dataclass(frozen=True)
class RandomBudget:
    """A policy that draws every round's budget, for audits."""

    most: int
    seed: int = 0

    def start(self) -> Controller:
        """Begin a request with its own stream of budgets."""
        return _RandomController(self.most, np.random.default_rng(self.seed))


@dataclass(frozen=True)
class _RandomController:
    most: int
    rng: np.random.Generator

    def decide(self, candidates: Candidates, prev_entropy: float) -> Decision:
        return Decision(best_first(candidates, candidates.root, int(self.rng.integers(0, self.most + 1))))

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
        Difference of the two largest logits of the target's own row there: a near-tie explains a divergence in low
        precision, nothing explains it elsewhere.
    """

    position: int
    expected: int | None
    found: int | None
    gap: float


def plain_output(target: Target, prompt: Sequence[int], max_new_tokens: int) -> list[int]:
    """Decode without a drafter."""
    return Engine(target, NoDrafter(), FixedBudget(0)).generate(prompt, max_new_tokens)


def compare(target: Target, prompt: Sequence[int], expected: Sequence[int], found: Sequence[int]) -> Divergence | None:
    """Compare an output with the target's own; ``None`` where they are identical."""
    if list(expected) == list(found):
        return None
    pairs = enumerate(zip(expected, found, strict=False))
    position = next((k for k, (a, b) in pairs if a != b), min(len(expected), len(found)))
    context = [*prompt, *expected[:position]]
    logits = target.prefill(context, target.new_cache(len(context))).logits[-1]
    best, second = logits.topk(2).values.tolist()
    return Divergence(position, _at(expected, position), _at(found, position), best - second)


def _at(tokens: Sequence[int], position: int) -> int | None:
    return tokens[position] if position < len(tokens) else None
