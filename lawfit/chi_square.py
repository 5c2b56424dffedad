"""The tail of the chi-square distribution."""

from __future__ import annotations


def tail(statistic: float, df: int) -> float:
    """P[X >= statistic] with ``df`` degrees of freedom; a statistic below 0, by rounding, counts as 0."""
    from scipy.stats import chi2

    return float(chi2.sf(max(statistic, 0.0), df))
