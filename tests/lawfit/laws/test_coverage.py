"""Simulate and fit: intervals hold the true coefficients as often as they say, with rounds censored and cut."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lawfit import AffineLogit, FreeHazard, Geometric, Isotonic, Law, Observations
from lawfit.laws import AffineByOffset, TwoState

REPLICATIONS = 200
# 99.9% of so many tosses at .95, with three coefficients or more looked at.
LEAST = 0.885


def simulate(law: Law, seed: int, *, n: int = 1500, prompts: int = 100) -> Observations:
    """Draw rounds with horizons of their own, a fifth of them cut by the end of the request."""
    rng = np.random.default_rng(seed)
    entropy = rng.gamma(0.8, 1.0, n)
    longest = law.horizon
    hazards = np.broadcast_to(np.atleast_2d(law.hazard(entropy if law.needs_entropy else None, longest)), (n, longest))
    run = np.cumprod(rng.random((n, longest)) < hazards, axis=1).sum(axis=1)
    horizon = rng.integers(max(1, longest - 2), longest + 1, n)
    cap = np.where(rng.random(n) < 0.2, rng.integers(0, horizon + 1), horizon)
    return Observations(
        np.minimum(run, cap), horizon, run < cap, np.ones(n), entropy=entropy, cluster=rng.integers(0, prompts, n)
    )


@pytest.mark.parametrize(
    "law",
    [
        AffineLogit(1.2, 0.8, 6),
        Geometric(0.7, 6),
        FreeHazard((0.6, 0.75, 0.8, 0.85)),
        AffineByOffset((1.4, 1.1, 0.9), (1.3, 0.8, 0.5), 3),
        TwoState(0.45, 0.92, 0.3, 8),
    ],
    ids=lambda law: law.name,
)
def test_intervals_of_maximum_likelihood_cover(law: Law) -> None:
    truth = np.array(list(law.params.values()), dtype=float)
    covered, told = np.zeros((2, len(truth))), 0
    for seed in range(REPLICATIONS):
        found = type(law).fit(simulate(law, seed))
        assert found.fitted is not None
        if found.fitted.cluster_se is None or len(found.params) != len(truth):
            continue  # on an edge, or pooled: no interval is claimed
        told += 1
        error = np.abs(np.array(list(found.params.values()), dtype=float) - truth)
        for k, errors in enumerate((found.fitted.se, found.fitted.cluster_se)):
            covered[k] += error <= 1.959964 * np.array(list((errors or {}).values()))
    assert told >= 0.9 * REPLICATIONS
    assert (covered / told >= LEAST).all(), covered / told


def test_intervals_of_least_squares_cover_with_one_horizon_and_no_cuts() -> None:
    law = AffineLogit(1.2, 0.8, 6)
    covered = np.zeros(2)
    for seed in range(REPLICATIONS):
        rows = simulate(law, seed)
        whole = replace(rows, horizon=np.full(len(rows), 6), missed=np.ones(len(rows), dtype=bool))
        rng = np.random.default_rng(seed + 5000)
        run = np.cumprod(rng.random((len(rows), 6)) < law.hazard(rows.entropy, 6), axis=1).sum(axis=1)
        whole = replace(whole, accept_len=run, missed=run < 6)
        fit = AffineLogit.fit(whole, method="ls-rounds")
        assert fit.fitted is not None
        assert fit.fitted.cluster_se is not None
        error = np.abs(np.array([fit.b0, fit.b1]) - (1.2, 0.8))
        covered += error <= 1.959964 * np.array(list(fit.fitted.cluster_se.values()))
    assert (covered / REPLICATIONS >= LEAST).all(), covered / REPLICATIONS


def test_the_isotonic_law_comes_near_the_truth_it_has_no_intervals_for() -> None:
    law = AffineLogit(1.2, 0.8, 6)
    grid = np.array([0.2, 0.6, 1.2, 2.0])
    found = np.array([Isotonic.fit(simulate(law, seed)).hazard(grid, 1)[:, 0] for seed in range(60)])
    assert found.mean(axis=0) == pytest.approx(law.hazard(grid, 1)[:, 0], abs=0.02)
