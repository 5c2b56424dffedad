"""The randomised probability integral transform: whether accepted lengths are spread as a law says."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lawfit.arrays import Floats
from lawfit.calibration.units import Units
from lawfit.errors import NotIdentified
from lawfit.laws.base import Law
from lawfit.observations import Observations

# Entries of survival tables that are held at once.
_AT_ONCE = 2_000_000


@dataclass(frozen=True, eq=False)
class Pit:
    """Where each round's accepted length lies in the law's distribution.

    A round that accepted exactly a has its place in [P(A < a), P(A <= a)]; a censored round, which accepted at least a,
    in [P(A < a), 1]. Under the law a uniform draw from there is uniform on [0, 1].

    Attributes
    ----------
    low, high
        (n,) ends of the place.
    observations
        The rounds, within the law's horizon.
    """

    low: Floats
    high: Floats
    observations: Observations

    def draw(self, seed: int = 0) -> Floats:
        """Draw (n,) randomised values (Smith 1985; Dunn and Smyth 1996)."""
        rng = np.random.default_rng(seed)
        return np.asarray(self.low + rng.random(len(self.low)) * (self.high - self.low))

    def share_below(self, at: Floats) -> Floats:
        """Give (n, S) chances that a round's draw lies below each of ``at`` (S,): the transform without its noise."""
        width = np.maximum(self.high - self.low, 1e-300)[:, None]
        return np.clip((at[None, :] - self.low[:, None]) / width, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class PitTest:
    """A test of uniformity.

    Attributes
    ----------
    grid, below
        (S,) points in (0, 1), and the share of rounds that the transform puts below each; equal under the law.
    low, high
        (S,) 95% interval of ``below``, by the bootstrap over prompts.
    distance, p_value
        Largest gap between ``below`` and ``grid``, and how often resampled prompts stray so far from their own mean.
    clustered
        Whether prompts were drawn; else they are not named, and single rounds were.
    """

    grid: Floats
    below: Floats
    low: Floats
    high: Floats
    distance: float
    p_value: float
    clustered: bool = True

    @property
    def masses(self) -> Floats:
        """(S + 1,) bars of the histogram between 0, the grid and 1; each is 1 / (S + 1) under the law."""
        return np.diff(np.concatenate([[0.0], self.below, [1.0]]))


def place(law: Law, observations: Observations) -> Pit:
    """Find where each round lies in the law's distribution of a, bonus excluded.

    Raises
    ------
    NotIdentified
        The law needs an entropy and no round holds one.
    """
    rows = within(law, observations.with_entropy() if law.needs_entropy else observations)
    entropy = rows.entropy if law.needs_entropy else None
    reaches, exceeds = np.empty(len(rows)), np.empty(len(rows))
    longest = max(int(rows.trials.max(initial=0)), 1)
    step = max(1, _AT_ONCE // longest)
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        survival = law.survival(None if entropy is None else entropy[part], longest)
        survival = np.broadcast_to(survival, (len(rows.accept_len[part]), longest))
        survival = np.concatenate([np.ones((len(survival), 1)), survival, np.zeros((len(survival), 1))], axis=1)
        at = np.arange(len(survival))
        reaches[part] = survival[at, rows.accept_len[part]]
        exceeds[part] = np.where(rows.missed[part], survival[at, rows.accept_len[part] + 1], 0.0)
    return Pit(1.0 - reaches, 1.0 - exceeds, rows)


def uniformity(pit: Pit, *, points: int = 19, resamples: int = 2000, seed: int = 0) -> PitTest:
    """Test uniformity at the level of prompts; of single rounds, taken as independent, where prompts are not named.

    Raises
    ------
    NotIdentified
        There are fewer than two prompts, or rounds.
    """
    rows = pit.observations
    grid = np.arange(1, points + 1) / (points + 1)
    columns = np.hstack([np.ones((len(rows), 1)), pit.share_below(grid)])
    units = Units.of(columns, rows.weight, rows.cluster)
    if units.count < 2:
        raise NotIdentified(f"{rows.source}: the test of uniformity needs at least two prompts, or rounds without them")
    interval = units.interval(lambda totals: totals[..., 1:] / totals[..., :1], resamples=resamples, seed=seed)
    distance = float(np.abs(interval.estimate - grid).max())
    strays = np.abs(interval.draws - interval.estimate).max(axis=1)
    # Draws of G prompts spread by sqrt((G - 1) / G) too little.
    strays = strays * np.sqrt(units.count / (units.count - 1))
    p_value = (1.0 + float((strays >= distance).sum())) / (1.0 + len(strays))
    clustered = rows.cluster is not None
    return PitTest(grid, interval.estimate, interval.low, interval.high, distance, p_value, clustered)


def within(law: Law, observations: Observations) -> Observations:
    """Censor rounds at the last offset whose hazard the law knows."""
    if not law.ends or observations.longest <= law.horizon:
        return observations
    return replace(
        observations,
        horizon=np.minimum(observations.horizon, law.horizon),
        accept_len=np.minimum(observations.accept_len, law.horizon),
        missed=observations.missed & (observations.accept_len < law.horizon),
    )
