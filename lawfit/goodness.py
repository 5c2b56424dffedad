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
    """Pearson's chi-square over classes of accepted length.

    Attributes
    ----------
    low, high
        Smallest and largest a of each class; bonus excluded.
    observed, expected
        Rounds per class.
    statistic, df, p_value
        Pearson's chi-square, its degrees of freedom, and the tail; as if rounds were independent.
    design_effect
        How many times the variance of a class count exceeds that of independent rounds, on the average of the
        classes; ``None`` where prompts are not known.
    corrected_p_value
        Tail after division by the design effect (Rao and Scott's first-order correction); ``None`` likewise.
    left_out
        Rounds that the end of their request cut: what they would have accepted is not known.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    observed: tuple[float, ...]
    expected: tuple[float, ...]
    statistic: float
    df: int
    p_value: float
    design_effect: float | None
    corrected_p_value: float | None
    left_out: float


def goodness_of_fit(
    law: Law, observations: Observations, *, parameters: int | None = None, smallest: float = 5.0
) -> Goodness:
    """Test a law by Pearson's chi-square, pooling neighbouring lengths until each class expects enough.

    Every round is expected within its own horizon (and at its own entropy, where the law needs one). Classes are
    pooled from the longest length down, then from the shortest up.

    Parameters
    ----------
    law
        Fitted, or from coefficients.
    observations
        Rounds; those cut by the end of a request are left out.
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
    whole = rows.missed | (rows.accept_len == rows.horizon)
    kept = rows.take(whole)
    if not len(kept):
        raise NotIdentified(f"{rows.source}: every round was cut by the end of its request")
    chance = _chances(law, kept)
    expected = kept.weight @ chance
    observed = np.bincount(kept.accept_len, weights=kept.weight, minlength=chance.shape[1]).astype(np.float64)
    starts = _classes(expected, smallest)
    count = len(starts)
    given = len(law.fitted.names) if law.fitted else 0
    df = count - 1 - (given if parameters is None else parameters)
    if count < 2 or df < 1:
        raise NotIdentified(
            f"{rows.source}: {count} classes of at least {smallest:g} expected rounds give {df} degrees of freedom"
        )
    seen, hoped = np.add.reduceat(observed, starts), np.add.reduceat(expected, starts)
    statistic = float(((seen - hoped) ** 2 / hoped).sum())
    effect = _design_effect(kept, chance, starts)
    return Goodness(
        low=tuple(int(start) for start in starts),
        high=(*(int(start) - 1 for start in starts[1:]), chance.shape[1] - 1),
        observed=tuple(float(value) for value in seen),
        expected=tuple(float(value) for value in hoped),
        statistic=statistic,
        df=df,
        p_value=chi_square.tail(statistic, df),
        design_effect=effect,
        corrected_p_value=None if effect is None else chi_square.tail(statistic / effect, df),
        left_out=rows.rounds - kept.rounds,
    )


def _chances(law: Law, rows: Observations) -> Floats:
    """Give (n, L + 1) probabilities of each accepted length within each round's horizon."""
    longest = rows.longest
    if law.ends and longest > law.horizon:
        raise NotIdentified(f"{rows.source}: rounds reach offset {longest}, the {law.name} law ends at {law.horizon}")
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


def _design_effect(rows: Observations, chance: Floats, starts: list[int]) -> float | None:
    """Average, over classes, the clustered over the independent variance of the class counts."""
    if rows.cluster is None or (rows.clusters or 0) < 2:
        return None
    expected = np.add.reduceat(chance, starts, axis=1)
    place = np.searchsorted(starts, rows.accept_len, side="right") - 1
    residual = (np.arange(len(starts)) == place[:, None]) - expected
    sums = cluster_sums(residual, rows.cluster, rows.weight)
    groups = len(sums)
    clustered = groups / (groups - 1) * ((sums - sums.mean(axis=0)) ** 2).sum(axis=0)
    independent = rows.weight @ (expected * (1.0 - expected))
    return float(np.mean(clustered / independent))
