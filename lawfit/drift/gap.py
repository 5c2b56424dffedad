"""The gap between what a law promises and what rounds show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from lawfit.arrays import Flags, Floats
from lawfit.bootstrap import bootstrap, cluster_sums
from lawfit.calibration.pit import within
from lawfit.drift.coefficients import Slot, moved, own_covariance, slots_of
from lawfit.laws.base import Law
from lawfit.observations import Observations

# Small against any coefficient, large against the rounding of a mean.
_STEP = 1e-5


@dataclass(frozen=True, eq=False)
class Promise:
    """What a law says of n rounds, each at its own horizon and entropy.

    Attributes
    ----------
    mean
        (n,) E[a], bonus excluded.
    accept_len
        (n,) a as observed. A round cut below its horizon by the end of its request counts what it accepted and what the
        law expects of the rest, E[a | a >= cut], so that cut rounds speak neither for nor against the law.
    slope
        (n, k) derivative of ``mean`` by the law's k coefficients; (n, 0) where its own error is not known.
    covariance
        (k, k) of the coefficients: by prompts where the fit knew them.
    other_variance
        Variance of a mean over rounds that the covariance does not tell.
    """

    mean: Floats
    accept_len: Floats
    slope: Floats
    covariance: Floats
    other_variance: float = 0.0

    def take(self, rows: Flags) -> Promise:
        """Keep the rows flagged in ``rows`` (n,)."""
        return replace(self, mean=self.mean[rows], accept_len=self.accept_len[rows], slope=self.slope[rows])


@dataclass(frozen=True)
class Gap:
    """Observed less promised mean of a, accepted draft tokens, bonus excluded.

    Attributes
    ----------
    predicted, observed
        Means over the rounds.
    se
        Standard error of the difference, by the bootstrap over prompts, the law's own error included; NaN with fewer
        than two prompts.
    low, high
        Interval of ``observed``: ``predicted`` plus that of the difference, at the level asked for.
    p_value
        Two-sided, by the t distribution with prompts - 1 degrees of freedom.
    """

    predicted: float
    observed: float
    se: float
    low: float
    high: float
    p_value: float

    @property
    def difference(self) -> float:
        """Observed - predicted."""
        return self.observed - self.predicted


def promise(law: Law, observations: Observations) -> Promise:
    """Evaluate ``law`` on rounds; those beyond its last known offset are seen up to there.

    Raises
    ------
    NotIdentified
        The law needs an entropy, and some round has none.
    """
    rows = within(law, observations)
    mean = means(law, rows)
    covariance = own_covariance(law)
    slots = () if covariance is None else slots_of(law, law.fitted.names if law.fitted else ())
    error = np.empty((0, 0)) if covariance is None else covariance
    return Promise(mean, rows.accept_len + _rest(law, rows), _slopes(law, rows, slots), error)


def measure(promised: Promise, observations: Observations, *, resamples: int, seed: int, level: float) -> Gap:
    """Compare promise and outcome over the rounds, prompt by prompt."""
    weight = observations.weight
    cluster = np.arange(len(observations)) if observations.cluster is None else observations.cluster
    columns = np.stack([np.ones_like(weight), promised.accept_len, promised.mean], axis=1)
    sums = cluster_sums(columns, cluster, weight)
    prompts = len(sums)
    spread = bootstrap(sums, lambda t: (t[..., 1] - t[..., 2]) / t[..., 0], resamples=resamples, seed=seed)
    total, came, said = sums.sum(axis=0)
    lean = weight @ promised.slope / total
    # The bootstrap of G prompts spreads by sqrt((G - 1) / G) too little.
    own = float(lean @ promised.covariance @ lean) + promised.other_variance
    variance = float(spread.se) ** 2 * prompts / max(prompts - 1, 1) + own
    se = float(np.sqrt(variance)) if prompts > 1 else float("nan")
    difference = float(came - said) / float(total)
    if not se > 0:
        p_value = float("nan") if np.isnan(se) else float(difference == 0)
    else:
        p_value = float(2.0 * stats.t.sf(abs(difference) / se, prompts - 1))
    reach = float(stats.t.ppf(1.0 - level / 2.0, max(prompts - 1, 1))) * se
    observed = float(came / total)
    return Gap(float(said / total), observed, se, max(observed - reach, 0.0), observed + reach, p_value)


def means(law: Law, rows: Observations) -> Floats:
    """Give (n,) E[a]."""
    entropy = rows.entropy if law.needs_entropy else None
    return np.asarray(np.broadcast_to(law.mean(entropy, rows.horizon), rows.horizon.shape), dtype=np.float64)


def _rest(law: Law, rows: Observations) -> Floats:
    """Give (n,) tokens that a cut round would still have accepted: sum of S_l / S_c for l = c + 1..L."""
    rest = np.zeros(len(rows))
    cut = np.flatnonzero(~rows.missed & (rows.accept_len < rows.horizon))
    for at in cut.tolist():
        entropy = rows.entropy[at] if law.needs_entropy and rows.entropy is not None else None
        hazard = law.hazard(entropy, int(rows.horizon[at]))[int(rows.accept_len[at]) :]
        rest[at] = float(np.cumprod(hazard).sum())
    return rest


def _slopes(law: Law, rows: Observations, slots: Sequence[Slot]) -> Floats:
    """Differentiate the mean (n,) by k coefficients, numerically; on the edge of a range from one side."""
    slopes = np.zeros((len(rows), len(slots)))
    for k, slot in enumerate(slots):
        sides = [(by, moved(law, slot, by)) for by in (-_STEP, _STEP)]
        ends = [(by, other) for by, other in sides if other is not None] + [(0.0, law)]
        (first, below), (second, above) = ends[:2]
        slopes[:, k] = (means(above, rows) - means(below, rows)) / (second - first)
    return slopes
