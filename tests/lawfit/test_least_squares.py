from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lawfit import AffineLogit, FitError, FreeHazard, Geometric, Isotonic, NotIdentified, Observations
from lawfit.least_squares import LeastSquares, fit_affine
from lawfit.survival import MeanForm, mean


def rounds(a: np.ndarray, entropy: np.ndarray, horizon: int = 6) -> Observations:
    size = len(a)
    return Observations(
        a, np.full(size, horizon), a < horizon, np.ones(size), entropy, np.arange(size) % 20, source="x"
    )


@pytest.fixture(scope="module")
def sample() -> Observations:
    rng = np.random.default_rng(2)
    entropy = rng.exponential(size=800)
    match = 1 / (1 + np.exp(-(1.4 - 1.1 * entropy)))
    a = np.cumprod(rng.random((800, 6)) < match[:, None], axis=1).sum(axis=1)
    return rounds(a, entropy)


@pytest.mark.parametrize("form", ["truncated", "capped"])
def test_no_nearby_coefficients_have_a_smaller_error_on_rounds(sample: Observations, form: MeanForm) -> None:
    def error(b0: float, b1: float) -> float:
        assert sample.entropy is not None
        hazard = 1 / (1 + np.exp(-(b0 - b1 * sample.entropy)))[:, None]
        return float(((mean(hazard, 6, form) - sample.accept_len) ** 2).sum())

    b0, b1 = fit_affine(sample, "ls-rounds", form).coef
    best = error(b0, b1)
    assert all(error(b0 + d0, b1 + d1) >= best for d0 in (-0.01, 0, 0.01) for d1 in (-0.01, 0, 0.01))


@pytest.mark.parametrize("method", ["ls-rounds", "ls-deciles"])
def test_cluster_errors_match_the_spread_over_simulated_logs(method: LeastSquares) -> None:
    rng = np.random.default_rng(4)
    coefs, errors = [], []
    for _ in range(60):
        entropy = rng.exponential(size=600)
        level = np.repeat(rng.normal(0, 0.6, 60), 10)
        match = 1 / (1 + np.exp(-(1.0 + level - 0.8 * entropy)))
        a = np.cumprod(rng.random((600, 6)) < match[:, None], axis=1).sum(axis=1)
        sample = replace(rounds(a, entropy), cluster=np.repeat(np.arange(60), 10))
        fit = fit_affine(sample, method, "truncated")
        assert fit.cluster_covariance is not None
        coefs.append(fit.coef)
        errors.append(np.sqrt(np.diag(fit.cluster_covariance)))
    ratio = np.mean(errors, axis=0) / np.std(coefs, axis=0)
    assert ((ratio > 0.75) & (ratio < 1.3)).all()


def test_a_weight_stands_for_repeated_rounds(sample: Observations) -> None:
    weight = np.random.default_rng(1).integers(1, 4, len(sample))
    assert sample.entropy is not None
    assert sample.cluster is not None
    rows = np.repeat(np.arange(len(sample)), weight)
    repeated = replace(rounds(sample.accept_len[rows], sample.entropy[rows]), cluster=sample.cluster[rows])
    once = fit_affine(replace(sample, weight=weight.astype(float)), "ls-rounds", "truncated")
    again = fit_affine(repeated, "ls-rounds", "truncated")
    assert once.coef == pytest.approx(again.coef, abs=1e-7)
    assert once.covariance == pytest.approx(again.covariance, rel=1e-5)
    assert once.cluster_covariance == pytest.approx(again.cluster_covariance, rel=1e-5)


def test_fewer_than_thirty_rounds_are_refused(sample: Observations) -> None:
    with pytest.raises(FitError, match="29 rounds, least squares needs 30"):
        AffineLogit.fit(sample.take(np.arange(800) < 29), method="ls-rounds")


def test_constant_entropy_or_outcome_is_not_identified() -> None:
    a, entropy = np.arange(40) % 7, np.linspace(0, 1, 40)
    with pytest.raises(NotIdentified, match="root_entropy does not vary"):
        AffineLogit.fit(rounds(a, np.full(40, 0.3)), method="ls-rounds")
    with pytest.raises(NotIdentified, match="accept_len is 6 in every round"):
        AffineLogit.fit(rounds(np.full(40, 6), entropy), method="ls-deciles")


def test_a_step_in_entropy_runs_beyond_the_steepest_slope() -> None:
    entropy = np.linspace(0.0, 1.0, 60)
    with pytest.raises(NotIdentified, match="beyond 25"):
        AffineLogit.fit(rounds(np.where(entropy < 0.5, 5, 0), entropy), method="ls-rounds")


def test_geometric_least_squares_matches_the_mean(sample: Observations) -> None:
    for method in ("ls-rounds", "ls-deciles"):
        law = Geometric.fit(sample, method=method)  # type: ignore[arg-type]
        assert law.mean() == pytest.approx(sample.mean_accept_len)
    capped = Geometric.fit(sample, method="ls-rounds", mean="capped")
    assert capped.mean(form="capped") == pytest.approx(sample.mean_accept_len)


def test_isotonic_least_squares_is_isotonic_regression_of_a(sample: Observations) -> None:
    from sklearn.isotonic import isotonic_regression

    order = np.argsort(sample.entropy)
    expected = isotonic_regression(sample.accept_len[order].astype(float), increasing=False)
    law = Isotonic.fit(sample, method="ls-rounds")
    assert sample.entropy is not None
    assert law.mean(sample.entropy[order]) == pytest.approx(expected, abs=1e-9)


def test_means_of_several_horizons_name_no_one_hazard(sample: Observations) -> None:
    mixed = replace(sample, horizon=np.where(np.arange(800) < 5, 7, 6))
    for law in (Geometric, Isotonic):
        with pytest.raises(FitError, match="horizons run from 6 to 7"):
            law.fit(mixed, method="ls-rounds")
    for method in ("ls-rounds", "ls-deciles"):
        assert AffineLogit.fit(mixed, method=method).fitted is not None  # type: ignore[arg-type]


def test_means_do_not_identify_free_hazards(sample: Observations) -> None:
    with pytest.raises(NotIdentified, match="x: means do not determine a hazard per offset"):
        FreeHazard.fit(sample, method="ls-rounds")


def test_two_histogram_rows_make_too_few_bins() -> None:
    two = replace(rounds(np.array([1, 4]), np.array([0.1, 0.9])), weight=np.array([50.0, 50.0]))
    with pytest.raises(NotIdentified, match="2 bins of entropy"):
        AffineLogit.fit(two, method="ls-deciles")
