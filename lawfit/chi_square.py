"""Tails of test statistics, and how they are written."""

from __future__ import annotations


def in_words(p_value: float, draws: int | None = None) -> str:
    """Write a p-value: ``p 0.023``, or ``p < 0.0001`` where its digits mean nothing.

    With the number of ``draws`` behind it, the least that they can tell is written as a bound.
    """
    least = 1e-4 if draws is None else 1.0 / (draws + 1.0)
    return f"p < {least:.1g}" if p_value <= least * 1.0001 else f"p {p_value:.2g}"


def tail(statistic: float, df: int) -> float:
    """P[X >= statistic] with ``df`` degrees of freedom; a statistic below 0, by rounding, counts as 0."""
    from scipy.stats import chi2

    return float(chi2.sf(max(statistic, 0.0), df))


def wald_tail(statistic: float, df: int, clusters: int) -> float:
    """Tail of a Wald statistic whose covariance comes from so many clusters: Hotelling's, by the F distribution.

    With few clusters per coefficient the chi-square would reject far too often. NaN unless clusters exceed ``df``.
    """
    from scipy.stats import f

    if clusters <= df:
        return float("nan")
    return float(f.sf(statistic * (clusters - df) / ((clusters - 1) * df), df, clusters - df))
