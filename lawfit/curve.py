"""The observed curve of acceptance against entropy, observed survival, and how well a law follows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from lawfit.arrays import Floats, Ints
from lawfit.errors import FitError, NotIdentified
from lawfit.observations import Observations, Signal, require
from lawfit.risk import counts_by_prompt, risk_table
from lawfit.survival import MeanForm

if TYPE_CHECKING:
    from lawfit.laws.base import Law

Edges = Literal["count", "quantile"]
Z95 = 1.959963984540054


@dataclass(frozen=True, eq=False)
class Curve:
    """Mean accepted length per bin of entropy.

    Attributes
    ----------
    entropy, accept_len
        (D,) bin means: nats, and accepted draft tokens (bonus excluded).
    low
        (D,) smallest entropy in the bin.
    rounds
        (D,) rounds in the bin.
    se
        (D,) standard error of ``accept_len``; NaN where a bin holds one prompt only.
    clustered
        Whether ``se`` allows for dependence within prompts.
    bin, influence
        (n,) the bin of each row, and what the row adds to the error of its bin's mean.
    horizons, shares
        (U,) the horizons that occur, and (D, U) the share of each among the rounds of a bin.
    signal
        Which entropy it is.
    """

    entropy: Floats
    accept_len: Floats
    low: Floats
    rounds: Floats
    se: Floats
    clustered: bool
    bin: Ints
    influence: Floats
    horizons: Ints
    shares: Floats
    signal: Signal

    def interval(self) -> tuple[Floats, Floats]:
        """Give the lower and upper ends (D,) of the 95% intervals of the bin means."""
        return np.maximum(self.accept_len - Z95 * self.se, 0.0), self.accept_len + Z95 * self.se

    def expected(self, mean: Callable[[int], Floats]) -> Floats:
        """Give (D,) means of the bins, from ``mean``: horizon -> (D,) means at the bins' entropies."""
        return np.asarray(sum(self.shares[:, u] * mean(int(cap)) for u, cap in enumerate(self.horizons)))

    def r_squared(self, law: Law, form: MeanForm = "truncated") -> float:
        """Share of the variance of the bin means that ``law`` explains at the bins' mean entropies.

        GLANCE's "curve R^2"; NaN where the bin means do not vary.
        """
        fitted = self.expected(lambda cap: law.mean(self.entropy, _within(law, np.asarray(cap)), form=form))
        return r_squared(self.accept_len, fitted, np.ones_like(fitted))


def entropy_curve(observations: Observations, *, bins: int = 10, edges: Edges = "count") -> Curve:
    """Average the accepted length in bins of entropy: deciles, by default.

    Parameters
    ----------
    observations
        Rounds, of which those with an entropy are used.
    bins
        How many; bins that stay empty are dropped.
    edges
        ``count``: equally many rounds in each bin, ties broken by row order; where rows stand for several rounds,
        those of one entropy stay together. ``quantile``: bins between interpolated quantiles, closed below, the
        last one open above, as in GLANCE's public code.

    Raises
    ------
    NotIdentified
        No row holds an entropy.
    FitError
        An option is out of range.
    """
    require(edges, Edges, "edges")
    if bins < 1:
        raise FitError(f"bins is {bins}, expected at least 1")
    rows = observations.with_entropy()
    entropy = _entropy(rows)
    assign = _equal_count if edges == "count" else _quantile
    bin_ = _dense(assign(entropy, rows.weight, bins))[1]
    rounds = np.bincount(bin_, weights=rows.weight).astype(np.float64)
    accept_len = np.bincount(bin_, weights=rows.weight * rows.accept_len) / rounds
    low = np.full(len(rounds), np.inf)
    np.minimum.at(low, bin_, entropy)
    horizons, which = _dense(rows.horizon)
    shares = np.zeros((len(rounds), len(horizons)))
    np.add.at(shares, (bin_, which), rows.weight)
    influence = rows.weight * (rows.accept_len - accept_len[bin_]) / rounds[bin_]
    return Curve(
        entropy=np.bincount(bin_, weights=rows.weight * entropy) / rounds,
        accept_len=accept_len,
        low=low,
        rounds=rounds,
        se=_errors(rows, bin_, influence),
        clustered=rows.cluster is not None,
        bin=bin_,
        influence=influence,
        horizons=horizons,
        shares=shares / rounds[:, None],
        signal=rows.signal,
    )


def round_r_squared(law: Law, observations: Observations, form: MeanForm = "truncated") -> float:
    """Share of the variance of a over rounds that the law's mean explains; NaN where a does not vary."""
    entropy = None
    if law.needs_entropy:
        observations = observations.with_entropy()
        entropy = observations.entropy
    fitted = law.mean(entropy, _within(law, observations.horizon), form=form)
    return r_squared(observations.accept_len.astype(np.float64), fitted, observations.weight)


@dataclass(frozen=True, eq=False)
class SurvivalCurve:
    """Observed P[a >= l], by the product-limit estimate.

    Attributes
    ----------
    offset
        (L,) 1, 2, ..., L.
    survival
        (L,) product of the observed hazards up to the offset.
    low, high
        (L,) 95% interval, from the cluster-robust (else Greenwood's) variance of log survival.
    observations
        The rounds, over which a law's survival is averaged.
    """

    offset: Ints
    survival: Floats
    low: Floats
    high: Floats
    observations: Observations

    @property
    def clustered(self) -> bool:
        """Whether the interval allows for dependence within prompts."""
        return (self.observations.clusters or 0) > 1

    def expected(self, law: Law) -> Floats:
        """Average the law's P[a >= l | H] over the rounds; (up to L,) values."""
        last = min(len(self.offset), law.horizon) if law.ends else len(self.offset)
        if not law.needs_entropy:
            return law.survival(horizon=last)
        rows = self.observations.with_entropy()
        return np.asarray(rows.weight @ law.survival(rows.entropy, last) / rows.rounds)


