from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom
from sklearn.calibration import calibration_curve
from statsmodels.stats.proportion import proportion_confint

from lawfit import FitError, NotIdentified
from lawfit.bootstrap import bootstrap, cluster_sums
from lawfit.calibration.nodes import dense
from lawfit.calibration.reliability import Forecast, reliability

POSITIONS = Path(__file__).parents[3] / ".." / "shared" / "data" / "public-logs" / "humaneval_strict_positions.parquet"


def forecast(seed: int, n: int = 2000, prompts: int = 40, bend: float = 1.0) -> Forecast:
    """Probabilities that are right for ``bend`` 1, outcomes independent."""
    rng = np.random.default_rng(seed)
    p = rng.beta(2.0, 1.0, n)
    return Forecast.of(p, rng.random(n) < p**bend, None, rng.integers(0, prompts, n))


def test_the_curve_is_scikit_learns_on_equal_count_bins() -> None:
    given = forecast(1)
    curve = reliability(given, resamples=10)
    observed, predicted = calibration_curve(given.outcome, given.probability, n_bins=10, strategy="quantile")
    assert curve.observed == pytest.approx(observed)
    assert curve.predicted == pytest.approx(predicted)
    assert curve.weight.tolist() == [200.0] * 10
    assert curve.ece == pytest.approx(np.abs(observed - predicted).mean())


def test_equal_probabilities_share_a_bin_and_no_bin_is_a_crumb() -> None:
    p = np.concatenate([np.full(500, 0.3), np.linspace(0.31, 0.33, 12), np.full(488, 0.9)])
    bins = forecast(0).of(p, np.zeros(1000)).bins(10)
    assert len(set(zip(p[:500], bins[:500], strict=True))) == 1
    assert np.bincount(bins).min() >= 50
    assert (np.diff(bins) >= 0).all()


def test_a_weight_stands_for_repeated_rows() -> None:
    given = forecast(2, n=300)
    weight = np.arange(300) % 3 + 1
    weighted = Forecast.of(given.probability, given.outcome, weight, given.cluster)
    rows = np.repeat(np.arange(300), weight)
    repeated = Forecast.of(given.probability[rows], given.outcome[rows], None, given.cluster[rows])
    a, b = (reliability(either, resamples=200) for either in (weighted, repeated))
    assert a.observed == pytest.approx(b.observed)
    assert a.low == pytest.approx(b.low)
    assert (a.ece, a.ece_perfect) == (pytest.approx(b.ece), pytest.approx(b.ece_perfect))


def test_intervals_cover_the_truth_where_prompts_have_levels_of_their_own() -> None:
    """Bins of constant truth; prompts shift the outcome, so that intervals of independent rows would be too narrow."""
    inside = independent = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        prompt = np.repeat(np.arange(50), 20)
        p = np.repeat([[0.3, 0.5, 0.7]], 1000, axis=0)[np.arange(1000), rng.integers(0, 3, 1000)]
        shift = rng.uniform(-0.25, 0.25, 50)[prompt]
        y = rng.random(1000) < p + shift
        for cluster in (prompt, None):
            curve = reliability(Forecast.of(p, y, None, cluster), bins=3, resamples=300)
            hits = int(((curve.low <= [0.3, 0.5, 0.7]) & (curve.high >= [0.3, 0.5, 0.7])).sum())
            inside, independent = (inside + hits, independent) if cluster is not None else (inside, independent + hits)
    assert inside >= 0.9 * 180
    assert independent < inside - 8


def test_where_every_prompt_agrees_the_interval_is_wilsons_on_the_effective_prompts() -> None:
    prompt = np.repeat(np.arange(30), 20)
    p = np.where(np.arange(600) % 2, 0.9, 0.4)
    y = np.where(p == 0.9, 1.0, np.arange(600) % 4 == 0)
    curve = reliability(Forecast.of(p, y, None, prompt), bins=2, resamples=200)
    assert curve.observed.tolist() == [0.5, 1.0]
    low, high = proportion_confint([15, 30], 30, method="wilson")
    assert curve.low == pytest.approx(low)
    assert curve.high == pytest.approx(high)
    uneven = Forecast.of(p[10:], y[10:], None, prompt[10:])  # the first prompt has half as many rows
    shrunk = reliability(uneven, bins=2, resamples=200)
    effective = (29.5 * 10) ** 2 / (29 * 100 + 25)
    assert shrunk.low[1] == pytest.approx(effective / (effective + 1.959964**2))


