"""Two arms on the same prompts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom, gmean

from lawfit import FitError, NotIdentified, RoundLog
from lawfit.arms import PairedTimes, compare_arms, wilson

TASKS = ("doc", "chart", "doc", "chart", "doc")
BASE = np.array([10.0, 8.0, 12.0, 9.0, 11.0])
NEW = np.array([9.0, 8.0, 10.0, 9.5, 10.0])


def draw(rng: np.random.Generator, prompts: int) -> PairedTimes:
    """Two tasks; the ms of a prompt vary together in both arms, and the true margins are 10% and -5%."""
    task = ("a",) * prompts + ("b",) * prompts
    level = rng.gamma(20.0, 0.5, 2 * prompts)
    ratio = np.repeat([1.10, 0.95], prompts)
    noise = rng.lognormal(-0.005, 0.1, 2 * prompts)  # of mean 1
    return PairedTimes(task, level * ratio, level * noise)


def test_the_margin_is_the_ratio_of_mean_ms_over_prompts_less_one() -> None:
    comparison = compare_arms(PairedTimes(TASKS, BASE, NEW), resamples=100)
    by_task = {row.task: row for row in comparison.tasks}
    assert by_task["doc"].margin.estimate == pytest.approx(33 / 29 - 1)
    assert by_task["chart"].margin.estimate == pytest.approx(17 / 17.5 - 1)
    assert by_task["doc"].base_ms == pytest.approx(11.0)
    assert comparison.overall.margin.estimate == pytest.approx(gmean([33 / 29, 17 / 17.5]) - 1)
    assert comparison.overall.base_ms / comparison.overall.new_ms - 1 == pytest.approx(
        comparison.overall.margin.estimate
    )
    assert by_task["doc"].speedup.estimate == pytest.approx(33 / 29)


def test_prompts_won_and_tied_are_counted_apart() -> None:
    comparison = compare_arms(PairedTimes(TASKS, BASE, NEW), resamples=100)
    assert [(row.task, row.prompts, row.won, row.tied) for row in (*comparison.tasks, comparison.overall)] == [
        ("chart", 2, 0, 1),
        ("doc", 3, 3, 0),
        ("geometric mean", 5, 3, 1),
    ]
    assert comparison.overall.won_share.estimate == pytest.approx(3 / 5)


def test_draws_keep_both_arms_together_and_each_tasks_prompts() -> None:
    # The new arm is exactly 10% faster on every prompt: however prompts are drawn, so is the margin.
    comparison = compare_arms(PairedTimes(TASKS, NEW * 1.1, NEW), resamples=200)
    for row in (*comparison.tasks, comparison.overall):
        assert (row.margin.low, row.margin.high) == pytest.approx((0.1, 0.1))


def test_its_interval_equals_an_explicit_bootstrap() -> None:
    times = draw(np.random.default_rng(2), 40)
    comparison = compare_arms(times, resamples=4000, seed=1)
    rng, draws = np.random.default_rng(9), []
    for _ in range(4000):
        picks = [rng.integers(0, 40, 40), rng.integers(40, 80, 40)]
        draws.append(gmean([times.base_ms[p].mean() / times.new_ms[p].mean() for p in picks]) - 1)
    low, high = np.quantile(draws, [0.025, 0.975])
    width = high - low
    assert comparison.overall.margin.low == pytest.approx(low, abs=0.06 * width)
    assert comparison.overall.margin.high == pytest.approx(high, abs=0.06 * width)


def test_intervals_cover_the_true_margins_as_often_as_they_say() -> None:
    truth = {"a": 0.10, "b": -0.05, "geometric mean": np.sqrt(1.10 * 0.95) - 1}
    covered = dict.fromkeys(truth, 0)
    for trial in range(200):
        comparison = compare_arms(draw(np.random.default_rng(trial), 50), resamples=300, seed=trial)
        for row in (*comparison.tasks, comparison.overall):
            covered[row.task] += row.margin.low <= truth[row.task] <= row.margin.high
    # Percentile intervals of 50 prompts aim at 95% and cover 92.5 to 94% (2000 replications).
    low, high = binom.ppf([0.002, 0.998], 200, 0.935)
    assert all(low <= count <= high for count in covered.values()), covered


def test_one_prompt_of_a_task_has_a_margin_and_no_interval() -> None:
    comparison = compare_arms(PairedTimes(("a", "b", "b"), BASE[:3], NEW[:3]), resamples=50)
    assert comparison.tasks[0].margin.estimate == pytest.approx(10 / 9 - 1)
    assert np.isnan([comparison.tasks[0].margin.low, comparison.overall.margin.high]).all()
    assert not np.isnan(comparison.tasks[1].margin.low)


@pytest.mark.parametrize(("won", "prompts"), [(0, 101), (81, 101), (101, 101), (1, 2)])
def test_wilsons_interval_is_statsmodels(won: int, prompts: int) -> None:
    from statsmodels.stats.proportion import proportion_confint

    interval = wilson(won, prompts, 0.9)
    assert (interval.low, interval.high) == pytest.approx(proportion_confint(won, prompts, 0.1, "wilson"), abs=1e-12)


def arm(prompts: list[str], ms: list[float | None]) -> RoundLog:
    """Two rounds of 3 and 1 emitted tokens for each prompt."""
    n = len(prompts)
    return RoundLog.from_frame(
        pl.DataFrame(
            {
                "prompt_id": prompts * 2,
                "task": ["t"] * 2 * n,
                "accept_len": [2] * n + [1] * n,
                "truncated": [False] * n + [True] * n,
                "horizon": [4] * 2 * n,
                "round_ms": ms * 2,
            }
        )
    )


def test_two_logs_are_paired_by_prompt_on_ms_per_emitted_token() -> None:
    times = PairedTimes.of(arm(["p", "q", "r"], [8.0, 4.0, 1.0]), arm(["q", "p", "s"], [2.0, 6.0, 1.0]))
    assert times.base_ms == pytest.approx([4.0, 2.0])
    assert times.new_ms == pytest.approx([3.0, 1.0])
    assert (times.task, times.unpaired) == (("t", "t"), 2)


def test_logs_that_cannot_be_paired_are_refused() -> None:
    with pytest.raises(NotIdentified, match="cannot be paired"):
        PairedTimes.of(arm(["p"], [8.0]), arm(["q"], [8.0]))
    with pytest.raises(NotIdentified, match="1 of 2 prompts have rounds without round_ms"):
        PairedTimes.of(arm(["p", "q"], [8.0, None]), arm(["p", "q"], [8.0, 1.0]))


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf])
def test_a_time_that_is_none_is_refused(wrong: float) -> None:
    with pytest.raises(FitError, match=r"new_ms\[1\]"):
        compare_arms(PairedTimes(("a", "a"), np.ones(2), np.array([1.0, wrong])))


def test_odd_shapes_and_counts_are_refused() -> None:
    with pytest.raises(FitError, match="one per prompt"):
        compare_arms(PairedTimes(("a",), np.ones(2), np.ones(2)))
    with pytest.raises(FitError, match="3 of 2"):
        wilson(3, 2)
