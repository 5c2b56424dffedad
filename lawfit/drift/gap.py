"""The gap between what a law promises and what rounds show."""

from __future__ import annotations

import math
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
# Hazards that are held at once.
_AT_ONCE = 2_000_000
# Times as many prompts as there are, beyond which nobody will look.
_MOST = 100


@dataclass(frozen=True, eq=False)
class Promise:
    """What a law says of n rounds, each at its own horizon and entropy.

    Attributes
    ----------
    mean
        (n,) E[a], bonus excluded. Of a round cut below its horizon by the end of its request only what could be seen:
        E[a] less what the law expects of the rest, E[a | a >= cut] - cut, so that cut rounds speak neither for nor
        against the law.
    accept_len
        (n,) a as logged, up to the law's last known offset.
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

    def exact(self) -> Promise:
        """Take the law as exact."""
        return replace(self, slope=self.slope[:, :0], covariance=np.empty((0, 0)), other_variance=0.0)


@dataclass(frozen=True)
class Gap:
    """Observed less promised mean of a, accepted draft tokens, bonus excluded.

    Attributes
    ----------
    predicted, predicted_se
        Promised mean over the rounds, and the law's own standard error of it; 0 where the law is taken as exact.
    observed, observed_se
        Mean over the rounds, and its standard error over prompts, from the data alone.
    rounds_se
        Standard error of the difference over prompts, without the law's own.
    units
        Prompts; rounds where prompts are not named.
    level
        1 - coverage of the intervals. All are by the t distribution with units - 1 degrees of freedom, and NaN with
        fewer than two units, as are the errors.
    """

    predicted: float
    predicted_se: float
    observed: float
    observed_se: float
    rounds_se: float
    units: float
    level: float

    @property
    def difference(self) -> float:
        """Observed - predicted."""
        return self.observed - self.predicted

    @property
    def se(self) -> float:
        """Standard error of the difference, the law's own included."""
        return math.hypot(self.rounds_se, self.predicted_se)

    @property
    def known(self) -> bool:
        """Whether there is an error at all."""
        return not math.isnan(self.rounds_se)

    @property
    def observed_low(self) -> float:
        """Lower end of the interval of ``observed``."""
        return max(self.observed - self._times * self.observed_se, 0.0)

    @property
    def observed_high(self) -> float:
        """Upper end of the interval of ``observed``."""
        return self.observed + self._times * self.observed_se

    @property
    def difference_low(self) -> float:
        """Lower end of the interval of the difference."""
        return self.difference - self._times * self.se

    @property
    def difference_high(self) -> float:
        """Upper end of the interval of the difference."""
        return self.difference + self._times * self.se

    @property
    def farthest(self) -> float:
        """Largest difference, of either sign, within the interval."""
        return max(-self.difference_low, self.difference_high)

    @property
    def p_value(self) -> float:
        """Two-sided p of no difference."""
        if not self.se > 0:
            return math.nan if math.isnan(self.se) else float(self.difference == 0)
        return float(2.0 * stats.t.sf(abs(self.difference) / self.se, self.units - 1))

    def wanting(self, allowance: float, tests: int) -> int | str:
        """Count the prompts (or rounds) that it would take beside these to tell, or say why they would not.

        As many as let a law without a difference be shown to lie within ``allowance`` four times in five, if law and
        spread of prompts stay as they are. Where these are so many already, the difference is large: then up to where
        it lies within, or where it is significant among ``tests`` (Bonferroni).
        """
        if not self.known:
            return "a single prompt shows no error"
        many = np.unique(np.ceil(self.units * np.geomspace(1.0, _MOST, 1000)))
        error = np.sqrt(self.rounds_se**2 * self.units / many + self.predicted_se**2)
        ends = stats.t.isf(self.level / 2.0, many - 1)
        # Half of the one in five at either end.
        short = (ends + stats.norm.isf(0.1)) * error > allowance
        size = abs(self.difference)
        if short[0]:
            reason = "the prompts vary too much"
        elif size <= allowance:
            short, reason = ends * error > allowance - size, "the difference is too near the tolerance"
        else:
            ends = stats.t.isf(self.level / tests / 2.0, many - 1)
            short, reason = ends * error > size, "the difference is too small"
        if not short[-1]:
            return max(int(many[np.argmin(short)] - self.units), 1)
        if self.predicted_se > self.rounds_se / math.sqrt(_MOST):
            return "the law's own error is too large for more of these to tell; fit it on more prompts"
        return f"{reason} for even {_MOST} times as many to tell"

    @property
    def _times(self) -> float:
        """Standard errors to either end."""
        return float(stats.t.isf(self.level / 2.0, max(self.units - 1, 1)))


