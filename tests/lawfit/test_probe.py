"""The mismatched-image probe."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

from lawfit import FitError, NotIdentified, RoundLog
from lawfit.probe import probe

B0, B1 = 1.0, 0.8


def condition(rng: np.random.Generator, level: np.ndarray, extra_nats: float, effect: float) -> RoundLog:
    """20 rounds for each prompt; a condition adds entropy, and an effect beyond it."""
    prompt = np.repeat(np.arange(len(level)), 20)
    entropy = rng.gamma(1.0, 0.4 + extra_nats, len(prompt))
    match = 1.0 / (1.0 + np.exp(-(B0 + level[prompt] - B1 * entropy + effect)))
    run = rng.random((len(prompt), 8)) < match[:, None]
    return RoundLog.from_frame(
        pl.DataFrame(
            {
                "prompt_id": [f"p{k}" for k in prompt],
                "position": np.tile(np.arange(20), len(level)),
                "accept_len": np.cumprod(run, axis=1).sum(axis=1),
                "horizon": np.full(len(prompt), 8),
                "root_entropy": entropy,
            }
        )
    )


def pair(seed: int, effect: float = 0.0, prompts: int = 40) -> dict[str, RoundLog]:
    rng = np.random.default_rng(seed)
    level = rng.normal(0.0, 0.4, prompts)
    return {"correct": condition(rng, level, 0.0, effect), "mismatched": condition(rng, level, 0.4, 0.0)}


def test_the_gain_is_the_ratio_of_mean_tokens_per_round_on_the_shared_prompts() -> None:
    logs = pair(1)
    some = {**logs, "mismatched": logs["mismatched"].where(pl.col("prompt_id") != "p3")}
    (found,) = probe(some, resamples=50)
    a, a_0 = (log.frame.filter(pl.col("prompt_id") != "p3")["accept_len"].mean() for log in logs.values())
    h, h_0 = (log.frame.filter(pl.col("prompt_id") != "p3")["root_entropy"].mean() for log in logs.values())
    assert found.gain.prompts == 39
    assert found.gain.tau.estimate == pytest.approx((a + 1) / (a_0 + 1) - 1)
    assert found.gain.accept_len.estimate == pytest.approx(a / a_0 - 1)
    assert found.gain.entropy.estimate == pytest.approx(h - h_0)
    assert found.notes[0].startswith("1 prompts are in one of correct and mismatched only")


def test_pairing_by_prompt_narrows_the_interval() -> None:
    logs = pair(2)
    (paired,) = probe(logs, resamples=500)
    taus = [
        log.frame.group_by("prompt_id").agg(pl.col("accept_len").mean() + 1).sort("prompt_id")["accept_len"].to_numpy()
        for log in logs.values()
    ]
    rng = np.random.default_rng(0)
    loose = [taus[0][rng.integers(0, 40, 40)].mean() / taus[1][rng.integers(0, 40, 40)].mean() for _ in range(500)]
    low, high = np.quantile(loose, [0.025, 0.975])
    assert paired.gain.tau.high - paired.gain.tau.low < 0.8 * (high - low)


def test_the_residual_is_that_of_a_clustered_binomial_regression() -> None:
    import statsmodels.api as sm

    logs = pair(3, effect=-0.1)
    (found,) = probe(logs, resamples=20)
    rows = []
    for name, log in logs.items():
        for row in log.frame.iter_rows(named=True):
            trials = [1] * row["accept_len"] + [0] * (row["accept_len"] < row["horizon"])
            rows += [(hit, row["root_entropy"], float(name == "correct"), int(row["prompt_id"][1:])) for hit in trials]
    hit, entropy, correct, prompt = (np.array(column) for column in zip(*rows, strict=True))
    design = np.stack([np.ones(len(hit)), -entropy, correct], axis=1)
    fit = sm.GLM(hit, design, family=sm.families.Binomial()).fit(cov_type="cluster", cov_kwds={"groups": prompt})
    assert found.residual is not None
    assert (found.residual.b0, found.residual.b1, found.residual.coef.estimate) == pytest.approx(
        tuple(fit.params), rel=1e-6
    )
    assert (found.residual.coef.low, found.residual.coef.high) == pytest.approx(tuple(fit.conf_int()[2]), rel=1e-4)
    assert found.residual.p_value == pytest.approx(fit.pvalues[2], rel=1e-3)


def test_gain_and_residual_cover_the_truth_as_often_as_they_say() -> None:
    # What either number tends to: levels of prompts flatten the logit, so the residual is not quite the effect.
    (limit,) = probe(pair(999, effect=0.15, prompts=2500), resamples=20)
    assert limit.residual is not None
    gain = residual = 0
    for trial in range(200):
        (found,) = probe(pair(trial, effect=0.15), resamples=300, seed=trial)
        assert found.residual is not None
        for_gain, for_residual = found.gain.tau, found.residual.coef
        gain += for_gain.low <= limit.gain.tau.estimate <= for_gain.high
        residual += for_residual.low <= limit.residual.coef.estimate <= for_residual.high
    low, high = binom.ppf([0.002, 0.998], 200, 0.94)
    assert low <= gain <= high
    assert low <= residual <= high


def test_entropy_alone_leaves_no_residual() -> None:
    (found,) = probe(pair(5, prompts=400), resamples=200)
    assert found.residual is not None
    assert found.gain.tau.low > 0.1  # the condition lowers entropy, and acceptance rises
    assert found.residual.coef.low < 0.0 < found.residual.coef.high


def test_every_other_condition_is_measured_and_without_entropy_only_its_gain() -> None:
    logs = pair(6)
    bare = RoundLog.from_frame(logs["mismatched"].frame.drop("root_entropy"))
    found = probe({**logs, "none": bare}, resamples=20)
    assert [(part.condition, part.reference) for part in found] == [("correct", "mismatched"), ("none", "mismatched")]
    assert found[1].residual is None
    assert np.isnan(found[1].gain.entropy.estimate)
    assert found[1].gain.tau.estimate == 0.0


def test_trajectories_that_differ_are_told() -> None:
    logs = pair(7)
    moved = RoundLog.from_frame(logs["correct"].frame.with_columns(pl.col("position") + 1))
    (found,) = probe({**logs, "correct": moved}, resamples=20)
    assert found.notes == (
        "correct and mismatched were not drafted at the same positions: the trajectory is not shared",
    )
    (same,) = probe(logs, resamples=20)
    assert same.notes == ()


def test_what_cannot_be_compared_is_refused() -> None:
    logs = pair(8)
    with pytest.raises(FitError, match="reference 'blank'"):
        probe(logs, "blank")
    with pytest.raises(FitError, match="expected it and another"):
        probe({"mismatched": logs["mismatched"]})
    elsewhere = RoundLog.from_frame(logs["correct"].frame.with_columns(pl.col("prompt_id") + "x"))
    with pytest.raises(NotIdentified, match="share no prompt"):
        probe({**logs, "correct": elsewhere})
