"""Logs that cannot identify a law, through every law: a fit, or a sentence that says why not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from lawfit import LAWS, LawfitError, NotIdentified, RoundLog, observe
from lawfit.association import decile_gap, spearman
from lawfit.ceiling import noise_ceiling
from lawfit.goodness import goodness_of_fit
from lawfit.hazard_trend import hazard_trend
from lawfit.likelihood_ratio import two_state_test
from lawfit.offset_test import offset_test
from lawfit.validation import Candidate, cross_validate
from lawfit.verdict import our_verdict, paper_verdict

N = 60
RNG = np.random.default_rng(3)
PLAIN: dict[str, Any] = {
    "accept_len": np.minimum(RNG.geometric(0.4, N) - 1, 6),
    "horizon": np.full(N, 6),
    "root_entropy": RNG.gamma(1.0, 1.0, N),
    "prompt_id": [f"p{k % 12}" for k in range(N)],
}
ODD: dict[str, dict[str, Any]] = {
    "a = L everywhere": {"accept_len": np.full(N, 6)},
    "all zero": {"accept_len": np.zeros(N, dtype=int)},
    "constant entropy": {"root_entropy": np.full(N, 0.7)},
    "zero entropy": {"root_entropy": np.zeros(N)},
    "one prompt": {"prompt_id": ["p"] * N},
    "one offset": {"accept_len": np.arange(N) % 2, "horizon": np.ones(N, dtype=int)},
    "separated": {"accept_len": np.where(np.arange(N) < 30, 6, 0), "root_entropy": np.arange(N) / 10},
    "no entropy": {"root_entropy": [None] * N},
    "no prompts": {"prompt_id": [None] * N},
    "huge entropy": {"root_entropy": np.full(N, 1e308)},
}
ONE: dict[str, Any] = {"accept_len": [2], "horizon": [6], "root_entropy": [0.4], "prompt_id": ["p"]}
LOGS = {**{name: {**PLAIN, **changes} for name, changes in ODD.items()}, "one round": ONE}


def rounds(name: str) -> RoundLog:
    frame = pl.DataFrame(LOGS[name], strict=False)
    return RoundLog.from_frame(frame.with_columns(pl.col("root_entropy").cast(pl.Float64)))


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("method", ["mle", "ls-rounds", "ls-deciles"])
def test_a_law_is_finite_or_not_identified(name: str, law: str, method: str) -> None:
    reason = ""
    try:
        fit = LAWS[law].fit(rounds(name), method=method)  # type: ignore[arg-type]
    except LawfitError as error:
        reason = str(error)
    if reason:
        assert reason.startswith("frame: ")
        return
    values = np.hstack([np.ravel(value) for value in fit.params.values()])
    assert np.isfinite(values).all()
    # A weight of two states is a ratio to their distance, and largest where they nearly meet.
    assert np.abs(values).max() <= (1e4 if law == "two-state" else 1e2)
    assert fit.fitted is not None
    assert not math.isnan(fit.fitted.log_likelihood)


@pytest.mark.parametrize(
    ("name", "law", "reason"),
    [
        ("a = L everywhere", "affine", "at infinity: every trial succeeded"),
        ("all zero", "affine", "at infinity: every trial failed"),
        ("constant entropy", "affine", "does not vary apart"),
        ("separated", "affine", "splits the outcomes"),
        ("no entropy", "affine", "no row has root_entropy"),
        ("a = L everywhere", "two-state", "no round missed"),
        ("one offset", "two-state", "1 offsets were seen"),
    ],
)
def test_the_reason_is_named(name: str, law: str, reason: str) -> None:
    with pytest.raises(NotIdentified, match=reason):
        LAWS[law].fit(rounds(name))


@pytest.mark.parametrize("name", LOGS)
def test_every_other_statistic_answers_or_says_why_not(name: str) -> None:
    rows = observe(rounds(name))
    few: dict[str, Any] = {"resamples": 20}
    asked = {
        "spearman": lambda: spearman(rows, **few),
        "decile gap": lambda: decile_gap(rows, **few),
        "ceiling": lambda: noise_ceiling(rows, **few),
        "goodness": lambda: goodness_of_fit(LAWS["geometric"].fit(rows), rows),
        "trend": lambda: hazard_trend(rows),
        "two states": lambda: two_state_test(rows, **few),
        "offsets": lambda: offset_test(rows),
        "unseen": lambda: cross_validate([Candidate(LAWS["geometric"])], rows, **few),
        "paper": lambda: paper_verdict(rows),
        "ours": lambda: our_verdict(rows, **few),
    }
    answers = {}
    for what, ask in asked.items():
        try:
            answers[what] = str(ask())
        except LawfitError as error:
            answers[what] = f"{type(error).__name__}: {error}"
    assert all(answers.values())
