"""The affine law with coefficients by offset, and the tests built on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm

from lawfit import AffineLogit, FitError, NotIdentified, Observations, RoundLog, observe
from lawfit.laws import AffineByOffset, Law
from lawfit.offset_test import offset_test, own_entropy_test

POSITIONS = Path(__file__).parents[4] / "shared" / "data" / "public-logs" / "humaneval_strict_positions.parquet"


def simulate(law: Law, n: int, seed: int, prompts: int = 60) -> Observations:
    rng = np.random.default_rng(seed)
    entropy = rng.gamma(0.8, 1.0, n)
    horizon = law.horizon
    go = rng.random((n, horizon)) < law.hazard(entropy, horizon)
    a = np.cumprod(go, axis=1).sum(axis=1)
    cap = rng.integers(1, horizon + 1, n)
    a_seen = np.minimum(a, cap)
    return Observations(a_seen, cap, a < cap, np.ones(n), entropy=entropy, cluster=rng.integers(0, prompts, n))


def test_it_equals_a_glm_with_offset_interactions_on_expanded_rows(synthetic: RoundLog) -> None:
    rows = observe(synthetic)
    law = AffineByOffset.fit(rows)
    row = np.repeat(np.arange(len(rows)), rows.trials)
    offset = np.concatenate([np.arange(1, t + 1) for t in rows.trials])
    group = np.minimum(offset, len(law.b0))
    assert rows.entropy is not None
    assert rows.cluster is not None
    assert law.fitted is not None
    at = (group[:, None] == np.arange(1, len(law.b0) + 1)).astype(float)
    x = np.hstack([np.stack([at[:, j], -at[:, j] * rows.entropy[row]], axis=1) for j in range(len(law.b0))])
    y = (offset <= rows.accept_len[row]).astype(float)
    glm = sm.GLM(y, x, family=sm.families.Binomial()).fit(
        tol=1e-14, maxiter=200, cov_type="cluster", cov_kwds={"groups": rows.cluster[row]}
    )
    assert list(law.params.values()) == pytest.approx(glm.params, abs=1e-8)
    assert list((law.fitted.cluster_se or {}).values()) == pytest.approx(glm.bse, rel=1e-7)


def test_equal_coefficients_are_the_affine_law() -> None:
    single = AffineLogit(1.2, 0.8, 5)
    law = AffineByOffset((1.2,) * 4, (0.8,) * 4, 5)
    assert law.survival([0.1, 2.0]) == pytest.approx(single.survival([0.1, 2.0]))
    assert AffineByOffset((1.0, 1.0), (0.5, 0.0), 2).hazard(np.inf) == pytest.approx([0.0, 1 / (1 + np.exp(-1))])


def test_offsets_that_separate_are_pooled_with_the_one_before() -> None:
    rows = simulate(AffineLogit(1.0, 0.7, 4), 400, 1)
    always = np.where(rows.accept_len >= 3, 4, rows.accept_len)
    rows = Observations(always, np.full(400, 4), always < 4, np.ones(400), rows.entropy, rows.cluster)
    law = AffineByOffset.fit(rows)
    assert (len(law.b0), law.horizon) == (3, 4)
    assert law.fitted is not None
    assert law.fitted.notes[0].startswith("offsets 3 to 4 are pooled: at offset 4, ")
    assert law.fitted.log_likelihood > AffineLogit.fit(rows).log_likelihood(rows)
    hazards = law.hazard(0.5)
    assert hazards[2] == hazards[3]


def test_values_are_checked_and_survive_json() -> None:
    with pytest.raises(FitError, match="1 values of b0 and 2 of b1"):
        AffineByOffset((1.0,), (0.5, 0.4), 3)
    with pytest.raises(FitError, match="expected finite"):
        AffineByOffset((float("nan"),), (0.5,), 3)
    law = AffineByOffset((1.0, 0.8), (0.5, 0.4), 15)
    assert Law.from_json(law.to_json()) == law


def test_the_offset_test_rejects_at_its_level_where_one_law_holds() -> None:
    law, rejected = AffineLogit(1.1, 0.8, 4), 0
    wald = 0
    for seed in range(200):
        test = offset_test(simulate(law, 1500, seed, prompts=150))
        assert test.df == 6
        rejected += test.p_value < 0.05
        wald += (test.wald_p_value or 0.0) < 0.05
    assert 2 <= rejected <= 21
    assert 2 <= wald <= 26


def test_the_offset_test_finds_slopes_that_decay() -> None:
    test = offset_test(simulate(AffineByOffset((1.5, 1.2, 1.0), (1.5, 0.9, 0.5), 3), 6000, 4))
    assert test.p_value < 1e-6
    assert test.slopes == pytest.approx((1.5, 0.9, 0.5), abs=0.2)


def test_one_offset_cannot_be_compared() -> None:
    with pytest.raises(NotIdentified, match="a comparison needs two"):
        offset_test(simulate(AffineLogit(1.0, 0.5, 1), 200, 0))


def test_root_slopes_decay_on_humaneval(humaneval_rounds: Observations) -> None:
    test = offset_test(humaneval_rounds)
    assert (test.slopes[0], test.slopes[-1]) == pytest.approx((1.52, 0.50), abs=0.02)
    assert test.wald_p_value is not None
    assert test.wald_p_value < 1e-10


def test_on_humaneval_the_trend_vanishes_with_the_entropy_of_each_offset() -> None:
    if not POSITIONS.exists():
        pytest.skip("the public HumanEval positions are not on this machine")
    frame = pl.read_parquet(POSITIONS)
    frame = frame.filter(pl.col("round") < pl.col("round").max().over("prompt"))
    root = frame.filter(pl.col("pos") == 0).select("prompt", "round", root="H")
    frame = frame.filter((pl.col("pos") < 6) & pl.col("H").is_not_null()).join(root, on=["prompt", "round"])
    test = own_entropy_test(
        frame["strict_acc"].cast(pl.Float64),
        frame["pos"] + 1,
        frame["H"].cast(pl.Float64),
        (frame["prompt"].rank("dense") - 1).cast(pl.Int64).to_numpy(),
        root_entropy=frame["root"].cast(pl.Float64),
    )
    assert test.trend_statistic == pytest.approx(1.2, abs=0.1)
    assert test.root_trend_statistic > 10
    # Free shifts do differ, by at most .11 in log odds: a tenth of what the root's entropy leaves.
    assert test.statistic < test.root_statistic / 5
    assert max(map(abs, test.shift)) < 0.12


def test_own_entropy_test_equals_the_glm() -> None:
    rng = np.random.default_rng(6)
    offset, entropy, cluster = rng.integers(1, 5, 800), rng.gamma(1.0, 1.0, 800), rng.integers(0, 40, 800)
    y = (rng.random(800) < 1 / (1 + np.exp(-(1.0 - 0.8 * entropy + 0.2 * offset)))).astype(float)
    base = np.stack([np.ones(800), entropy], axis=1)
    shifts = (offset[:, None] == [2, 3, 4]).astype(float)
    options = {"tol": 1e-14, "maxiter": 200}
    plain = sm.GLM(y, base, family=sm.families.Binomial()).fit(**options)
    full = sm.GLM(y, np.hstack([base, shifts]), family=sm.families.Binomial()).fit(
        **options, cov_type="cluster", cov_kwds={"groups": cluster}
    )
    trend = sm.GLM(y, np.hstack([base, offset[:, None]]), family=sm.families.Binomial()).fit(**options)
    test = own_entropy_test(y, offset, entropy, cluster)
    assert test.statistic == pytest.approx(2 * (full.llf - plain.llf), abs=1e-7)
    assert test.trend_statistic == pytest.approx(2 * (trend.llf - plain.llf), abs=1e-7)
    assert test.shift_se == pytest.approx(full.bse[2:], rel=1e-7)
    assert (test.df, test.b1) == (3, pytest.approx(-trend.params[1]))
    assert np.isnan(test.root_statistic)


@pytest.mark.parametrize(
    ("offset", "entropy", "error", "message"),
    [
        ([1, 2], [0.1, 0.2, 0.3], FitError, "do not agree"),
        ([1, 2, 1], [0.1, -0.2, 0.3], FitError, "entropy is -0.2"),
        ([1, 1, 1], [0.1, 0.2, 0.3], NotIdentified, "one offset only"),
    ],
)
def test_odd_positions_are_refused(
    offset: list[int], entropy: list[float], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        own_entropy_test([1, 0, 1], offset, entropy)


def test_a_trend_survives_an_offset_whose_outcomes_separate() -> None:
    rng = np.random.default_rng(8)
    offset, entropy = rng.integers(1, 4, 300), rng.gamma(1.0, 1.0, 300)
    y = (rng.random(300) < 1 / (1 + np.exp(-(0.8 - 0.7 * entropy)))).astype(float)
    y[offset == 3] = 1.0
    test = own_entropy_test(y, offset, entropy)
    assert np.isfinite([test.trend, test.b1, test.trend_statistic]).all()
    assert np.isnan([test.statistic, test.p_value, *test.shift]).all()


def test_with_few_prompts_the_wald_test_still_holds_its_level() -> None:
    # Ten coefficients and 25 prompts: the chi-square would reject a third of true laws.
    rejected = 0
    for seed in range(100):
        test = offset_test(simulate(AffineLogit(1.1, 0.8, 6), 1500, seed, prompts=25))
        rejected += test.wald_p_value is not None and test.wald_p_value < 0.05
    assert rejected <= 14  # 99.9% of a binomial with 100 and .05


def test_what_one_prompt_alone_reaches_has_no_coefficients_of_its_own() -> None:
    rng = np.random.default_rng(5)
    prompt = rng.integers(0, 20, 2000)
    horizon = np.where(prompt == 0, 8, 2)
    entropy = rng.gamma(0.8, 1.0, 2000)
    go = rng.random((2000, 8)) < 1 / (1 + np.exp(-(1.5 - 0.5 * entropy[:, None])))
    run = np.cumprod(go, axis=1).sum(axis=1)
    a = np.minimum(run, horizon)
    rows = Observations(a, horizon, run < horizon, np.ones(2000), entropy, prompt)
    law = AffineByOffset.fit(rows)
    assert len(law.b0) == 2
    assert law.fitted is not None
    assert "prompts got there" in law.fitted.notes[0]
    assert min((law.fitted.cluster_se or {}).values()) > 0.01
    test = offset_test(rows)
    assert test.wald_p_value is not None
    assert test.wald_p_value > 1e-4


def test_prompts_without_a_trial_do_not_count() -> None:
    rows = simulate(AffineLogit(1.1, 0.8, 3), 900, 2, prompts=12)
    more = np.arange(10)
    idle = Observations(
        np.concatenate([rows.accept_len, 0 * more]),
        np.concatenate([rows.horizon, 1 + 0 * more]),
        np.concatenate([rows.missed, more < 0]),
        np.ones(910),
        np.concatenate([rows.entropy, 0.5 + 0 * more]),  # type: ignore[list-item]
        np.concatenate([rows.cluster, 12 + more]),  # type: ignore[list-item]
    )
    one, other = AffineByOffset.fit(rows).fitted, AffineByOffset.fit(idle).fitted
    assert one is not None
    assert other is not None
    assert list((one.cluster_se or {}).values()) == pytest.approx(list((other.cluster_se or {}).values()))