def promise(law: Law, observations: Observations) -> Promise:
    """Evaluate ``law`` on rounds; those beyond its last known offset are seen up to there.

    Raises
    ------
    NotIdentified
        The law needs an entropy, and some round has none.
    """
    rows = within(law, observations)
    mean = _seen(law, rows)
    covariance = own_covariance(law)
    slots = () if covariance is None else slots_of(law, law.fitted.names if law.fitted else ())
    error = np.empty((0, 0)) if covariance is None else covariance
    return Promise(mean, rows.accept_len.astype(np.float64), _slopes(law, rows, slots), error)


def measure(promised: Promise, observations: Observations, *, resamples: int, seed: int, level: float) -> Gap:
    """Compare promise and outcome over the rounds, prompt by prompt; round by round where prompts are not named."""
    weight = observations.weight
    total = float(weight.sum())
    columns = np.stack([promised.accept_len, promised.accept_len - promised.mean], axis=1)
    observed, difference = (weight @ columns / total).tolist()
    if observations.cluster is None:
        units = total
        variance = weight @ (columns - columns.T @ weight / total) ** 2 / total
    else:
        sums = cluster_sums(np.column_stack([np.ones_like(weight), columns]), observations.cluster, weight)
        units = float(len(sums))
        drawn = bootstrap(sums, lambda t: t[..., 1:] / t[..., :1], resamples=resamples, seed=seed)
        variance = drawn.se**2 * units
    # Resamples of G units spread by sqrt((G - 1) / G) too little.
    errors = np.sqrt(variance / (units - 1)) if units > 1 else np.full(2, np.nan)
    lean = weight @ promised.slope / total
    # Rounding may leave a covariance without full rank a little below 0.
    own = max(float(lean @ promised.covariance @ lean), 0.0) + promised.other_variance
    return Gap(observed - difference, math.sqrt(own), observed, float(errors[0]), float(errors[1]), units, level)


def means(law: Law, rows: Observations) -> Floats:
    """Give (n,) E[a]."""
    entropy = rows.entropy if law.needs_entropy else None
    return np.asarray(np.broadcast_to(law.mean(entropy, rows.horizon), rows.horizon.shape), dtype=np.float64)


def _seen(law: Law, rows: Observations) -> Floats:
    """Give (n,) E[a] of what could be seen: of a cut round less the sum of S_l / S_c over l = c + 1..L."""
    mean = means(law, rows).copy()
    cut = np.flatnonzero(~rows.missed & (rows.accept_len < rows.horizon))
    offset = np.arange(1, rows.longest + 1)
    step = max(1, _AT_ONCE // len(offset))
    for part in (cut[start : start + step] for start in range(0, len(cut), step)):
        entropy = rows.entropy[part] if law.needs_entropy and rows.entropy is not None else None
        hazard = law.hazard(entropy, len(offset))
        rest = offset > rows.accept_len[part, None]
        chain = np.where(rest, np.where(offset <= rows.horizon[part, None], hazard, 0.0), 1.0)
        mean[part] -= np.where(rest, np.cumprod(chain, axis=1), 0.0).sum(axis=1)
    return mean


def _slopes(law: Law, rows: Observations, slots: Sequence[Slot]) -> Floats:
    """Differentiate the mean (n,) by k coefficients, numerically; on the edge of a range from one side."""
    slopes = np.zeros((len(rows), len(slots)))
    for k, slot in enumerate(slots):
        sides = [(by, moved(law, slot, by)) for by in (-_STEP, _STEP)]
        ends = [(by, other) for by, other in sides if other is not None] + [(0.0, law)]
        (first, below), (second, above) = ends[:2]
        slopes[:, k] = (_seen(above, rows) - _seen(below, rows)) / (second - first)
    return slopes
