from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st

from lawfit import FitError, NotIdentified
from lawfit.logistic import fit_logistic

RNG = np.random.default_rng(11)
N = 300
X = np.column_stack([np.ones(N), RNG.normal(size=N), RNG.exponential(size=N)])
TRIALS = RNG.integers(0, 7, N)
SUCCESSES = RNG.binomial(TRIALS, 1 / (1 + np.exp(-(X @ [0.4, -0.8, 0.5]))))
CLUSTER = RNG.integers(0, 25, N)


def expanded(x: np.ndarray, successes: np.ndarray, trials: np.ndarray, cluster: np.ndarray) -> Any:
    rows = np.repeat(np.arange(len(x)), trials)
    within = np.concatenate([np.arange(t) for t in trials])
    model = sm.GLM((within < successes[rows]).astype(float), x[rows], family=sm.families.Binomial())
    plain = model.fit(tol=1e-14, maxiter=200)
    return plain, model.fit(tol=1e-14, maxiter=200, cov_type="cluster", cov_kwds={"groups": cluster[rows]})


def test_it_equals_the_glm_on_expanded_trials_with_its_cluster_covariance() -> None:
    fit = fit_logistic(X, SUCCESSES, TRIALS, cluster=CLUSTER)
    plain, robust = expanded(X, SUCCESSES, TRIALS, CLUSTER)
    assert fit.coef == pytest.approx(plain.params, abs=1e-10)
    assert fit.covariance == pytest.approx(plain.cov_params(), abs=1e-10)
    assert fit.cluster_covariance == pytest.approx(robust.cov_params(), abs=1e-9)
    assert fit.log_likelihood == pytest.approx(plain.llf, abs=1e-8)
    assert fit.converged


def test_a_weight_stands_for_repeated_rows() -> None:
    weight = RNG.integers(1, 4, N)
    rows = np.repeat(np.arange(N), weight)
    once = fit_logistic(X, SUCCESSES, TRIALS, weight=weight, cluster=CLUSTER)
    repeated = fit_logistic(X[rows], SUCCESSES[rows], TRIALS[rows], cluster=CLUSTER[rows])
    assert once.coef == pytest.approx(repeated.coef, abs=1e-12)
    assert once.covariance == pytest.approx(repeated.covariance, abs=1e-14)
    assert once.cluster_covariance == pytest.approx(repeated.cluster_covariance, abs=1e-13)
    assert once.log_likelihood == pytest.approx(repeated.log_likelihood)


@settings(max_examples=30, deadline=None)
@given(st.floats(-12, 12), st.floats(-1e3, 1e3))
def test_scaling_and_shifting_a_feature_changes_its_coefficient_only(power: float, shift: float) -> None:
    scale = 10.0**power
    moved = X.copy()
    moved[:, 1] = scale * (X[:, 1] + shift)
    base, fit = fit_logistic(X, SUCCESSES, TRIALS), fit_logistic(moved, SUCCESSES, TRIALS)
    assert fit.log_likelihood == pytest.approx(base.log_likelihood, rel=1e-9)
    assert fit.coef[1] * scale == pytest.approx(base.coef[1], rel=1e-6)


def test_far_outliers_do_not_throw_the_newton_steps() -> None:
    x = np.column_stack([np.ones(6), [0.0, 0.1, 0.2, 0.3, 5000.0, -8000.0]])
    fit = fit_logistic(x, [1, 0, 1, 0, 1, 1], [1, 1, 1, 1, 1, 1])
    assert fit.converged
    gradient = x.T @ (np.array([1, 0, 1, 0, 1, 1]) - 1 / (1 + np.exp(-(x @ fit.coef))))
    assert np.abs(gradient / np.abs(x).max(axis=0)).max() < 1e-9


H = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
ONE = np.ones(6)


@pytest.mark.parametrize(
    ("successes", "message"),
    [
        ([1, 1, 1, 1, 1, 1], "at infinity: every trial succeeded"),
        ([0, 0, 0, 0, 0, 0], "at infinity: every trial failed"),
        ([1, 1, 1, 0, 0, 0], "H splits the outcomes: successes have 0.3 or less, failures 0.4 or more"),
        ([0, 0, 1, 1, 1, 1], "H splits the outcomes: failures have 0.2 or less, successes 0.3 or more"),
    ],
)
def test_separated_outcomes_have_no_estimate(successes: list[int], message: str) -> None:
    with pytest.raises(NotIdentified, match=message):
        fit_logistic(np.column_stack([ONE, H]), successes, ONE, names=("one", "H"))


