from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from lawfit.bootstrap import bootstrap, cluster_sums
from lawfit.calibration.units import Units

RNG = np.random.default_rng(4)
COLUMNS = np.column_stack([np.ones(40), RNG.random(40), RNG.random(40) ** 2])
WEIGHT = RNG.integers(1, 400, 40).astype(float)


def ratio(totals: np.ndarray) -> np.ndarray:
    return np.asarray(totals[..., 1:] / totals[..., :1])


def test_named_prompts_are_drawn_by_the_cluster_bootstrap() -> None:
    cluster = np.arange(40) % 7
    drawn = Units.of(COLUMNS, WEIGHT, cluster).interval(ratio, resamples=200, seed=1)
    plain = bootstrap(cluster_sums(COLUMNS, cluster, WEIGHT), ratio, resamples=200, seed=1)
    assert (drawn.draws == plain.draws).all()
    assert Units.of(COLUMNS, WEIGHT, cluster).count == 7


def test_without_prompts_a_row_of_weight_w_is_w_rounds_of_their_own() -> None:
    pooled = Units.of(COLUMNS, WEIGHT, None)
    rounds = Units.of(np.repeat(COLUMNS, WEIGHT.astype(int), axis=0), np.ones(int(WEIGHT.sum())), None)
    assert pooled.count == rounds.count == WEIGHT.sum()
    assert pooled.total == pytest.approx(rounds.total)
    assert pooled.effective == pytest.approx(rounds.effective)
    a, b = (units.interval(ratio, resamples=1500, seed=2) for units in (pooled, rounds))
    means = np.average(COLUMNS[:, 1:], axis=0, weights=WEIGHT)
    error = np.sqrt(np.average((COLUMNS[:, 1:] - means) ** 2, axis=0, weights=WEIGHT) / WEIGHT.sum())
    for drawn in (a, b):
        assert drawn.estimate == pytest.approx(means)
        assert drawn.se == pytest.approx(error, rel=0.08)
        assert drawn.high - drawn.estimate == pytest.approx(norm.isf(0.025) * error, rel=0.12)


def test_random_signs_are_one_for_every_round() -> None:
    pooled = Units.of(COLUMNS[:, 1:2], WEIGHT, None)
    signed = np.concatenate(list(pooled.signed(resamples=4000, seed=3)))
    assert signed.shape == (4000, 1)
    assert signed.mean() == pytest.approx(0.0, abs=4 * signed.std() / np.sqrt(4000))
    assert signed.std() == pytest.approx(np.sqrt((WEIGHT * COLUMNS[:, 1] ** 2).sum()), rel=0.06)


def test_weights_need_not_be_whole_and_may_be_zero_or_huge() -> None:
    units = Units.of(COLUMNS, np.where(np.arange(40) % 2, 0.4, 0.0), None)
    assert units.count == 20
    assert units.total[0] == pytest.approx(8.0)
    for huge in (1e12, 9e18):
        units = Units.of(COLUMNS, np.full(40, huge), None)
        assert units.total[0] == pytest.approx(40 * huge)
        drawn = units.interval(ratio, resamples=50, seed=0)
        assert (drawn.high - drawn.low < 1e-5).all()
        assert np.isfinite(next(units.signed(resamples=5, seed=0))).all()


def test_a_number_that_no_draw_defines_has_no_interval() -> None:
    units = Units.of(COLUMNS, WEIGHT, None)
    drawn = units.interval(lambda totals: np.full(totals.shape[:-1], np.nan), resamples=20, seed=0)
    assert np.isnan([drawn.low, drawn.high, drawn.se]).all()


def test_effective_units_are_fewer_where_some_weigh_more() -> None:
    units = Units(np.array([[3.0, 1.0], [1.0, 1.0], [0.0, 1.0]]), np.ones(3))
    assert units.effective == pytest.approx([16 / 10, 3.0])
