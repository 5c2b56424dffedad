"""Profiling: what a round costs on this machine, by budget."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from lawfit.log import RoundLog
from lawfit.place import Place
from policy.candidates import Candidates
from policy.controller import FixedBudget
from policy.cost import CostTable
from runtime.drafters import Stateless
from runtime.engine import Engine
from runtime.target import Target

BUDGETS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 16, 20, 24, 31, 32)


class _FixedChain(Stateless):
    """Offers a chain of exactly ``max_nodes`` arbitrary tokens."""

    name = "profile"

    def __init__(self, max_nodes: int, vocabulary: int) -> None:
        self.max_nodes = max_nodes
        self._vocabulary = vocabulary

    def propose(self, tokens: Sequence[int], prompt_len: int, max_depth: int) -> Candidates:
        count = self.max_nodes
        drawn = np.random.default_rng(len(tokens)).integers(0, self._vocabulary, count)
        chain = np.concatenate([[tokens[-1]], drawn])
        return Candidates(chain, np.arange(-1, count), np.concatenate([[0.0], np.full(count, -1.0)]))


def profile_log(target: Target, budgets: Sequence[int] = BUDGETS, context: int = 200, repeats: int = 7) -> RoundLog:
    """Time rounds of every budget behind a context of random text; a round log with times.

    Budgets are interleaved, so that a slow spell of the machine falls on all of them; each request's first round is
    there to be left out.
    """
    rng = np.random.default_rng(0)
    prompt = rng.integers(0, target.vocabulary, context).tolist()
    engines = [Engine(target, _FixedChain(budget, target.vocabulary), FixedBudget(budget)) for budget in budgets]
    widest = max(engines, key=lambda engine: engine.drafter.max_nodes)
    request = widest.start(prompt, max_new_tokens=max(budgets) + 1)
    rows = []
    for repeat in range(repeats + 1):
        for at in rng.permutation(len(engines)).tolist():
            engine = engines[at]
            # Every round starts from the same state: a fork, whatever the target makes of random text.
            done = engine.step(request.fork(), engine.policy.start(), number=repeat)
            rows.append({"request_id": "profile", **done.row()})
    return RoundLog.from_frame(pl.DataFrame(rows), Place("profile"))


def profile(target: Target, budgets: Sequence[int] = BUDGETS) -> CostTable:
    """Measure the cost table of ``target`` on this machine (some seconds)."""
    return CostTable.fit(profile_log(target, budgets))
