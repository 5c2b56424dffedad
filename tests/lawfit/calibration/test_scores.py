from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss

from lawfit.calibration.reliability import Forecast
from lawfit.calibration.scores import murphy, score

RNG = np.random.default_rng(12)
P = RNG.beta(2.0, 1.5, 800)
Y = (RNG.random(800) < P).astype(float)
W = RNG.integers(1, 5, 800).astype(float)
CLUSTER = RNG.integers(0, 30, 800)


def test_scores_are_those_of_scikit_learn() -> None:
    scores = score(Forecast.of(P, Y, W, CLUSTER), resamples=50)
    assert scores.brier.estimate == pytest.approx(brier_score_loss(Y, P, sample_weight=W))
    assert scores.log_score.estimate == pytest.approx(log_loss(Y, P, sample_weight=W))
    base = np.full(800, np.average(Y, weights=W))
    assert scores.base_rate == pytest.approx(base[0])
    assert scores.brier_skill.estimate == pytest.approx(
        1 - scores.brier.estimate / brier_score_loss(Y, base, sample_weight=W)
    )
    assert scores.log_skill.estimate == pytest.approx(
        1 - scores.log_score.estimate / log_loss(Y, base, sample_weight=W)
    )
    assert scores.log_score.low < scores.log_score.estimate < scores.log_score.high


def test_the_base_rate_has_no_skill_and_hindsight_has_all() -> None:
    base = score(Forecast.of(np.full(800, Y.mean()), Y, None, CLUSTER), resamples=50)
    assert base.log_skill.estimate == pytest.approx(0.0, abs=1e-12)
    assert base.murphy.resolution == pytest.approx(0.0, abs=1e-12)
    perfect = score(Forecast.of(Y, Y, None, CLUSTER), resamples=50)
    assert (perfect.brier.estimate, perfect.log_score.estimate) == (0.0, 0.0)
    assert perfect.brier_skill.estimate == perfect.log_skill.estimate == 1.0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.integers(1, 4)), min_size=1, max_size=40), st.integers(1, 12)
)
def test_the_parts_of_the_brier_score_add_up(rows: list[tuple[float, bool, int]], bins: int) -> None:
    p, y, w = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    parts = murphy(Forecast.of(p, y, w), bins)
    total = parts.reliability - parts.resolution + parts.uncertainty + parts.within
    assert total == pytest.approx(np.average((p - y) ** 2, weights=w), abs=1e-12)
    assert min(parts.reliability, parts.resolution, parts.uncertainty) >= 0


def test_without_spread_inside_bins_the_parts_are_murphys() -> None:
    p = np.repeat([0.2, 0.5, 0.9], 100)
    y = (RNG.random(300) < p).astype(float)
    parts = murphy(Forecast.of(p, y), 3)
    assert parts.within == pytest.approx(0.0, abs=1e-15)
    came = np.array([y[p == value].mean() for value in (0.2, 0.5, 0.9)])
    assert parts.reliability == pytest.approx(np.mean((came - [0.2, 0.5, 0.9]) ** 2))
    assert parts.resolution == pytest.approx(np.mean((came - y.mean()) ** 2))


def test_a_surprise_that_was_ruled_out_costs_infinitely_much() -> None:
    scores = score(Forecast.of([0.0, 0.5], [1, 1], None, np.array([0, 1])), resamples=20)
    assert scores.log_score.estimate == np.inf
    assert np.isfinite(scores.brier.estimate)


def test_where_nothing_varies_there_is_no_skill_to_have() -> None:
    scores = score(Forecast.of([0.9, 0.8], [1, 1]), resamples=20)
    assert np.isnan(scores.log_skill.estimate)
    assert np.isnan(scores.brier_skill.estimate)


def test_without_prompts_a_row_of_weight_w_is_w_forecasts() -> None:
    """As wide as intervals of single rounds are, not of 800 rows."""
    weight = W * 50
    pooled = score(Forecast.of(P, Y, weight), resamples=500)
    loss = (P - Y) ** 2
    error = np.sqrt(np.average((loss - np.average(loss, weights=weight)) ** 2, weights=weight) / weight.sum())
    assert pooled.brier.se == pytest.approx(error, rel=0.1)
    assert pooled.brier.high - pooled.brier.low == pytest.approx(3.92 * error, rel=0.15)
    assert 0 < pooled.log_skill.high - pooled.log_skill.low < 0.02
    assert not pooled.clustered
