"""The one cluster bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from lawfit import FitError
from lawfit.bootstrap import bootstrap, cluster_sums
from lawfit.cluster import cluster_covariance

RNG = np.random.default_rng(5)


def ratio(totals: np.ndarray) -> np.ndarray:
    return np.asarray(totals[..., 0] / totals[..., 1])


def test_sums_by_cluster_equal_a_loop() -> None:
    values, cluster, weight = RNG.normal(size=(60, 3)), RNG.integers(0, 9, 60) * 3, RNG.uniform(1, 3, 60)
    expected = [(values * weight[:, None])[cluster == g].sum(axis=0) for g in np.unique(cluster)]
    assert cluster_sums(values, cluster, weight) == pytest.approx(np.array(expected))


def test_draws_equal_an_explicit_resampling_of_rows() -> None:
    values, cluster = RNG.normal(2, 1, 40), np.repeat(np.arange(8), 5)
    sums = cluster_sums(np.stack([values, np.ones(40)], axis=1), cluster)
    interval = bootstrap(sums, ratio, resamples=5, seed=3)
    weights = np.random.default_rng(3).multinomial(8, np.full(8, 1 / 8), size=5)
    rows = [np.concatenate([np.flatnonzero(cluster == g) for g in np.repeat(np.arange(8), w)]) for w in weights]
    assert interval.draws == pytest.approx([values[picked].mean() for picked in rows])
    assert interval.estimate == pytest.approx(values.mean())


def test_its_standard_error_of_a_mean_is_the_sandwich_one() -> None:
    cluster = np.repeat(np.arange(200), 10)
    values = RNG.normal(size=200)[cluster] + RNG.normal(size=2000)
    sums = cluster_sums(np.stack([values, np.ones(2000)], axis=1), cluster)
    interval = bootstrap(sums, ratio, resamples=4000)
    robust = cluster_covariance([values - values.mean()], np.array([[1 / 2000]]), cluster, 2000)
    assert robust is not None
    assert interval.se == pytest.approx(np.sqrt(robust[0, 0]), rel=0.05)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    covered = 0
    for trial in range(200):
        rng = np.random.default_rng(trial)
        sums = np.stack([rng.normal(1.0, 1.0, 60), np.ones(60)], axis=1)
        interval = bootstrap(sums, ratio, resamples=400, seed=trial)
        covered += bool(interval.low <= 1.0 <= interval.high)
    assert 0.89 * 200 <= covered <= 0.985 * 200


def test_strata_keep_the_number_of_prompts_of_each_group() -> None:
    strata = np.array([0] * 6 + [1] * 4)
    sums = np.stack([strata == 0, strata == 1], axis=1).astype(float)
    draws = bootstrap(sums, lambda totals: totals, strata=strata, resamples=50).draws
    assert (draws == [6, 4]).all()


def test_many_prompts_are_drawn_in_blocks_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = np.stack([RNG.normal(size=50), np.ones(50)], axis=1)
    whole = bootstrap(sums, ratio, resamples=100).draws
    monkeypatch.setattr("lawfit.bootstrap._AT_ONCE", 700)
    assert bootstrap(sums, ratio, resamples=100).draws == pytest.approx(whole)


def test_one_prompt_has_an_estimate_and_no_interval() -> None:
    interval = bootstrap(np.array([[3.0, 2.0]]), ratio, resamples=20)
    assert interval.estimate == 1.5
    assert np.isnan([interval.low, interval.high, interval.se, interval.p_value()]).all()


def test_p_value_is_small_where_every_draw_is_on_one_side() -> None:
    sums = np.stack([RNG.normal(5, 1, 30), np.ones(30)], axis=1)
    interval = bootstrap(sums, ratio, resamples=999)
    assert interval.p_value() == pytest.approx(0.001)
    assert interval.p_value(float(interval.estimate)) > 0.8


@pytest.mark.parametrize(("sums", "resamples"), [(np.zeros(3), 10), (np.zeros((0, 2)), 10), (np.ones((3, 2)), 0)])
def test_odd_arguments_are_refused(sums: np.ndarray, resamples: int) -> None:
    with pytest.raises(FitError):
        bootstrap(sums, ratio, resamples=resamples)


def test_a_row_that_stands_for_many_units_is_drawn_as_so_many_rows() -> None:
    sums, times = np.array([[0.0, 1.0], [1.0, 1.0]]), np.array([300.0, 700.0])
    counted = bootstrap(sums, ratio, times=times)
    rows = bootstrap(np.repeat(sums, times.astype(int), axis=0), ratio)
    assert counted.estimate == rows.estimate == 0.7
    assert counted.se == pytest.approx(rows.se, rel=0.06)
    with pytest.raises(FitError, match="times of shape"):
        bootstrap(sums, ratio, times=np.ones(3))
