"""Reliability: how often what was promised came true, bin by bin, and the calibration error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from lawfit.arrays import Floats, Ints
from lawfit.calibration.units import Units
from lawfit.errors import FitError, NotIdentified

# An interval of a share that is narrower has no width.
_NO_WIDTH = 1e-9


@dataclass(frozen=True, eq=False)
class Forecast:
    """n probabilities with their outcomes.

    Attributes
    ----------
    probability, outcome, weight
        (n,) forecasts in [0, 1]; outcomes 0 or 1; weights.
    cluster
        (n,) number of each row's prompt; ``None`` where prompts are not named: a row of weight w is then w independent
        forecasts.
    """

    probability: Floats
    outcome: Floats
    weight: Floats
    cluster: Ints | None

    @classmethod
    def of(
        cls, probability: ArrayLike, outcome: ArrayLike, weight: ArrayLike | None = None, cluster: Ints | None = None
    ) -> Forecast:
        """Check and complete the columns.

        Raises
        ------
        NotIdentified
            No row has weight.
        FitError
            Shapes do not agree, or a value is out of range.
        """
        p, y = np.asarray(probability, dtype=np.float64), np.asarray(outcome, dtype=np.float64)
        w = np.ones(p.shape) if weight is None else np.asarray(weight, dtype=np.float64)
        groups = None if cluster is None else np.asarray(cluster)
        if p.ndim != 1 or not p.shape == y.shape == w.shape == (p if groups is None else groups).shape:
            named = "none" if groups is None else groups.shape
            shapes = f"probability {p.shape}, outcome {y.shape}, weight {w.shape}, cluster {named}"
            raise FitError(f"{shapes}, expected columns of one length")
        if not ((p >= 0) & (p <= 1) & ((y == 0) | (y == 1)) & (w >= 0) & np.isfinite(w)).all():
            raise FitError("expected probabilities in [0, 1], outcomes 0 or 1, and finite weights >= 0")
        if not w.sum() > 0:
            raise NotIdentified("no forecast has a weight: nothing can be scored")
        return cls(p, y, w, groups)

    @property
    def clustered(self) -> bool:
        """Whether prompts are named."""
        return self.cluster is not None

    def units(self, columns: ArrayLike) -> Units:
        """Add up columns (n, K) by prompt, or take each row as forecasts of its own."""
        return Units.of(columns, self.weight, self.cluster)

    def bins(self, count: int) -> Ints:
        """Give (n,) bin numbers of about equal weight, 0, 1, ..., in the order of the probabilities.

        Equal probabilities share a bin; what large ties leave over, less than half a fair share, goes to the bin below.
        """
        if count < 1:
            raise FitError(f"bins is {count}, expected at least 1")
        values, place = np.unique(self.probability, return_inverse=True)
        weight = np.bincount(place, weights=self.weight, minlength=len(values))
        middle = (np.cumsum(weight) - 0.5 * weight) / weight.sum()
        code = np.minimum((count * middle).astype(np.int64), count - 1)
        share = np.bincount(code, weights=weight, minlength=count) / weight.sum()
        into = np.arange(count)
        for k in range(1, count):
            if share[k] < 0.5 / count:
                into[k] = into[k - 1]
        _, merged = np.unique(into[code], return_inverse=True)
        return np.asarray(merged[place], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Reliability:
    """A reliability curve of B bins.

    Attributes
    ----------
    predicted, observed
        (B,) mean probability, and share that came true.
    low, high
        (B,) 95% interval of ``observed``, by the bootstrap over prompts. Where every prompt agrees it would have no
        width; there it is Wilson's, on the effective number of prompts.
    weight
        (B,) rows, weighted.
    ece
        Expected calibration error, sum of weight share times |observed - predicted|. It is never negative, and so
        biased upwards: compare it with ``ece_perfect``.
    ece_perfect, ece_limit
        Mean and 95% point of what ``ece`` would be if the probabilities were right: each prompt's residuals with random
        signs, which keeps the dependence within prompts.
    clustered
        Whether intervals allow for dependence within prompts.
    """

    predicted: Floats
    observed: Floats
    low: Floats
    high: Floats
    weight: Floats
    ece: float
    ece_perfect: float
    ece_limit: float
    clustered: bool


def reliability(forecast: Forecast, *, bins: int = 10, resamples: int = 2000, seed: int = 0) -> Reliability:
    """Compare probabilities with outcomes in equal-count bins.

    Parameters
    ----------
    forecast
        Probabilities and outcomes; cross-fitted ones, unless you say that they are in-sample.
    bins
        How many, at most; ties may make them fewer.
    resamples, seed
        Of the bootstrap, and of the random signs.
    """
    code = forecast.bins(bins)
    size = int(code.max()) + 1
    member = code[:, None] == np.arange(size)
    p, y = forecast.probability[:, None], forecast.outcome[:, None]
    columns = np.hstack([member, member * p, member * y])
    units = forecast.units(columns)

    def observed(totals: Floats) -> Floats:
        return np.asarray(totals[..., 2 * size :] / totals[..., :size])

    spread = units.interval(observed, resamples=resamples, seed=seed)
    weight, promised, came = np.split(units.total, 3)
    # Draws of prompts that agree are all alike: not that there is no error, but that they cannot show it.
    alike = spread.high - spread.low < _NO_WIDTH
    ends = zip(wilson(came / weight, units.effective[:size]), (spread.low, spread.high), strict=True)
    low, high = (np.where(alike, score, drawn) for score, drawn in ends)
    off = Units(units.sums[:, 2 * size :] - units.sums[:, size : 2 * size], units.times)
    ece, perfect = _calibration_errors(off, weight.sum(), resamples, seed)
    return Reliability(
        predicted=promised / weight,
        observed=came / weight,
        low=low,
        high=high,
        weight=weight,
        ece=ece,
        ece_perfect=float(perfect.mean()),
        ece_limit=float(np.quantile(perfect, 0.95)),
        clustered=forecast.clustered,
    )


def wilson(share: Floats, trials: Floats, level: float = 0.95) -> tuple[Floats, Floats]:
    """Give the ends of Wilson's score interval of shares out of ``trials``, which need not be whole numbers."""
    z2 = float(ndtri(0.5 + level / 2.0)) ** 2
    scale = 1.0 + z2 / trials
    centre = (share + z2 / (2.0 * trials)) / scale
    half = np.sqrt(z2 * (share * (1.0 - share) / trials + z2 / (4.0 * trials**2))) / scale
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def _calibration_errors(residuals: Units, total: float, resamples: int, seed: int) -> tuple[float, Floats]:
    """Give the calibration error of residual sums by bin, and (resamples,) with a random sign for each prompt."""
    perfect = [np.abs(block).sum(axis=1) / total for block in residuals.signed(resamples=resamples, seed=seed)]
    return float(np.abs(residuals.total).sum() / total), np.concatenate(perfect)