def test_outcomes_that_touch_at_one_value_are_separated_and_overlapping_ones_are_not() -> None:
    touching = np.array([0.1, 0.2, 0.3, 0.3, 0.5, 0.6])
    with pytest.raises(NotIdentified, match="splits"):
        fit_logistic(np.column_stack([ONE, touching]), [1, 1, 1, 0, 0, 0], ONE)
    overlap = fit_logistic(np.column_stack([ONE, H]), [1, 1, 0, 1, 0, 0], ONE)
    assert overlap.converged
    assert np.abs(overlap.coef).max() < 50


def test_separation_by_a_combination_of_features_is_found() -> None:
    x = np.column_stack([np.ones(60), RNG.normal(size=(60, 2))])
    hit = (x[:, 1] + x[:, 2] > 0.1).astype(int)
    with pytest.raises(NotIdentified, match="a combination of the features"):
        fit_logistic(x, hit, np.ones(60))
    # Quasi-complete: a category in which every trial succeeded.
    category = np.column_stack([x, (np.arange(60) < 5)])
    random = RNG.integers(0, 2, 60)
    random[:5] = 1
    with pytest.raises(NotIdentified, match="a combination of the features"):
        fit_logistic(category, random, np.ones(60))


def test_large_log_odds_alone_are_no_separation() -> None:
    x = np.column_stack([np.ones(4), [-1.0, 0.0, 0.0, 40.0], [0.0, 0.0, 1.0, 0.5]])
    fit = fit_logistic(x, [50, 50, 40, 99], [100, 90, 100, 99])
    assert fit.converged


def test_a_constant_or_repeated_feature_is_named() -> None:
    with pytest.raises(NotIdentified, match="H does not vary"):
        fit_logistic(np.column_stack([ONE, np.full(6, 0.7)]), [1, 0, 1, 0, 1, 0], ONE, names=("one", "H"))
    with pytest.raises(NotIdentified, match="x2 does not vary"):
        fit_logistic(np.column_stack([ONE, H, 3 * H + 1]), [1, 0, 1, 0, 1, 0], ONE)
    with pytest.raises(NotIdentified, match="2 rows cannot identify 3"):
        fit_logistic(X[:2], [1, 0], [1, 1])


@pytest.mark.parametrize(
    ("successes", "trials"), [([2.0], [1.0]), ([-1.0], [1.0]), ([np.nan], [1.0]), ([1.0, 1.0], [1.0])]
)
def test_counts_that_cannot_be_are_refused(successes: list[float], trials: list[float]) -> None:
    with pytest.raises(FitError):
        fit_logistic(np.ones((1, 1)), successes, trials)


def test_rows_without_trials_hold_no_information() -> None:
    with pytest.raises(NotIdentified, match="no trial"):
        fit_logistic(np.ones((2, 1)), [0, 0], [0, 0])


def many(rows: int = 12_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    x = np.column_stack([np.ones(rows), rng.exponential(size=rows)])
    return x, (rng.random(rows) < 1 / (1 + np.exp(-(0.3 - 0.9 * x[:, 1])))).astype(float)


def test_many_rows_climb_from_a_sample_to_the_same_top() -> None:
    x, hits = many()
    fit = fit_logistic(x, hits, np.ones(len(x)))
    oracle = sm.GLM(hits, x, family=sm.families.Binomial()).fit(tol=1e-14, maxiter=200)
    assert fit.coef == pytest.approx(oracle.params, abs=1e-9)
    assert fit.log_likelihood == pytest.approx(oracle.llf, abs=1e-7)
    assert fit.iterations < 5


def test_many_rows_that_separate_are_still_found_out() -> None:
    x, _ = many()
    with pytest.raises(NotIdentified, match="splits the outcomes"):
        fit_logistic(x, (x[:, 1] < 1.0).astype(float), np.ones(len(x)))
    with pytest.raises(NotIdentified, match="every trial succeeded"):
        fit_logistic(x, np.ones(len(x)), np.ones(len(x)))


def test_a_sample_that_separates_does_not_condemn_all_rows() -> None:
    x, _ = many()
    hits = (x[:, 1] < 1.0).astype(float)
    # One row in the overlap, where the thinned sample does not look.
    hits[int(np.argmax(x[1::12, 1])) * 12 + 1] = 1.0
    fit = fit_logistic(x, hits, np.ones(len(x)))
    assert np.isfinite(fit.coef).all()
    assert fit.converged


def test_a_feature_that_only_few_rows_have_is_fitted_too() -> None:
    x, hits = many()
    rare = np.zeros(len(x))
    rare[[5, 17, 29, 41, 53, 65]] = 1.0
    hits[[5, 17, 29]], hits[[41, 53, 65]] = 1.0, 0.0
    wide = np.column_stack([x, rare])
    oracle = sm.GLM(hits, wide, family=sm.families.Binomial()).fit(tol=1e-14, maxiter=200)
    assert fit_logistic(wide, hits, np.ones(len(x))).coef == pytest.approx(oracle.params, abs=1e-7)


@pytest.mark.parametrize("strength", [0.1, 3.0, 400.0])
def test_a_penalty_gives_the_ridge_estimate_of_scikit_learn(strength: float) -> None:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1.0 / strength, fit_intercept=True, tol=1e-12, max_iter=5000)
    rows = np.concatenate([X[:, 1:], X[:, 1:]])
    outcome = np.concatenate([np.ones(N), np.zeros(N)])
    model.fit(rows, outcome, sample_weight=np.concatenate([SUCCESSES, TRIALS - SUCCESSES]))
    fit = fit_logistic(X, SUCCESSES, TRIALS, penalty=[0.0, strength, strength])
    assert fit.coef == pytest.approx([*model.intercept_, *model.coef_[0]], abs=1e-5)
    assert fit.converged


