"""Proper scores of probabilities: Brier with its decomposition, and the log score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lawfit.arrays import Floats
from lawfit.bootstrap import Interval
from lawfit.calibration.reliability import Forecast


@dataclass(frozen=True)
class Murphy:
    """Parts of the Brier score over bins: brier = reliability - resolution + uncertainty + within.

    Attributes
    ----------
    reliability
        Mean squared gap between promise and outcome of a bin (Murphy 1973); 0 is calibrated.
    resolution
        Variance of the bins' outcomes; large is informative.
    uncertainty
        Variance of the outcome.
    within
        What differs within bins, so that the sum is exact (Stephenson, Coelho and Jolliffe 2008).
    """

    reliability: float
    resolution: float
    uncertainty: float
    within: float


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of a forecast; intervals at 95% by the bootstrap over prompts.

    Attributes
    ----------
    weight, base_rate
        Weighted rows, and the share that came true.
    brier, log_score
        Mean squared error, and mean negative log-likelihood in nats; small is good.
    brier_skill, log_skill
        1 - score / score of the base rate (known in hindsight, so that the skill is a little too modest).
    murphy
        Parts of the Brier score.
    clustered
        Whether the intervals allow for dependence within prompts.
    """

    weight: float
    base_rate: float
    brier: Interval
    log_score: Interval
    brier_skill: Interval
    log_skill: Interval
    murphy: Murphy
    clustered: bool


def score(forecast: Forecast, *, bins: int = 10, resamples: int = 2000, seed: int = 0) -> Scores:
    """Score probabilities.

    An outcome that was given a probability of 0 makes the log score infinite, as it should be.
    """
    p, y = forecast.probability, forecast.outcome
    with np.errstate(divide="ignore"):
        loss = -np.where(y > 0, np.log(p), np.log1p(-p))
    columns = np.stack([np.ones_like(p), y, (p - y) ** 2, np.where(np.isinf(loss), 0.0, loss), np.isinf(loss)], axis=1)
    units = forecast.units(columns)
    statistics = (_brier, _log_score, _brier_skill, _log_skill)
    drawn = units.interval(
        lambda totals: np.stack([statistic(totals) for statistic in statistics], axis=-1),
        resamples=resamples,
        seed=seed,
    )
    brier, log_score, brier_skill, log_skill = (
        Interval(drawn.estimate[k], drawn.low[k], drawn.high[k], drawn.se[k], drawn.draws[:, k], drawn.level)
        for k in range(len(statistics))
    )
    total = units.total
    return Scores(
        weight=float(total[0]),
        base_rate=float(total[1] / total[0]),
        brier=brier,
        log_score=log_score,
        brier_skill=brier_skill,
        log_skill=log_skill,
        murphy=murphy(forecast, bins),
        clustered=forecast.clustered,
    )


def murphy(forecast: Forecast, bins: int = 10) -> Murphy:
    """Take the Brier score apart over equal-count bins."""
    code = forecast.bins(bins)
    share = forecast.weight / forecast.weight.sum()

    def mean(values: Floats) -> Floats:
        return np.asarray(np.bincount(code, weights=share * values) / np.bincount(code, weights=share))

    p, y = forecast.probability, forecast.outcome
    promised, came, part = mean(p), mean(y), np.bincount(code, weights=share)
    base = float(share @ y)
    off_p, off_y = p - promised[code], y - came[code]
    return Murphy(
        reliability=float(part @ (promised - came) ** 2),
        resolution=float(part @ (came - base) ** 2),
        uncertainty=base * (1.0 - base),
        within=float(share @ (off_p**2 - 2.0 * off_p * off_y)),
    )


# Statistics of totals (..., 5): weight, came true, squared error, log loss, weight of infinite losses.


def _brier(totals: Floats) -> Floats:
    return np.asarray(totals[..., 2] / totals[..., 0])


def _log_score(totals: Floats) -> Floats:
    return np.asarray(np.where(totals[..., 4] > 0, np.inf, totals[..., 3] / totals[..., 0]))


def _brier_skill(totals: Floats) -> Floats:
    rate = totals[..., 1] / totals[..., 0]
    return _skill(_brier(totals), rate * (1.0 - rate))


def _log_skill(totals: Floats) -> Floats:
    from scipy.special import entr

    rate = totals[..., 1] / totals[..., 0]
    return _skill(_log_score(totals), np.asarray(entr(rate) + entr(1.0 - rate)))


def _skill(loss: Floats, base: Floats) -> Floats:
    """NaN where the outcome does not vary, so that nothing can be foretold."""
    varies = base > 0
    return np.where(varies, 1.0 - loss / np.where(varies, base, 1.0), np.nan)
