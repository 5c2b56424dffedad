"""Goodness of fit: observed accepted lengths against those that a law expects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lawfit import chi_square
from lawfit.arrays import Floats
from lawfit.bootstrap import cluster_sums
from lawfit.errors import FitError, NotIdentified
from lawfit.laws.base import Law
from lawfit.observations import Observations


@dataclass(frozen=True)
class Goodness:
    """Pearson's chi-square over classes of accepted length, or of misses by offset where some rounds were cut.

    Attributes
    ----------
    what
        ``accepted lengths``, or ``misses by offset``.
    low, high
        Smallest and largest a of each class (bonus excluded), or first and last offset.
    observed, expected
        Rounds, or misses, per class.
    statistic, df, p_value
        Pearson's chi-square, its degrees of freedom, and the tail; as if rounds were independent.
    design_effect
        How many times the variance of a class count exceeds that of independent rounds, on the average of the
        classes; ``None`` where prompts are not known.
    corrected_p_value
        Tail after division by the design effect (Rao and Scott's first-order correction); ``None`` likewise.
    """

    what: str
    low: tuple[int, ...]
    high: tuple[int, ...]
    observed: tuple[float, ...]
    expected: tuple[float, ...]
    statistic: float
    df: int
    p_value: float
    design_effect: float | None
    corrected_p_value: float | None


def goodness_of_fit(
    law: Law, observations: Observations, *, parameters: int | None = None, smallest: float = 5.0
) -> Goodness:
    """Test a law by Pearson's chi-square, pooling neighbouring classes until each expects enough.

    Every round is expected within its own horizon (and at its own entropy, where the law needs one). Where the end of
    a request cut some rounds, their lengths have no distribution that the law alone gives, and leaving them out would
    select the others by outcome: then misses are compared at each offset, among the rounds at risk there.

    Parameters
    ----------
    law
        Fitted, or from coefficients.
    observations
        Rounds.
    parameters
        Coefficients fitted to these rounds: by default those of a law with fit details, else 0. A law frozen on
        other rounds has 0.
    smallest
        Least expected rounds in a class.

    Raises
    ------
    NotIdentified
        Fewer than two classes are left, or none is left for a degree of freedom.
    FitError
        An option is out of range.
    """
    if smallest <= 0.0:
        raise FitError(f"smallest is {smallest}, expected a number above 0")
    rows = observations.with_entropy() if law.needs_entropy else observations
    whole = bool((rows.missed | (rows.accept_len == rows.horizon)).all())
    what, cells = ("accepted lengths", _lengths(law, rows)) if whole else ("misses by offset", _misses(law, rows))
    starts = _classes(cells.scarce, smallest)
    given = len(law.fitted.names) if law.fitted else 0
    count = len(starts)
    # Lengths add up to the rounds, which costs a degree of freedom; misses at different offsets do not.
    df = count - int(whole) - (given if parameters is None else parameters)
    if count < 2 or df < 1:
        raise NotIdentified(f"{rows.source}: {count} classes that expect {smallest:g} give {df} degrees of freedom")
    residual = np.add.reduceat(cells.residual, starts, axis=1)
    variance = np.add.reduceat(cells.variance, starts)
    statistic = float(((rows.weight @ residual) ** 2 / variance).sum())
    # Lengths are judged by their expectation, as Pearson does; the design effect by their binomial variance.
    effect = _design_effect(rows, residual, rows.weight @ _own_variance(cells, starts))
    return Goodness(
        what=what,
        low=tuple(int(start) + cells.first for start in starts),
        high=(*(int(start) - 1 + cells.first for start in starts[1:]), cells.residual.shape[1] - 1 + cells.first),
        observed=tuple(float(value) for value in np.add.reduceat(cells.observed, starts)),
        expected=tuple(float(value) for value in np.add.reduceat(cells.expected, starts)),
        statistic=statistic,
        df=df,
        p_value=chi_square.tail(statistic, df),
        design_effect=effect,
        corrected_p_value=None if effect is None else chi_square.tail(statistic / effect, df),
    )


@dataclass(frozen=True, eq=False)
class _Cells:
    """What is counted.

    (n, C) residuals and chances by round; (C,) counts, expectations, variances, and the scarcer of both sides.
    """

    first: int
    residual: Floats
    chance: Floats
    observed: Floats
    expected: Floats
    variance: Floats
    scarce: Floats


def _lengths(law: Law, rows: Observations) -> _Cells:
    chance = _chances(law, rows)
    expected = rows.weight @ chance
    hit = (np.arange(chance.shape[1]) == rows.accept_len[:, None]).astype(np.float64)
    return _Cells(0, hit - chance, chance, rows.weight @ hit, expected, expected, expected)


def _misses(law: Law, rows: Observations) -> _Cells:
    last = int(rows.trials.max())
    _require_reach(law, rows, last)
    hazard = np.broadcast_to(law.hazard(rows.entropy if law.needs_entropy else None, last), (len(rows), last))
    offset = np.arange(1, last + 1)
    at_risk = rows.trials[:, None] >= offset
    chance = np.where(at_risk, 1.0 - hazard, 0.0)
    missed = (rows.missed[:, None] & (rows.accept_len[:, None] + 1 == offset)).astype(np.float64)
    expected, variance = rows.weight @ chance, rows.weight @ (chance * np.where(at_risk, hazard, 0.0))
    scarce = np.minimum(expected, rows.weight @ at_risk - expected)
    return _Cells(1, missed - chance, chance, rows.weight @ missed, expected, variance, scarce)


def _own_variance(cells: _Cells, starts: list[int]) -> Floats:
    """Give the (n, classes) binomial variance of each round in each class."""
    if cells.first:
        return np.asarray(np.add.reduceat(cells.chance * (1.0 - cells.chance), starts, axis=1))
    pooled = np.add.reduceat(cells.chance, starts, axis=1)
    return np.asarray(pooled * (1.0 - pooled))


def _require_reach(law: Law, rows: Observations, offset: int) -> None:
    if law.ends and offset > law.horizon:
        raise NotIdentified(f"{rows.source}: rounds reach offset {offset}, the {law.name} law ends at {law.horizon}")


def _chances(law: Law, rows: Observations) -> Floats:
    """Give (n, L + 1) probabilities of each accepted length within each round's horizon."""
    longest = rows.longest
    _require_reach(law, rows, longest)
    tail = np.atleast_2d(law.survival(rows.entropy if law.needs_entropy else None, longest))
    tail = np.broadcast_to(tail, (len(rows), longest))
    tail = np.where(np.arange(1, longest + 1) <= rows.horizon[:, None], tail, 0.0)
    bounded = np.concatenate([np.ones((len(rows), 1)), tail, np.zeros((len(rows), 1))], axis=1)
    return np.asarray(-np.diff(bounded, axis=1))


def _classes(expected: Floats, smallest: float) -> list[int]:
    """Give the first length of each class."""
    starts, held = [], 0.0
    for length in range(len(expected) - 1, -1, -1):
        held += float(expected[length])
        if held >= smallest:
            starts.append(length)
            held = 0.0
    # What is left at the short end joins the class after it.
    return [0, *sorted(starts)[1:]] if starts else [0]


def _design_effect(rows: Observations, residual: Floats, independent: Floats) -> float | None:
    """Average, over classes, the clustered over the independent variance of the class counts."""
    if rows.cluster is None or (rows.clusters or 0) < 2:
        return None
    sums = cluster_sums(residual, rows.cluster, rows.weight)
    groups = len(sums)
    clustered = groups / (groups - 1) * ((sums - sums.mean(axis=0)) ** 2).sum(axis=0)
    known = independent > 0
    return float(np.mean(clustered[known] / independent[known]))