def test_where_prompts_differ_the_interval_is_the_bootstraps() -> None:
    given = forecast(3)
    curve = reliability(given, bins=4, resamples=300)
    code = given.bins(4)
    for k in range(4):
        columns = np.column_stack([code == k, (code == k) * given.outcome])
        assert given.cluster is not None
        drawn = bootstrap(cluster_sums(columns, given.cluster), lambda t: t[..., 1] / t[..., 0], resamples=300, seed=0)
        assert curve.low[k] == pytest.approx(float(drawn.low))
        assert curve.high[k] == pytest.approx(float(drawn.high))


def test_without_prompts_a_row_of_weight_w_is_w_forecasts() -> None:
    p, y = np.repeat([0.3, 0.6, 0.8], 2), np.tile([0.0, 1.0], 3)
    weight = np.array([700.0, 300.0, 420.0, 580.0, 230.0, 770.0])
    pooled = reliability(Forecast.of(p, y, weight), bins=3)
    rows = np.repeat(np.arange(6), weight.astype(int))
    rounds = reliability(Forecast.of(p[rows], y[rows]), bins=3)
    for curve in (pooled, rounds):
        assert not curve.clustered
        half = 1.96 * np.sqrt(curve.observed * (1 - curve.observed) / 1000)
        assert curve.high - curve.observed == pytest.approx(half, rel=0.12)
        assert curve.observed - curve.low == pytest.approx(half, rel=0.12)
    assert pooled.ece == pytest.approx(rounds.ece)
    assert pooled.ece_perfect == pytest.approx(rounds.ece_perfect, rel=0.05)
    assert pooled.ece_limit == pytest.approx(rounds.ece_limit, rel=0.08)


def test_the_error_of_right_probabilities_is_what_it_says_on_average() -> None:
    curves = [reliability(forecast(seed), resamples=200) for seed in range(80)]
    errors, expected = (np.mean([getattr(c, name) for c in curves]) for name in ("ece", "ece_perfect"))
    assert errors == pytest.approx(expected, rel=0.07)
    beyond = sum(c.ece > c.ece_limit for c in curves)
    assert binom.sf(beyond - 1, 80, 0.05) > 0.001
    assert binom.cdf(beyond, 80, 0.05) > 0.001


def test_the_error_of_wrong_probabilities_exceeds_the_limit() -> None:
    curve = reliability(forecast(5, bend=1.6))
    assert curve.ece > 2 * curve.ece_limit


def test_target_probabilities_of_real_strict_verification_are_calibrated() -> None:
    """HumanEval: a token is accepted where u <= p, so that p comes true by construction."""
    if not POSITIONS.exists():
        pytest.skip("the public HumanEval positions are not on this machine")
    frame = pl.read_parquet(POSITIONS).filter(pl.col("pos") < 6)
    frame = frame.filter(pl.col("round") < pl.col("round").max().over("prompt"))
    p = frame["p"].cast(pl.Float64).clip(0, 1).to_numpy()
    curve = reliability(Forecast.of(p, frame["strict_acc"].cast(pl.Float64).to_numpy(), None, dense(frame["prompt"])))
    assert len(p) == 143_826
    assert curve.ece == pytest.approx(0.0017246, abs=1e-6)
    assert 0.0011 < curve.ece_perfect < curve.ece < curve.ece_limit


def test_what_is_no_forecast_is_refused() -> None:
    with pytest.raises(FitError, match="columns of one length"):
        Forecast.of([0.5], [1, 0])
    for p, y, w in (([1.5], [1], [1]), ([0.5], [0.5], [1]), ([0.5], [1], [-1]), ([np.nan], [1], [1])):
        with pytest.raises(FitError, match="expected probabilities"):
            Forecast.of(p, y, w)
    with pytest.raises(NotIdentified, match="no forecast has a weight"):
        Forecast.of([], [])
    with pytest.raises(FitError, match="bins is 0"):
        reliability(forecast(0), bins=0)
