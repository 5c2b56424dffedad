"""Cross-validation by prompt, and the verdicts."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import r2_score

from lawfit import (
    AffineLogit,
    FitError,
    FreeHazard,
    Geometric,
    Isotonic,
    NotIdentified,
    Observations,
    RoundLog,
    observe,
)
from lawfit.folds import prompt_folds
from lawfit.validation import Candidate, cross_validate
from lawfit.verdict import our_verdict, paper_verdict


def rounds(seed: int, slope: float, n: int = 1500) -> Observations:
    rng = np.random.default_rng(seed)
    entropy = rng.gamma(0.8, 1.0, n)
    match = 1 / (1 + np.exp(-(1.0 - slope * entropy)))
    a = np.minimum(rng.geometric(1 - match) - 1, 6)
    return Observations(a, np.full(n, 6), a < 6, np.ones(n), entropy, rng.integers(0, 50, n))


def test_scores_equal_a_loop_over_folds() -> None:
    rows = rounds(1, 0.9)
    result = cross_validate([Candidate(Geometric), Candidate(AffineLogit)], rows, folds=4, deals=1, resamples=50)
    assert rows.cluster is not None
    assert rows.entropy is not None
    fold = prompt_folds(rows.cluster, 4)
    guess, score = np.empty(len(rows)), 0.0
    for k in range(4):
        law = AffineLogit.fit(rows.take(fold != k))
        test = rows.take(fold == k)
        guess[fold == k] = law.mean(test.entropy, 6)
        score += law.log_likelihood(test)
    assert result.round_r2[1] == pytest.approx(r2_score(rows.accept_len, guess))
    assert result.log_score.estimate[1] == pytest.approx(score / len(rows))
    assert result.gain.estimate[0] == 0.0
    assert result.gain.low[1] > 0


def test_out_of_sample_values_of_humaneval(humaneval: RoundLog) -> None:
    laws = [Candidate(AffineLogit), Candidate(AffineLogit, "ls-rounds"), Candidate(Isotonic, "ls-rounds")]
    result = cross_validate(laws, observe(humaneval), resamples=50)
    assert result.round_r2 == pytest.approx((0.352, 0.364, 0.415), abs=1e-3)
    # In sample an isotonic curve through ten rising means is 1 whatever the truth: this one is from other prompts.
    assert result.curve_r2[2] < 1.0


def test_a_law_that_rules_out_what_happened_scores_minus_infinity() -> None:
    rows = rounds(2, 0.9)
    # One prompt alone reaches offset 6, so that other prompts give it no chance.
    assert rows.cluster is not None
    a = np.where(rows.cluster == 0, 6, np.minimum(rows.accept_len, 5))
    rows = Observations(a, rows.horizon, a < 6, rows.weight, rows.entropy, rows.cluster)
    result = cross_validate([Candidate(Geometric), Candidate(FreeHazard)], rows, resamples=50)
    assert result.log_score.estimate[1] == result.gain.low[1] == -np.inf
    assert np.isfinite(result.log_score.estimate[0])


def test_odd_arguments_are_refused() -> None:
    rows = rounds(3, 1.0)
    with pytest.raises(FitError, match="0 candidates and 3 deals"):
        cross_validate([], rows)
    with pytest.raises(FitError, match="folds is 1"):
        cross_validate([Candidate(Geometric)], rows, folds=1)
    unknown = Observations(rows.accept_len, rows.horizon, rows.missed, rows.weight, rows.entropy)
    with pytest.raises(NotIdentified, match="prompts are not named"):
        cross_validate([Candidate(Geometric)], unknown)


def test_both_verdicts_hold_where_the_law_is_true() -> None:
    rows = rounds(4, 1.0)
    for verdict in (paper_verdict(rows), our_verdict(rows, resamples=300)):
        assert verdict.holds, verdict.checks
    assert [check.name for check in paper_verdict(rows).checks] == [
        "slope positive",
        "negative rank correlation",
        "curve or ceiling",
        "not degenerate",
    ]


def test_both_verdicts_fail_where_entropy_says_nothing() -> None:
    rows = rounds(5, 0.0)
    assert not paper_verdict(rows).holds
    ours = {check.name: check.holds for check in our_verdict(rows, resamples=300).checks}
    assert not ours["slope positive"]
    assert not ours["predicts unseen prompts"]


def test_the_paper_accepts_humaneval_and_we_name_what_fails(humaneval_rounds: Observations) -> None:
    paper = {check.name: check.figure for check in paper_verdict(humaneval_rounds).checks}
    assert paper_verdict(humaneval_rounds).holds
    assert paper["slope positive"].startswith("b1 1.2587")
    assert paper["curve or ceiling"].startswith("curve R² 0.9127")
    ours = our_verdict(humaneval_rounds, resamples=200)
    assert [check.name for check in ours.checks if not check.holds] == ["same law at every offset"]


def test_one_prompt_cannot_tell_and_says_so() -> None:
    rows = rounds(6, 1.0)
    one = Observations(
        rows.accept_len, rows.horizon, rows.missed, rows.weight, rows.entropy, np.zeros(len(rows), dtype=int)
    )
    verdict = our_verdict(one, resamples=50)
    told = {check.name: check.holds for check in verdict.checks}
    assert told["slope positive"] is None
    assert told["predicts unseen prompts"] is None
    assert not verdict.holds