def test_a_penalised_top_has_no_slope_and_its_covariance_is_the_curvature_there() -> None:
    ridge = np.array([0.0, 5.0, 0.7])
    fit = fit_logistic(X, SUCCESSES, TRIALS, penalty=ridge)
    p = 1 / (1 + np.exp(-X @ fit.coef))
    assert X.T @ (SUCCESSES - TRIALS * p) == pytest.approx(ridge * fit.coef, abs=1e-8)
    curvature = (X.T * (TRIALS * p * (1 - p))) @ X + np.diag(ridge)
    assert fit.covariance == pytest.approx(np.linalg.inv(curvature), abs=1e-12)
    likelihood = SUCCESSES @ np.log(p) + (TRIALS - SUCCESSES) @ np.log(1 - p)
    assert fit.log_likelihood == pytest.approx(likelihood)


def test_a_penalty_follows_a_feature_through_its_scale_and_near_collinearity() -> None:
    ridge, scale = np.array([0.0, 2.0, 3.0]), np.array([1.0, 1e4, 1e-5])
    base = fit_logistic(X, SUCCESSES, TRIALS, penalty=ridge)
    scaled = fit_logistic(X * scale, SUCCESSES, TRIALS, penalty=ridge * scale**2)
    assert scaled.coef * scale == pytest.approx(base.coef, rel=1e-8)
    twice = np.column_stack([X, X[:, 2] + 1e-9 * X[:, 1]])
    halves = fit_logistic(twice, SUCCESSES, TRIALS, penalty=[*ridge[:2], 2 * ridge[2], 2 * ridge[2]])
    assert halves.coef[2:].sum() == pytest.approx(base.coef[2], rel=1e-5)
    assert halves.coef[2] == pytest.approx(halves.coef[3], rel=1e-5)


def test_a_penalty_keeps_a_splitting_feature_finite_and_a_free_intercept_is_still_checked() -> None:
    x = np.column_stack([np.ones(6), np.arange(6.0)])
    split = fit_logistic(x, [0, 0, 0, 1, 1, 1], np.ones(6), penalty=[0.0, 1.0])
    assert 0 < split.coef[1] < 10
    with pytest.raises(NotIdentified, match="every trial succeeded"):
        fit_logistic(x, np.ones(6), np.ones(6), penalty=[0.0, 1.0])
    assert np.isfinite(fit_logistic(x, np.ones(6), np.ones(6), penalty=[1.0, 1.0]).coef).all()


def test_a_penalty_from_a_thinned_start_ends_at_the_same_top() -> None:
    many = np.tile(np.arange(N), 50)
    fit = fit_logistic(X[many], SUCCESSES[many], TRIALS[many], penalty=[0.0, 50.0, 50.0])
    once = fit_logistic(X, SUCCESSES, TRIALS, penalty=[0.0, 1.0, 1.0])
    assert fit.coef == pytest.approx(once.coef, rel=1e-9)


@pytest.mark.parametrize("penalty", [[0.0, 1.0], [0.0, -1.0, 1.0], [0.0, np.nan, 1.0], 3.0])
def test_a_wrong_penalty_is_refused(penalty: Any) -> None:
    with pytest.raises(FitError, match="penalty is .*, expected 3 finite numbers"):
        fit_logistic(X, SUCCESSES, TRIALS, penalty=penalty)
