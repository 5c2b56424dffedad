"""Goodness of fit, and the likelihood ratio of two states."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from lawfit import AffineLogit, FitError, FreeHazard, Geometric, NotIdentified, Observations
from lawfit.goodness import goodness_of_fit
from lawfit.laws import TwoState
from lawfit.likelihood_ratio import two_state_test


def geometric(n: int, match_prob: float, horizon: int, seed: int, prompts: int | None = None) -> Observations:
    rng = np.random.default_rng(seed)
    a = np.minimum(rng.geometric(1 - match_prob, n) - 1, horizon)
    cluster = None if prompts is None else rng.integers(0, prompts, n)
    return Observations(a, np.full(n, horizon), a < horizon, np.ones(n), cluster=cluster)


def test_it_equals_scipy_on_classes_that_need_no_pooling() -> None:
    rows, law = geometric(500, 0.6, 4, 1), Geometric(0.6, 4)
    test = goodness_of_fit(law, rows)
    tail = 0.6 ** np.arange(6)
    tail[5] = 0.0
    oracle = chisquare(np.bincount(rows.accept_len, minlength=5), -np.diff(tail) * 500)
    assert (test.statistic, test.p_value) == pytest.approx((oracle.statistic, oracle.pvalue))
    assert test.df == 4
    assert (test.low, test.high) == ((0, 1, 2, 3, 4), (0, 1, 2, 3, 4))
    assert test.design_effect is None


def test_fitted_coefficients_cost_degrees_of_freedom() -> None:
    rows = geometric(500, 0.6, 4, 1)
    assert goodness_of_fit(Geometric.fit(rows), rows).df == 3
    assert goodness_of_fit(Geometric.fit(rows), rows, parameters=0).df == 4


def test_long_lengths_are_pooled_until_each_class_expects_five() -> None:
    rows = geometric(60, 0.5, 15, 2)
    test = goodness_of_fit(Geometric(0.5, 15), rows)
    assert min(test.expected) >= 5
    assert test.high[-1] == 15
    assert [*test.low[1:]] == [end + 1 for end in test.high[:-1]]
    assert sum(test.observed) == sum(test.expected) == pytest.approx(60)


def test_every_round_is_expected_within_its_own_horizon_and_at_its_own_entropy() -> None:
    law = AffineLogit(1.0, 0.8, 6)
    horizon, entropy = np.array([1, 2, 6]), np.array([0.0, 1.0, 3.0])
    rows = Observations(
        np.array([1, 0, 2]), horizon, np.array([False, True, True]), np.array([100.0, 50.0, 80.0]), entropy
    )
    expected = np.zeros(7)
    for cap, nats, weight in zip(horizon, entropy, rows.weight, strict=True):
        tail = np.concatenate([[1.0], law.survival(nats, int(cap)), [0.0]])
        expected[: cap + 1] += weight * -np.diff(tail)
    test = goodness_of_fit(law, rows, smallest=1e-9)
    assert test.expected == pytest.approx(expected)


def test_where_rounds_were_cut_misses_are_compared_at_each_offset() -> None:
    a, missed = np.array([0, 1, 2, 3, 1]), np.array([True, True, True, False, False])
    rows = Observations(a, np.full(5, 3), missed, np.full(5, 30.0))
    test = goodness_of_fit(Geometric(0.5, 3), rows)
    # At risk 150, 90, 60 with 30 misses each, and half of them expected.
    assert (test.what, test.low, test.high) == ("misses by offset", (1, 2, 3), (1, 2, 3))
    assert test.observed == (30, 30, 30)
    assert test.expected == (75, 45, 30)
    # The cut round is at risk at offset 1 only.
    assert test.statistic == pytest.approx(45**2 / 37.5 + 15**2 / 22.5 + 0)


def test_cut_rounds_do_not_bend_the_level() -> None:
    rejected = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        a, missed, cluster = [], [], []
        for request in range(40):
            left = 30
            while left > 0:
                run = int(min(rng.geometric(0.2) - 1, 6))
                kept = min(run, left)
                a.append(kept)
                missed.append(run < 6 and run < left)
                cluster.append(request)
                left -= kept + 1
        n = len(a)
        rows = Observations(np.array(a), np.full(n, 6), np.array(missed), np.ones(n), cluster=np.array(cluster))
        rejected += goodness_of_fit(Geometric.fit(rows), rows).p_value < 0.05
    assert rejected <= 21  # 99.9% of a binomial with 200 and .05


def test_p_values_are_uniform_where_the_law_is_true() -> None:
    small = sum(
        goodness_of_fit(Geometric.fit(r), r).p_value < 0.1 for r in (geometric(400, 0.7, 8, s) for s in range(200))
    )
    assert 8 <= small <= 34  # 99.9% of a binomial with 200 and .1


def test_the_correction_holds_the_level_where_prompts_differ() -> None:
    naive = corrected = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        prompt = np.repeat(np.arange(40), 50)
        level = rng.beta(14, 6, 40)[prompt]
        a = np.minimum(rng.geometric(1 - level) - 1, 3)
        rows = Observations(a, np.full(2000, 3), a < 3, np.ones(2000), cluster=prompt)
        # The mean survival of these prompts, exactly: the law is true on the average.
        tail = np.concatenate([[1.0], np.cumprod([(14 + k) / (20 + k) for k in range(3)])])
        test = goodness_of_fit(FreeHazard(tuple(tail[1:] / tail[:-1])), rows)
        naive += test.p_value < 0.05
        corrected += (test.corrected_p_value or 0.0) < 0.05
        assert test.design_effect is not None
        assert test.design_effect > 1
    assert naive > 30
    assert corrected < 16


def test_too_few_classes_and_odd_options_are_refused() -> None:
    rows = geometric(8, 0.5, 4, 0)
    with pytest.raises(NotIdentified, match="classes that expect 5"):
        goodness_of_fit(Geometric.fit(rows), rows)
    with pytest.raises(FitError, match="smallest is 0"):
        goodness_of_fit(Geometric(0.5, 4), rows, smallest=0)
    cut = Observations(np.array([1, 1]), np.array([4, 4]), np.array([False, False]), np.ones(2))
    with pytest.raises(NotIdentified, match="classes that expect 5"):
        goodness_of_fit(Geometric(0.5, 4), cut)


def test_the_bootstrap_null_is_that_of_the_field_notes() -> None:
    # 122 rounds with horizon 15 and mean 5.23: 95% point 5.54, 99% point 8.02 by another's 600 draws.
    rows = geometric(122, 0.8359, 15, 4)
    test = two_state_test(rows, resamples=600, seed=1)
    high, higher = np.quantile(test.null, [0.95, 0.99])
    assert high == pytest.approx(5.54, abs=0.9)
    assert higher == pytest.approx(8.02, abs=2.0)
    assert test.p_value > 0.01
    # The chi-square with 4 degrees of freedom hardly ever rejects there.
    assert float((test.null > 9.488).mean()) < 0.015


def test_two_states_are_found_where_there_are_two() -> None:
    law = TwoState(0.35, 0.97, 0.5)
    rng = np.random.default_rng(0)
    tail = np.concatenate([[1.0], law.survival(), [0.0]])
    a = rng.choice(16, size=122, p=-np.diff(tail))
    test = two_state_test(Observations(a, np.full(122, 15), a < 15, np.ones(122)), resamples=200)
    assert test.statistic > 30
    assert test.p_value == pytest.approx(1 / 201)
    assert test.nominal_p_value < 1e-6


def test_it_rejects_at_its_level_under_one_hazard_with_cuts() -> None:
    rejected = 0
    for seed in range(40):
        rows = geometric(150, 0.75, 8, seed)
        cap = np.random.default_rng(seed + 1000).integers(1, 9, 150)
        cut = rows.accept_len > cap
        rows = Observations(
            np.minimum(rows.accept_len, cap), rows.horizon, rows.missed & ~cut & (rows.accept_len < cap), rows.weight
        )
        rejected += two_state_test(rows, resamples=59, seed=seed).p_value <= 0.05
    assert rejected <= 8  # 99.9% of a binomial with 40 and .05


def test_two_states_cannot_be_told_from_two_offsets() -> None:
    with pytest.raises(NotIdentified, match="2 offsets with"):
        two_state_test(geometric(100, 0.5, 2, 0))
    with pytest.raises(FitError, match="resamples is 0"):
        two_state_test(geometric(100, 0.5, 5, 0), resamples=0)
