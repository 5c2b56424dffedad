"""How much of the variance of single rounds any function of entropy could explain."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lawfit.arrays import Floats
from lawfit.bootstrap import Interval, bootstrap, cluster_sums
from lawfit.curve import Edges, entropy_curve
from lawfit.errors import NotIdentified
from lawfit.observations import Observations


@dataclass(frozen=True, eq=False)
class Ceiling:
    """Share of the variance of a that lies between bins of entropy (GLANCE Proposition 2).

    Attributes
    ----------
    bins
        How many were used.
    eta_squared
        Between over total sum of squares: the paper's ceiling. It is biased up: bins of pure noise differ too, by
        (bins - 1) / (n - 1) on the average.
    epsilon_squared
        The same with the mean squares instead of the sums, 1 - (1 - eta^2) (n - 1) / (n - bins): unbiased where rounds
        are independent.
    interval
        Of (eta_squared, epsilon_squared), by prompt, less the bias of its draws: prompts drawn twice look like
        structure, so that they lie above the estimate. ``None`` where prompts are not known.
    """

    bins: int
    eta_squared: float
    epsilon_squared: float
    interval: Interval | None

    def share(self, round_r2: float) -> tuple[float, float]:
        """Give what a law's round R^2 realises of eta^2, as the paper reports it, and of epsilon^2."""
        return _ratio(round_r2, self.eta_squared), _ratio(round_r2, self.epsilon_squared)


def noise_ceiling(
    observations: Observations, *, bins: int = 50, edges: Edges = "quantile", resamples: int = 2000, seed: int = 0
) -> Ceiling:
    """Estimate the ceiling on the round R^2 of any predictor that sees entropy alone.

    Parameters
    ----------
    observations
        Rounds with an entropy. Fewer than two per bin lower the number of bins to n / 10, at least 5, as GLANCE's
        public code does.
    bins, edges
        See `lawfit.curve.entropy_curve`; the bins are held fixed under the bootstrap.
    resamples, seed
        Of the bootstrap over prompts.

    Raises
    ------
    NotIdentified
        No entropy, accepted lengths that do not vary, or no more rounds than bins.
    """
    rows = observations.with_entropy()
    if rows.rounds < 2 * bins:
        bins = max(5, int(rows.rounds) // 10)
    curve = entropy_curve(rows, bins=bins, edges=edges)
    count = len(curve.rounds)
    a = rows.accept_len.astype(np.float64)
    if a.min() == a.max() or rows.rounds <= count:
        seen = f"{rows.rounds:.0f} rounds with accept_len {a.min():.0f} to {a.max():.0f}"
        raise NotIdentified(f"{rows.source}: {seen} have no variance to share")

    def shares(totals: Floats) -> Floats:
        rounds, sums, squares = totals[..., :count], totals[..., count : 2 * count], totals[..., -1]
        n, total = rounds.sum(axis=-1), sums.sum(axis=-1)
        means = np.where(rounds > 0, sums**2 / np.where(rounds > 0, rounds, 1.0), 0.0).sum(axis=-1)
        spread = squares - total**2 / n
        within = (squares - means) / spread
        filled = (rounds > 0).sum(axis=-1)
        return np.stack([1.0 - within, 1.0 - within * (n - 1.0) / (n - filled)], axis=-1)

    cluster = np.zeros(len(rows), dtype=np.int64) if rows.cluster is None else rows.cluster
    cells = np.arange(count) == curve.bin[:, None]
    sums = cluster_sums(np.hstack([cells, cells * a[:, None], (a**2)[:, None]]), cluster, rows.weight)
    estimate = shares(sums.sum(axis=0))
    interval = _centred(bootstrap(sums, shares, resamples=resamples, seed=seed)) if len(sums) > 1 else None
    return Ceiling(count, float(estimate[0]), float(estimate[1]), interval)


def _centred(interval: Interval) -> Interval:
    """Shift an interval by the difference of its draws' mean and the estimate."""
    bias = interval.draws.mean(axis=0) - interval.estimate
    return replace(interval, low=interval.low - bias, high=interval.high - bias, draws=interval.draws - bias)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else float("nan")
