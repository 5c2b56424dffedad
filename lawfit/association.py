"""How strongly accepted length goes with entropy, and with another signal once entropy is held fixed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lawfit.arrays import Floats, Ints
from lawfit.bootstrap import Interval, bootstrap, cluster_sums
from lawfit.curve import entropy_curve
from lawfit.errors import FitError, NotIdentified
from lawfit.observations import Observations


@dataclass(frozen=True, eq=False)
class Association:
    """A measure with its interval by prompt.

    Attributes
    ----------
    estimate
        Its value.
    interval
        Over prompts; ``None`` where prompts are not known, or only one.
    """

    estimate: float
    interval: Interval | None


def spearman(observations: Observations, *, resamples: int = 2000, seed: int = 0) -> Association:
    """Spearman's rank correlation of entropy and accepted length (GLANCE Table 13), with midranks for ties.

    Ranks are those of the whole log and are held fixed under the bootstrap.

    Raises
    ------
    NotIdentified
        No entropy, or one of the two does not vary.
    """
    rows = observations.with_entropy()
    x = midranks(_entropy(rows), rows.weight)
    y = midranks(rows.accept_len.astype(np.float64), rows.weight)
    return _correlation(rows, np.stack([x, y], axis=1), _pearson, resamples, seed)


def partial_correlation(
    observations: Observations, signal: ArrayLike, *, ranks: bool = False, resamples: int = 2000, seed: int = 0
) -> Association:
    """Correlation of a signal and accepted length with entropy held fixed, r(v, a | H) (GLANCE Table 13).

    Parameters
    ----------
    observations
        Rounds with an entropy in every row.
    signal
        (n,) values v of the rounds.
    ranks
        Whether to correlate midranks in place of values.

    Raises
    ------
    NotIdentified
        A variable does not vary, or is determined by another.
    FitError
        ``signal`` is not (n,) finite numbers, or a row has no entropy.
    """
    v = _signal(observations, signal)
    columns = [v, observations.accept_len.astype(np.float64), _entropy(observations)]
    if ranks:
        columns = [midranks(column, observations.weight) for column in columns]
    return _correlation(observations, np.stack(columns, axis=1), _partial, resamples, seed)


def decile_gap(observations: Observations, *, bins: int = 10, resamples: int = 2000, seed: int = 0) -> Association:
    """Mean accepted length in the lowest decile of entropy, over that in the highest (GLANCE Table 13)."""
    rows = observations.with_entropy()
    curve = entropy_curve(rows, bins=bins)
    ends = np.stack([curve.bin == 0, curve.bin == len(curve.rounds) - 1], axis=1).astype(np.float64)
    columns = np.hstack([ends, ends * rows.accept_len[:, None]])

    def gap(totals: Floats) -> Floats:
        low, high = totals[..., 2] / totals[..., 0], totals[..., 3] / totals[..., 1]
        return np.asarray(low / high)

    return _measure(rows, columns, gap, resamples, seed)


def within_quintile_gap(
    observations: Observations, signal: ArrayLike, *, bins: int = 5, resamples: int = 2000, seed: int = 0
) -> Association:
    """Mean accepted length above over below the median signal, averaged over quintiles of entropy (GLANCE Table 13).

    Near 1, the signal says nothing that entropy does not.

    Raises
    ------
    NotIdentified
        In no quintile does the signal split the rounds.
    FitError
        ``signal`` is not (n,) finite numbers, or a row has no entropy.
    """
    v = _signal(observations, signal)
    curve = entropy_curve(observations, bins=bins)
    columns = []
    for k in range(len(curve.rounds)):
        inside = curve.bin == k
        above = inside & (v > weighted_median(v[inside], observations.weight[inside]))
        if above.any() and (inside & ~above).any():
            columns += [above, inside & ~above]
    if not columns:
        raise NotIdentified(f"{observations.source}: the signal does not vary within any of {bins} bins of entropy")
    halves = np.stack(columns, axis=1).astype(np.float64)
    size = halves.shape[1]

    def gap(totals: Floats) -> Floats:
        means = totals[..., size:] / totals[..., :size]
        return np.asarray((means[..., 0::2] / means[..., 1::2]).mean(axis=-1))

    return _measure(observations, np.hstack([halves, halves * observations.accept_len[:, None]]), gap, resamples, seed)


def midranks(values: Floats, weight: Floats) -> Floats:
    """Rank values from 1, ties by their mean rank, each row standing for ``weight`` equal rows; (n,)."""
    _, place = np.unique(values, return_inverse=True)
    sizes = np.bincount(place, weights=weight)
    return np.asarray((np.cumsum(sizes) - sizes + (sizes + 1.0) / 2.0)[place])


def weighted_median(values: Floats, weight: Floats) -> float:
    """Median of values that each stand for ``weight`` equal ones."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weight[order])
    ends = [int(np.searchsorted(total, place, side="right")) for place in ((total[-1] - 1) / 2, total[-1] / 2)]
    low, high = (float(values[order[min(k, len(order) - 1)]]) for k in ends)
    return 0.5 * (low + high)


