from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from lawfit import AffineLogit, FreeHazard, Geometric, Law, RoundLog, observe
from lawfit.cluster import cluster_covariance
from lawfit.drift.gap import measure, promise


def test_means_are_those_of_the_law_at_each_rounds_own_horizon_and_entropy(synthetic: RoundLog) -> None:
    law = AffineLogit(1.1, 0.8, 8)
    seen = observe(synthetic)
    promised = promise(law, seen)
    by_hand = [law.survival(h, int(cap)).sum() for h, cap in zip(seen.entropy, seen.horizon, strict=True)]  # type: ignore[arg-type]
    assert promised.mean == pytest.approx(by_hand)
    whole = seen.missed | (seen.accept_len == seen.horizon)
    assert (promised.accept_len == seen.accept_len)[whole].all()


def test_a_cut_round_counts_the_laws_expectation_of_the_rest(synthetic: RoundLog) -> None:
    seen = observe(synthetic)
    promised = promise(Geometric(0.7, 8), seen)
    cut = ~seen.missed & (seen.accept_len < seen.horizon)
    left = (seen.horizon - seen.accept_len)[cut]
    assert cut.sum() > 20
    assert promised.accept_len[cut] == pytest.approx(seen.accept_len[cut] + 0.7 * (1 - 0.7**left) / 0.3)


def test_cut_rounds_do_not_bias_the_gap_of_a_true_law(world: Callable[..., RoundLog]) -> None:
    log = world(1, prompts=400, prompt_sd=0.0, cut=0.4)
    seen = observe(log)
    law = AffineLogit(1.2, 0.9, 8)
    gap = measure(promise(law, seen), seen, resamples=200, seed=0, level=0.05)
    assert abs(gap.difference) < 3 * gap.se
    assert gap.predicted - seen.mean_accept_len > 10 * gap.se


@pytest.mark.parametrize("kind", [AffineLogit, Geometric, FreeHazard])
def test_the_slope_is_the_derivative_of_the_mean(kind: type[Law], synthetic: RoundLog) -> None:
    seen = observe(synthetic)
    law = kind.fit(seen)
    promised = promise(law, seen)
    step = 1e-4
    for k in range(promised.slope.shape[1]):
        if isinstance(law, FreeHazard):
            up: Law = replace(law, hazards=tuple(h + step * (j == k) for j, h in enumerate(law.hazards)))
        elif isinstance(law, AffineLogit):
            up = replace(law, b0=law.b0 + step * (k == 0), b1=law.b1 + step * (k == 1))
        else:
            up = replace(law, match_prob=law.match_prob + step)  # type: ignore[call-arg]
        assert promised.slope[:, k] == pytest.approx((promise(up, seen).mean - promised.mean) / step, abs=3e-3)


def test_the_error_adds_the_laws_own_to_that_of_the_rounds(synthetic: RoundLog) -> None:
    seen = observe(synthetic)
    law = AffineLogit.fit(seen)
    with_own, without = (promise(either, seen) for either in (law, AffineLogit(law.b0, law.b1, 8)))
    a, b = (measure(either, seen, resamples=4000, seed=0, level=0.05) for either in (with_own, without))
    lean = with_own.slope.mean(axis=0)
    assert a.se**2 - b.se**2 == pytest.approx(lean @ np.array(law.fitted.cluster_covariance) @ lean)  # type: ignore[union-attr]
    residual = without.accept_len - without.mean
    robust = cluster_covariance([residual - residual.mean()], np.array([[1 / len(seen)]]), seen.cluster, len(seen))
    assert robust is not None
    assert b.se == pytest.approx(np.sqrt(robust[0, 0]), rel=0.05)
    assert b.observed - b.low == pytest.approx(2.045 * b.se, rel=1e-3)  # t with 29 degrees of freedom


def test_one_prompt_has_no_error(synthetic: RoundLog) -> None:
    seen = observe(synthetic)
    alone = seen.take(seen.cluster == 3)  # type: ignore[arg-type]
    gap = measure(promise(Geometric(0.7, 8), alone), alone, resamples=50, seed=0, level=0.05)
    assert np.isnan([gap.se, gap.low, gap.high, gap.p_value]).all()
    assert gap.observed > 0
