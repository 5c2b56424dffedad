from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, sem

from lawfit import AffineLogit, FreeHazard, Geometric, Law, RoundLog, observe
from lawfit.cluster import cluster_covariance
from lawfit.drift.gap import Gap, measure, promise


def test_means_are_those_of_the_law_at_each_rounds_own_horizon_and_entropy(synthetic: RoundLog) -> None:
    law = AffineLogit(1.1, 0.8, 8)
    seen = observe(synthetic)
    promised = promise(law, seen)
    whole = seen.missed | (seen.accept_len == seen.horizon)
    by_hand = [law.survival(h, int(cap)).sum() for h, cap in zip(seen.entropy, seen.horizon, strict=True)]  # type: ignore[arg-type]
    assert promised.mean[whole] == pytest.approx(np.array(by_hand)[whole])
    assert (promised.accept_len == seen.accept_len).all()


def test_a_cut_round_is_promised_less_by_the_laws_expectation_of_the_rest(synthetic: RoundLog) -> None:
    seen = observe(synthetic)
    promised = promise(Geometric(0.7, 8), seen)
    cut = ~seen.missed & (seen.accept_len < seen.horizon)
    left = (seen.horizon - seen.accept_len)[cut]
    assert cut.sum() > 20
    whole = Geometric(0.7, 8).mean(None, seen.horizon)
    assert promised.mean[cut] == pytest.approx(whole[cut] - 0.7 * (1 - 0.7**left) / 0.3)


def test_cut_rounds_do_not_bias_the_gap_of_a_true_law(world: Callable[..., RoundLog]) -> None:
    log = world(1, prompts=400, prompt_sd=0.0, cut=0.4)
    seen = observe(log)
    law = AffineLogit(1.2, 0.9, 8)
    gap = measure(promise(law, seen), seen, resamples=200, seed=0, level=0.05)
    assert abs(gap.difference) < 3 * gap.se
    assert gap.observed == pytest.approx(seen.mean_accept_len)
    assert law.mean(seen.entropy, seen.horizon).mean() - gap.observed > 10 * gap.se


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
    assert b.difference - b.difference_low == pytest.approx(2.045 * b.se, rel=1e-3)  # t with 29 degrees of freedom
    mean = seen.accept_len - seen.mean_accept_len
    alone = cluster_covariance([mean], np.array([[1 / len(seen)]]), seen.cluster, len(seen))
    assert alone is not None
    assert a.observed_se == b.observed_se == pytest.approx(np.sqrt(alone[0, 0]), rel=0.05)
    assert b.observed_high - b.observed == pytest.approx(2.045 * b.observed_se, rel=1e-3)


def test_one_prompt_has_no_error(synthetic: RoundLog) -> None:
    seen = observe(synthetic)
    alone = seen.take(seen.cluster == 3)  # type: ignore[arg-type]
    gap = measure(promise(Geometric(0.7, 8), alone), alone, resamples=50, seed=0, level=0.05)
    assert np.isnan([gap.se, gap.observed_high, gap.difference_low, gap.difference_high, gap.p_value]).all()
    assert gap.wanting(0.1, 1) == "a single prompt shows no error"
    assert gap.observed > 0


def test_without_prompts_a_row_of_weight_w_is_w_rounds(synthetic: RoundLog) -> None:
    seen = observe(synthetic)
    nameless = replace(seen, cluster=None)
    law = Geometric(0.7, 8)
    weight = np.arange(len(seen)) % 3 + 1.0
    rows = np.repeat(np.arange(len(seen)), weight.astype(int))
    one_by_one = replace(
        nameless,
        **{name: getattr(seen, name)[rows] for name in ("accept_len", "horizon", "missed", "weight", "entropy", "row")},
    )
    options = {"resamples": 50, "seed": 0, "level": 0.05}
    pooled = replace(nameless, weight=weight)
    a, b = (measure(promise(law, either), either, **options) for either in (pooled, one_by_one))  # type: ignore[arg-type]
    for name in ("observed", "observed_se", "rounds_se", "units"):
        assert getattr(a, name) == pytest.approx(getattr(b, name))
    assert b.observed_se == pytest.approx(sem(one_by_one.accept_len))


def test_what_more_prompts_cannot_tell_is_said() -> None:
    gap = Gap(2.0, 0.2, 2.05, 0.1, 0.1, 50.0, 0.05)
    exact = replace(gap, predicted_se=0.0)
    assert "the law's own error is too large" in str(gap.wanting(0.1, 3))
    assert "prompts vary too much for even 100 times as many" in str(exact.wanting(0.01, 3))
    assert "too near the tolerance" in str(replace(exact, rounds_se=0.01, observed=2.0999).wanting(0.1, 3))


def test_the_prompts_that_would_tell_follow_from_the_present_error() -> None:
    gap = Gap(2.0, 0.0, 2.0, 0.1, 0.1, 1000.0, 0.05)
    needed = 1000 * ((norm.isf(0.025) + norm.isf(0.1)) * 0.1 / 0.2) ** 2
    assert 1000 + gap.wanting(0.2, 3) == pytest.approx(needed, rel=0.01)  # type: ignore[operator]
    # Where the error is small already, the difference decides: within the tolerance, or significant beyond it.
    near = replace(gap, rounds_se=0.05, observed=2.14)
    assert 1000 + near.wanting(0.2, 3) == pytest.approx(1000 * (norm.isf(0.025) * 0.05 / 0.06) ** 2, rel=0.01)  # type: ignore[operator]
    beyond = replace(gap, rounds_se=0.1, observed=2.33)
    needed = 1000 * (norm.isf(0.025 / 200) * 0.1 / 0.33) ** 2
    assert 1000 + beyond.wanting(0.325, 200) == pytest.approx(needed, rel=0.01)  # type: ignore[operator]
