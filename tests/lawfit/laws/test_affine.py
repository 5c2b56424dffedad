from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st

from lawfit import AffineLogit, FitError, NotIdentified, Observations, RoundLog, observe


def expanded_glm(seen: Observations) -> tuple[Any, Any]:
    """The oracle: one Bernoulli row per offset seen, with plain and with cluster covariance."""
    rows = np.repeat(np.arange(len(seen)), seen.trials)
    offset = np.concatenate([np.arange(1, t + 1) for t in seen.trials])
    matched = (offset <= seen.accept_len[rows]).astype(float)
    assert seen.entropy is not None
    assert seen.cluster is not None
    x = np.column_stack([np.ones(len(rows)), -seen.entropy[rows]])
    model = sm.GLM(matched, x, family=sm.families.Binomial())
    groups = {"groups": seen.cluster[rows]}
    plain = model.fit(tol=1e-14, maxiter=200)
    return plain, model.fit(tol=1e-14, maxiter=200, cov_type="cluster", cov_kwds=groups)


@pytest.mark.parametrize("source", ["synthetic", "humaneval"])
def test_the_fit_equals_the_cluster_glm_on_offset_expanded_rows(source: str, request: pytest.FixtureRequest) -> None:
    seen = observe(request.getfixturevalue(source))
    law = AffineLogit.fit(seen)
    plain, robust = expanded_glm(seen)
    details = law.fitted
    assert details is not None
    assert [law.b0, law.b1] == pytest.approx(plain.params, abs=1e-8)
    assert np.array(details.covariance) == pytest.approx(plain.cov_params(), abs=1e-8)
    assert np.array(details.cluster_covariance) == pytest.approx(robust.cov_params(), abs=1e-8)
    assert details.log_likelihood == pytest.approx(plain.llf, rel=1e-12)


def test_the_published_coefficients_are_the_defaults() -> None:
    law = AffineLogit()
    assert (law.b0, law.b1, law.horizon, law.fitted) == (0.96, 0.63, 15, None)


def test_the_mean_of_docvqa_is_capped_as_printed() -> None:
    # GLANCE A.2: the supremum of the DocVQA fit is 3.34 at b0 = 1.226, L = 15.
    assert AffineLogit(1.226, 1.0).mean(0.0) == pytest.approx(3.33577, abs=5e-6)


@pytest.mark.parametrize(("e_b0", "cap"), [(3.2188, 3.22), (4.4997, 4.50)])
def test_theorem_2a_caps_round_to_the_printed_ones(e_b0: float, cap: float) -> None:
    assert round(math.exp(math.log(e_b0)), 2) == cap
    assert AffineLogit(math.log(e_b0), 1.0).mean(0.0) < e_b0


@given(st.floats(-5, 5), st.floats(0.01, 5), st.floats(0, 10), st.floats(0, 10))
def test_the_mean_falls_with_entropy(b0: float, b1: float, h1: float, h2: float) -> None:
    law = AffineLogit(b0, b1)
    low, high = sorted((h1, h2))
    assert law.mean(low) >= law.mean(high) - 1e-12
    assert 0 <= law.mean(high) <= min(15, math.exp(b0)) + 1e-12


def test_shapes_follow_the_entropy() -> None:
    law = AffineLogit(horizon=6)
    assert law.mean(0.5).shape == ()
    assert law.hazard(0.5).shape == (6,)
    assert law.hazard([0.5, 1.0], 4).shape == (2, 4)
    assert law.survival([[0.5], [1.0]]).shape == (2, 1, 6)
    assert law.mean([0.5, 1.0], [3, 0]).tolist() == [pytest.approx(law.mean(0.5, 3)), 0.0]


def test_infinite_entropy_is_certain_to_miss_unless_the_slope_is_zero() -> None:
    assert AffineLogit(1.0, 0.5).mean(np.inf) == 0.0
    assert AffineLogit(1.0, 0.0).hazard(np.inf)[0] == pytest.approx(1 / (1 + math.exp(-1)))


@pytest.mark.parametrize("entropy", [-0.1, np.nan])
def test_an_entropy_that_cannot_be_is_refused(entropy: float) -> None:
    with pytest.raises(FitError, match="expected nats >= 0"):
        AffineLogit().mean(entropy)


