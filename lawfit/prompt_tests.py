"""Two groups of rounds compared prompt by prompt: rounds of one prompt are not independent evidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lawfit.arrays import Floats
from lawfit.bootstrap import Interval, bootstrap, cluster_sums
from lawfit.errors import NotIdentified
from lawfit.observations import Observations


@dataclass(frozen=True, eq=False)
class Comparison:
    """Accepted length in two groups of rounds.

    Attributes
    ----------
    means
        Mean a of each group, over rounds; bonus excluded.
    difference
        First minus second, with its interval over prompts.
    prompts
        Of each group.
    mann_whitney_p_value
        Two-sided, of the prompts' mean accepted lengths.
    naive_p_value
        The same test on single rounds: shown for comparison, it is too small where rounds of a prompt depend.
    """

    means: tuple[float, float]
    difference: Interval
    prompts: tuple[int, int]
    mann_whitney_p_value: float
    naive_p_value: float


def compare(first: Observations, second: Observations, *, resamples: int = 2000, seed: int = 0) -> Comparison:
    """Compare two independent groups of rounds, such as two tasks; arms on the same prompts want `lawfit.arms`.

    Raises
    ------
    NotIdentified
        A group has no known prompts, or fewer than two.
    """
    from scipy.stats import mannwhitneyu

    groups = [_sums(rows) for rows in (first, second)]
    strata = np.repeat([0, 1], [len(group) for group in groups])
    sums = np.zeros((len(strata), 4))
    for k, group in enumerate(groups):
        sums[strata == k, 2 * k : 2 * k + 2] = group

    def difference(totals: Floats) -> Floats:
        return np.asarray(totals[..., 1] / totals[..., 0] - totals[..., 3] / totals[..., 2])

    per_prompt = [group[:, 1] / group[:, 0] for group in groups]
    return Comparison(
        means=(first.mean_accept_len, second.mean_accept_len),
        difference=bootstrap(sums, difference, strata=strata, resamples=resamples, seed=seed),
        prompts=(len(groups[0]), len(groups[1])),
        mann_whitney_p_value=float(mannwhitneyu(*per_prompt).pvalue),
        naive_p_value=_over_rounds(first, second),
    )


def _over_rounds(first: Observations, second: Observations) -> float:
    """Two-sided p of Mann and Whitney's U over rounds, each row as often as it counts: normal, corrected for ties."""
    from scipy.stats import norm

    longest = int(max(first.accept_len.max(), second.accept_len.max()))
    a, b = (np.bincount(rows.accept_len, weights=rows.weight, minlength=longest + 1) for rows in (first, second))
    below = np.concatenate([[0.0], np.cumsum(b)[:-1]])
    n, m, ties = a.sum(), b.sum(), a + b
    u, total = float(a @ (below + 0.5 * b)), n + m
    spread = n * m / 12.0 * (total + 1.0 - float((ties**3 - ties).sum()) / (total * (total - 1.0)))
    if spread <= 0.0:
        return 1.0
    distance = max(0.0, abs(u - n * m / 2.0) - 0.5)  # half a step of continuity
    return float(min(1.0, 2.0 * norm.sf(distance / np.sqrt(spread))))


def _sums(rows: Observations) -> Floats:
    """Give (prompts, 2): rounds and accepted tokens."""
    if rows.cluster is None:
        raise NotIdentified(f"{rows.source}: rows name no prompt_id or request_id, so that prompts cannot be compared")
    ones = np.ones(len(rows))
    sums = cluster_sums(np.stack([ones, rows.accept_len.astype(np.float64)], axis=1), rows.cluster, rows.weight)
    if len(sums) < 2:
        raise NotIdentified(f"{rows.source}: one prompt only, a comparison needs at least two in each group")
    return sums