def _correlation(
    rows: Observations, columns: Floats, statistic: Callable[[Floats], Floats], resamples: int, seed: int
) -> Association:
    """Bootstrap a function of the second moments of centred columns."""
    centred = columns - np.average(columns, axis=0, weights=rows.weight)
    spread = np.sqrt(np.average(centred**2, axis=0, weights=rows.weight))
    # A constant that binary fractions cannot write varies by rounding.
    if (spread <= 1e-12 * np.abs(columns).max(axis=0)).any():
        raise NotIdentified(f"{rows.source}: one of the variables does not vary, so that no correlation is defined")
    scaled = centred / spread
    size = scaled.shape[1]
    products = np.stack([scaled[:, i] * scaled[:, j] for i in range(size) for j in range(size)], axis=1)
    moments = np.hstack([np.ones((len(rows), 1)), scaled, products])

    def of_moments(totals: Floats) -> Floats:
        n, sums = totals[..., :1], totals[..., 1 : 1 + size]
        means = sums / n
        second = (totals[..., 1 + size :] / n).reshape(*totals.shape[:-1], size, size)
        return statistic(second - means[..., :, None] * means[..., None, :])

    return _measure(rows, moments, of_moments, resamples, seed)


def _measure(
    rows: Observations, columns: Floats, statistic: Callable[[Floats], Floats], resamples: int, seed: int
) -> Association:
    cluster: Ints = np.zeros(len(rows), dtype=np.int64) if rows.cluster is None else rows.cluster
    sums = cluster_sums(columns, cluster, rows.weight)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = float(statistic(sums.sum(axis=0)))
    if np.isnan(estimate):
        raise NotIdentified(f"{rows.source}: one of the variables is determined by another")
    interval = bootstrap(sums, statistic, resamples=resamples, seed=seed) if len(sums) > 1 else None
    return Association(estimate, interval)


def _pearson(covariance: Floats) -> Floats:
    """Correlation of the first two variables of (..., k, k) covariances."""
    return np.asarray(covariance[..., 0, 1] / np.sqrt(covariance[..., 0, 0] * covariance[..., 1, 1]))


def _partial(covariance: Floats) -> Floats:
    """Correlation of the first two variables given the third."""
    scale = np.sqrt(np.einsum("...ii->...i", covariance))
    r = covariance / (scale[..., :, None] * scale[..., None, :])
    ab, ac, bc = r[..., 0, 1], r[..., 0, 2], r[..., 1, 2]
    free = (1.0 - ac**2) * (1.0 - bc**2)
    return np.where(free > 1e-12, (ab - ac * bc) / np.sqrt(np.maximum(free, 1e-12)), np.nan)


def _entropy(rows: Observations) -> Floats:
    if rows.entropy is None:
        raise NotIdentified(f"{rows.source}: no row has {rows.signal}")
    return rows.entropy


def _signal(observations: Observations, signal: ArrayLike) -> Floats:
    v = np.asarray(signal, dtype=np.float64)
    if v.shape != (len(observations),) or not np.isfinite(v).all():
        raise FitError(f"signal of shape {v.shape}, expected {len(observations)} finite numbers, one per round")
    if np.isnan(_entropy(observations)).any():
        raise FitError(
            f"{observations.source}: a row has no entropy; give the rows of with_entropy(), and their signal"
        )
    return v