def test_a_missing_entropy_is_not_identified() -> None:
    with pytest.raises(NotIdentified, match="affine law needs an entropy"):
        AffineLogit().mean()
    frame = RoundLog.from_frame(pl.DataFrame({"accept_len": [1], "horizon": [3]}))
    with pytest.raises(NotIdentified, match="no row has root_entropy"):
        AffineLogit.fit(frame)


@pytest.mark.parametrize(
    "values", [{"b0": math.nan}, {"b1": math.inf}, {"horizon": 0}, {"horizon": 2.5}, {"horizon": True}]
)
def test_impossible_coefficients_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(FitError):
        AffineLogit(**values)


def rounds(a: list[int], entropy: list[float], **more: Any) -> RoundLog:
    return RoundLog.from_frame(
        pl.DataFrame({"accept_len": a, "horizon": [6] * len(a), "root_entropy": entropy, **more})
    )


def test_a_log_that_always_accepts_everything_puts_the_estimate_at_infinity() -> None:
    with pytest.raises(NotIdentified, match=r"frame: the maximum likelihood estimate is at infinity: every"):
        AffineLogit.fit(rounds([6] * 40, np.linspace(0, 2, 40).tolist()))


def test_a_log_split_by_entropy_says_where() -> None:
    with pytest.raises(NotIdentified, match=r"root_entropy splits .*: successes have 0\.5 or less"):
        AffineLogit.fit(rounds([6, 6, 0, 0], [0.1, 0.5, 0.7, 0.9]))


def test_one_entropy_has_no_slope() -> None:
    with pytest.raises(NotIdentified, match="root_entropy does not vary"):
        AffineLogit.fit(rounds([1, 2, 0], [0.3] * 3))


def test_order_of_rows_names_of_prompts_and_empty_rounds_leave_the_fit(synthetic: RoundLog) -> None:
    base = AffineLogit.fit(synthetic)
    zero = synthetic.frame.head(5).with_columns(accept_len=pl.lit(0, pl.Int64), horizon=pl.lit(0, pl.Int64))
    shuffled = pl.concat([synthetic.frame.sample(fraction=1.0, shuffle=True, seed=1), zero])
    renamed = shuffled.with_columns(prompt_id=pl.concat_str([pl.lit("q"), pl.col("prompt_id").str.reverse()]))
    other = AffineLogit.fit(RoundLog.from_frame(renamed))
    assert base.fitted is not None
    assert other.fitted is not None
    assert [other.b0, other.b1] == pytest.approx([base.b0, base.b1], abs=1e-12)
    assert other.fitted.se == pytest.approx(base.fitted.se)
    assert other.fitted.log_likelihood == pytest.approx(base.fitted.log_likelihood)


def test_the_fitted_likelihood_is_the_largest_nearby(synthetic: RoundLog) -> None:
    law = AffineLogit.fit(synthetic)
    assert law.fitted is not None
    best = law.log_likelihood(synthetic)
    assert best == law.fitted.log_likelihood
    for d0, d1 in ((0.01, 0), (-0.01, 0), (0, 0.01), (0, -0.01)):
        assert AffineLogit(law.b0 + d0, law.b1 + d1).log_likelihood(synthetic) < best


def test_the_capped_mean_belongs_to_least_squares(synthetic: RoundLog) -> None:
    with pytest.raises(FitError, match=r"form of least squares"):
        AffineLogit.fit(synthetic, mean="capped")


def test_observations_keep_their_own_options(synthetic: RoundLog) -> None:
    seen = observe(synthetic, last_round="drop")
    assert AffineLogit.fit(seen) == AffineLogit.fit(synthetic, last_round="drop")
    with pytest.raises(FitError, match="censor was asked for, but the observations were made with drop"):
        AffineLogit.fit(seen, last_round="censor")


def test_a_law_is_equal_by_its_coefficients_and_hashable() -> None:
    assert AffineLogit(1.0, 2.0, 3) == replace(AffineLogit(1.0, 2.0, 3))
    assert len({AffineLogit(), AffineLogit()}) == 1
