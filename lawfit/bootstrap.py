"""The one cluster bootstrap: whole prompts are drawn again, through multinomial weights on their sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lawfit.arrays import Floats, Ints
from lawfit.errors import FitError

# Draws times prompts that are held at once.
_AT_ONCE = 4_000_000

Statistic = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class Interval:
    """Estimates with their bootstrap intervals; every array has the shape (S,) of the statistic, or () for one number.

    Attributes
    ----------
    estimate
        The statistic of the sample itself.
    low, high
        Ends of the percentile interval; NaN where fewer than two prompts were given.
    se
        Standard deviation of the draws.
    draws
        (B, S) or (B,): the statistic of each resample.
    level
        Coverage aimed at.
    """

    estimate: Floats
    low: Floats
    high: Floats
    se: Floats
    draws: Floats
    level: float

    def p_value(self, null: float = 0.0) -> Floats:
        """Two-sided share of the draws beyond ``null``, counted so that it is never 0: (2 min(m, B - m) + 1) / (B + 1).

        NaN where there are no draws.
        """
        known = ~np.isnan(self.draws)
        below = ((self.draws <= null) & known).sum(axis=0)
        above = ((self.draws >= null) & known).sum(axis=0)
        count = known.sum(axis=0)
        share = (2.0 * np.minimum(below, above) + 1.0) / (count + 1.0)
        return np.where(count > 0, np.minimum(share, 1.0), np.nan)


def cluster_sums(values: ArrayLike, cluster: Ints, weight: ArrayLike | None = None) -> Floats:
    """Add up columns by cluster.

    Parameters
    ----------
    values
        (n, K).
    cluster
        (n,) numbers >= 0; numbers that do not occur leave no row.
    weight
        (n,) weights of the rows; 1 by default.

    Returns
    -------
    Floats
        (G, K) weighted sums, in the order of the cluster numbers.
    """
    columns = np.asarray(values, dtype=np.float64).T
    occurs = np.flatnonzero(np.bincount(cluster))
    scaled = columns if weight is None else columns * np.asarray(weight, dtype=np.float64)
    return np.stack([np.bincount(cluster, weights=column)[occurs] for column in scaled], axis=1)


def bootstrap(
    sums: Floats,
    statistic: Statistic,
    *,
    strata: Ints | None = None,
    times: Floats | None = None,
    resamples: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """Bootstrap a statistic of sums over prompts by drawing prompts with replacement.

    Parameters
    ----------
    sums
        (G, K) sums of each prompt: everything that the statistic needs must be a sum over rows.
    statistic
        Maps totals (..., K) to (...,) or (..., S); called on (K,) for the estimate and on blocks (B, K) of draws.
    strata
        (G,) groups within which prompts are drawn, for comparisons of independent groups.
    times
        (G,) how many independent units of the same sums a row stands for; 1 by default, a prompt.
    resamples, seed, level
        B draws from this seed; coverage of the interval.

    Raises
    ------
    FitError
        Shapes do not agree, or an option is out of range.
    """
    sums = np.asarray(sums, dtype=np.float64)
    if sums.ndim != 2 or not len(sums) or (strata is not None and len(strata) != len(sums)):
        raise FitError(f"sums of shape {sums.shape}, expected (prompts, columns) with a stratum for each prompt")
    if resamples < 1 or not 0.0 < level < 1.0:
        raise FitError(f"resamples is {resamples} and level {level}, expected at least 1, and between 0 and 1")
    units = np.ones(len(sums)) if times is None else np.asarray(times, dtype=np.float64)
    if units.shape != (len(sums),):
        raise FitError(f"times of shape {units.shape}, expected one for each of {len(sums)} rows of sums")
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = np.asarray(statistic(units @ sums), dtype=np.float64)
        blocks = [
            np.asarray(statistic(weights @ sums), dtype=np.float64)
            for weights in _weights(units, strata, resamples, seed)
        ]
    draws = np.concatenate(blocks)
    if units.sum() < 2:
        draws = np.full_like(draws, np.nan)
    low, high, se = _summary(draws, level)
    return Interval(estimate, low, high, se, draws, level)


def _weights(units: Floats, strata: Ints | None, resamples: int, seed: int) -> Iterator[Floats]:
    """Give blocks (b, G) of how often each prompt is drawn."""
    rng = np.random.default_rng(seed)
    rows = len(units)
    groups = [np.arange(rows)] if strata is None else [np.flatnonzero(strata == s) for s in np.unique(strata)]
    block = max(1, _AT_ONCE // rows)
    sizes = [min(block, resamples - start) for start in range(0, resamples, block)]

    def draw(size: int) -> Floats:
        weights = np.empty((size, rows))
        for members in groups:
            total = units[members].sum()
            weights[:, members] = rng.multinomial(int(total), units[members] / total, size=size)
        return weights

    return map(draw, sizes)


def _summary(draws: Floats, level: float) -> tuple[Floats, Floats, Floats]:
    """Give both ends of the percentile interval and the standard deviation, over the draws that are defined."""
    tail = (1.0 - level) / 2.0
    known = ~np.isnan(draws)
    defined = known.any(axis=0)
    held = np.where(defined, draws, 0.0)  # a column without a single value would warn
    quantile = np.quantile if known.all() else np.nanquantile
    # No interpolation: a ratio may be infinite in some draws, and a quantile is then still a draw.
    low, high = quantile(held, [tail, 1.0 - tail], axis=0, method="inverted_cdf")
    with np.errstate(invalid="ignore"):
        se = np.nanstd(held, axis=0)
    low, high, se = (np.where(defined, end, np.nan) for end in (low, high, se))
    return low, high, se