def survival_curve(observations: Observations) -> SurvivalCurve:
    """Estimate P[a >= l] from rounds that may be censored.

    Raises
    ------
    NotIdentified
        No offset was seen.
    """
    table = risk_table(observations)
    if not len(table.offset):
        raise NotIdentified(f"{observations.source}: no round saw an offset")
    hazard = table.hazard
    estimate = np.asarray(np.cumprod(hazard), dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_trial = np.where(hazard > 0, 1.0 / (table.at_risk * hazard), np.nan)
        variance = np.cumsum((1.0 - hazard) * per_trial)  # Greenwood's
        trials = float(table.at_risk.sum())
        if observations.cluster is not None and trials > len(hazard):
            at_risk, matches = counts_by_prompt(observations, observations.cluster, len(hazard))
            groups = len(at_risk)
            # A prompt moves log S_l by the sum of its residuals at the offsets up to l.
            influence = np.cumsum((matches - hazard * at_risk) * per_trial, axis=1)
            if groups > 1:
                factor = groups / (groups - 1) * (trials - 1) / (trials - len(hazard))
                # From where one prompt alone goes on, there is no error between prompts.
                lonely = (at_risk > 0).sum(axis=0) < 2
                variance = np.where(lonely, np.nan, factor * (influence**2).sum(axis=0))
        spread = np.exp(Z95 * np.sqrt(variance))
    return SurvivalCurve(table.offset, estimate, estimate / spread, np.minimum(estimate * spread, 1.0), observations)


def _entropy(rows: Observations) -> Floats:
    if rows.entropy is None:
        raise NotIdentified(f"{rows.source}: no row has {rows.signal}")
    return rows.entropy


def _within(law: Law, horizon: Ints) -> Ints:
    """Hold horizons to the law's own where its hazards end."""
    return np.minimum(horizon, law.horizon) if law.ends else horizon


def _equal_count(entropy: Floats, weight: Floats, bins: int) -> Ints:
    order = np.argsort(entropy, kind="stable")
    total = np.cumsum(weight[order])
    middle = total - 0.5 * weight[order]
    if (weight > 1).any():
        # Counts come sorted by outcome: a cut through a tie would part long runs from short ones.
        first, last = (np.searchsorted(entropy[order], entropy[order], side=side) for side in ("left", "right"))
        middle = 0.5 * (total[last - 1] + total[first] - weight[order][first])
    codes = np.empty(len(entropy), dtype=np.int64)
    codes[order] = np.minimum(bins * middle / weight.sum(), bins - 1).astype(np.int64)
    return codes


def _quantile(entropy: Floats, weight: Floats, bins: int) -> Ints:
    """Cut between linear quantiles, as if each row were written ``weight`` times."""
    order = np.argsort(entropy, kind="stable")
    ordered, total = entropy[order], np.cumsum(weight[order])
    place = np.arange(1, bins) / bins * (total[-1] - 1)
    below, above = (
        ordered[np.minimum(np.searchsorted(total, k, side="right"), len(ordered) - 1)]
        for k in (np.floor(place), np.ceil(place))
    )
    cuts = below + (place - np.floor(place)) * (above - below)
    return np.searchsorted(cuts, entropy, side="right")


def _errors(rows: Observations, bin_: Ints, influence: Floats) -> Floats:
    """Give the standard errors (D,) of bin means: `cluster_covariance` with K = 1, for all bins at once."""
    if rows.cluster is None:
        # A row of weight w is w equal rounds.
        return np.sqrt(np.bincount(bin_, weights=influence**2 / rows.weight))
    codes = _dense(rows.cluster)[1]
    shape = (int(bin_.max()) + 1, int(codes.max()) + 1)
    cells = bin_ * shape[1] + codes
    sums = np.bincount(cells, weights=influence, minlength=shape[0] * shape[1]).reshape(shape)
    groups = (np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape) > 0).sum(axis=1)
    factor = np.where(groups > 1, groups / np.maximum(groups - 1, 1), np.nan)
    return np.asarray(np.sqrt(factor * (sums**2).sum(axis=1)))


def _dense(numbers: Ints) -> tuple[Ints, Ints]:
    """Give the numbers (small, >= 0) that occur, increasing, and the place of each of ``numbers`` among them.

    As ``np.unique`` with its inverse, but by counting instead of sorting.
    """
    occurs = np.bincount(numbers) > 0
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[numbers]


def r_squared(observed: Floats, fitted: Floats, weight: Floats) -> float:
    """Share of the weighted variance of ``observed`` that ``fitted`` explains; NaN where it does not vary."""
    centre = np.average(observed, weights=weight)
    total = float(weight @ (observed - centre) ** 2)
    # Equal means that binary fractions cannot write vary by rounding.
    varies = total > 1e-24 * float(weight @ observed**2)
    return 1.0 - float(weight @ (observed - fitted) ** 2) / total if varies else float("nan")
