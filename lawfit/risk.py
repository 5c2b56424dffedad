"""Rounds at risk and misses by offset, over all rounds and by prompt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lawfit.arrays import Floats, Ints
from lawfit.observations import Observations


@dataclass(frozen=True, eq=False)
class RiskTable:
    """Rounds at risk and misses by offset.

    Attributes
    ----------
    offset
        (L,) 1, 2, ..., up to the last offset that any round was seen at.
    at_risk, misses
        (L,) rounds whose match or miss at the offset was seen, and those that missed.
    """

    offset: Ints
    at_risk: Floats
    misses: Floats

    @property
    def hazard(self) -> Floats:
        """(L,) share of the rounds at risk that continue."""
        return np.asarray(1.0 - self.misses / self.at_risk)


def risk_table(observations: Observations) -> RiskTable:
    """Count, for each offset, the rounds at risk and the misses."""
    trials, weight = observations.trials, observations.weight
    at_risk = np.bincount(trials, weights=weight)[::-1].cumsum()[::-1][1:].astype(np.float64)
    missed_at = observations.accept_len[observations.missed] + 1
    misses = np.bincount(missed_at, weights=weight[observations.missed], minlength=len(at_risk) + 1)[1:]
    return RiskTable(np.arange(1, len(at_risk) + 1), at_risk, misses.astype(np.float64))


def counts_by_prompt(observations: Observations, cluster: Ints, last: int) -> tuple[Floats, Floats]:
    """Count for each prompt with a trial, (G, L), the rounds at risk at offsets 1..L and those that went on."""
    shape = (int(cluster.max()) + 1, last + 1)

    def reached(depth: Ints) -> Floats:
        cells = np.bincount(cluster * shape[1] + depth, weights=observations.weight, minlength=shape[0] * shape[1])
        return np.asarray(cells.reshape(shape)[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:])

    at_risk, matches = reached(observations.trials), reached(observations.accept_len)
    seen = at_risk[:, 0] > 0
    return at_risk[seen], matches[seen]
