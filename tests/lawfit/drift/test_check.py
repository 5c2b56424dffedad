from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from lawfit import AffineLogit, FitError, FreeHazard, Geometric, Isotonic, NotIdentified, RoundLog, observe
from lawfit.drift.check import Options, check, holm

FAST = Options(resamples=300)
STRICT = Options(resamples=300, tolerance=0.0)


def test_a_law_on_a_replication_of_its_data_raises_false_alarms_as_rarely_as_it_says(
    world: Callable[..., RoundLog],
) -> None:
    """200 replications, no tolerance: the overall test at its level, and any alarm in five groups at most at it."""
    single = alarms = 0
    for seed in range(200):
        found = check(
            AffineLogit.fit(world(10_000 + seed, rounds=12)), world(seed, rounds=12), ["task"], options=STRICT
        )
        single += found.groups[0].gap.p_value < 0.05
        alarms += bool(found.broken)
    assert binom.cdf(single, 200, 0.05) > 0.001
    assert binom.sf(single - 1, 200, 0.05) > 0.001
    assert binom.sf(alarms - 1, 200, 0.05) > 0.001


def test_a_law_without_standard_errors_raises_no_more_false_alarms(world: Callable[..., RoundLog]) -> None:
    single = 0
    for seed in range(60):
        found = check(Isotonic.fit(world(10_000 + seed, rounds=12)), world(seed, rounds=12), [], options=STRICT)
        single += found.groups[0].gap.p_value < 0.05
    assert binom.sf(single - 1, 60, 0.05) > 0.001


def test_a_shifted_task_is_found_and_named(world: Callable[..., RoundLog]) -> None:
    hits = others = 0
    for seed in range(30):
        found = check(AffineLogit.fit(world(10_000 + seed)), world(seed, shift=-0.9), ["task"], options=FAST)
        names = {part.name for part in found.broken}
        hits += "task t1" in names
        others += bool(names & {"task t0", "task t2", "task t3"})
    assert hits >= 27
    assert others <= 2


def test_a_difference_that_does_not_matter_is_tolerated(world: Callable[..., RoundLog]) -> None:
    law, log = AffineLogit(1.2, 0.9, 8), world(1, prompts=600, rounds=40, prompt_sd=0.05, shift=0.09)
    strict, tolerant = (check(law, log, [], options=options).groups[0] for options in (STRICT, FAST))
    assert strict.level_p < 0.05
    assert strict.verdict == "broken"
    assert tolerant.level_p < 0.05
    assert tolerant.verdict == "holds"
    assert tolerant.allowance == pytest.approx(0.05 * (tolerant.gap.predicted + 1))


def test_a_group_too_small_to_tell_is_no_pass(world: Callable[..., RoundLog]) -> None:
    found = check(AffineLogit.fit(world(1)), world(2, prompts=4, rounds=5), ["task"], options=FAST)
    assert [part.verdict for part in found.groups] == ["cannot tell"] * 5
    assert found.broken == ()
    assert np.isnan(found.groups[1].level_p)


def test_a_changed_slope_is_broken_where_the_mean_agrees(world: Callable[..., RoundLog]) -> None:
    log = world(3, prompts=150, slope=0.9)
    seen = observe(log)
    b0 = brentq(lambda b: AffineLogit(b, 0.2, 8).mean(seen.entropy).mean() - seen.mean_accept_len, -1, 3)
    flat = AffineLogit(b0, 0.2, 8)
    part = check(flat, log, [], options=FAST).groups[0]
    assert not part.level_broken
    assert part.shape_broken
    assert part.verdict == "broken"


@pytest.mark.parametrize("kind", [Geometric, FreeHazard, Isotonic])
def test_laws_of_other_kinds_are_checked_too(kind: type, world: Callable[..., RoundLog]) -> None:
    law = kind.fit(world(1, prompts=100))
    blind = (
        world(2, prompts=100)
        if law.needs_entropy
        else RoundLog(world(2, prompts=100).frame.with_columns(root_entropy=pl.lit(None, pl.Float64)))
    )
    assert check(law, blind, [], options=FAST).broken == ()
    shifted = world(2, prompts=100, shift=-2.5)
    assert {part.name for part in check(law, shifted, ["task"], options=FAST).broken} >= {"task t1"}


def test_the_laws_own_last_rounds_and_signal_are_the_default(world: Callable[..., RoundLog]) -> None:
    law = AffineLogit.fit(world(1), last_round="drop")
    assert check(law, world(2), [], options=FAST).groups[0].rounds == 40 * 29
    assert check(law, world(2), [], options=FAST, last_round="keep").groups[0].rounds == 40 * 30


def test_what_weakens_a_check_is_noted(world: Callable[..., RoundLog]) -> None:
    log = world(1)
    nameless = RoundLog(log.frame.with_columns(prompt_id=pl.lit(None, pl.String), request_id=pl.lit(None, pl.String)))
    notes = " ".join(check(AffineLogit.fit(log), log, [], options=FAST).notes)
    assert "fitted on these very rounds" in notes
    notes = " ".join(check(FreeHazard((0.7, 0.6)), nameless, [], options=FAST).notes)
    for text in (
        "taken as exact",
        "prompts are not named: every round counts as independent",
        "the law ends at offset",
    ):
        assert text in notes


def test_nameless_histogram_rows_are_checked_as_the_rounds_that_they_stand_for(world: Callable[..., RoundLog]) -> None:
    names = {name: pl.lit(None, pl.String) for name in ("prompt_id", "request_id")}
    frame = world(1, prompt_sd=0.0).frame.with_columns(**names).select("accept_len", "horizon", "truncated")
    pooled = RoundLog.from_frame(frame.group_by("accept_len", "horizon", "truncated").agg(count=pl.len()))
    assert len(pooled) < 10
    parts = [
        check(FreeHazard.fit(pooled), log, [], options=FAST).groups[0] for log in (pooled, RoundLog.from_frame(frame))
    ]
    a = frame["accept_len"].to_numpy()
    for part in parts:
        assert (part.rounds, part.prompts) == (1200, None)
        assert part.gap.observed_se == pytest.approx(a.std(ddof=1) / np.sqrt(1200))
        assert not isinstance(part.refit, str)
    assert parts[0].gap.rounds_se == pytest.approx(parts[1].gap.rounds_se)
    assert parts[0].refit.wald == pytest.approx(parts[1].refit.wald, abs=1e-6)  # type: ignore[union-attr]


def test_a_pooled_log_keeps_its_rounds_where_the_law_was_fitted_without_last_ones(
    world: Callable[..., RoundLog],
) -> None:
    law = AffineLogit.fit(world(1), last_round="drop")
    pooled = RoundLog(world(2).frame.with_columns(count=pl.lit(2, pl.Int64)))
    found = check(law, pooled, [], options=FAST)
    assert found.groups[0].rounds == 2 * 40 * 30
    assert "fitted with last_round drop, but rows with count > 1 no longer show last rounds" in found.notes[0]
    with pytest.raises(NotIdentified, match="hold no last rounds"):
        check(law, pooled, [], options=FAST, last_round="drop")


def test_the_observed_interval_is_that_of_the_data_whatever_the_law(world: Callable[..., RoundLog]) -> None:
    log = world(2, prompts=12, cut=0.3)
    laws = (AffineLogit.fit(world(1, prompts=6)), AffineLogit(0.3, 0.2, 8), Geometric.fit(world(1)))
    gaps = [check(law, log, [], options=FAST).groups[0].gap for law in laws]
    assert len({(gap.observed, gap.observed_low, gap.observed_high) for gap in gaps}) == 1
    assert gaps[0].observed == pytest.approx(observe(log).mean_accept_len)
    assert gaps[0].predicted_se > 0
    assert gaps[1].predicted_se == 0


def test_on_its_own_rounds_a_law_has_no_error_beside_theirs(world: Callable[..., RoundLog]) -> None:
    law, own = AffineLogit.fit(world(1)), world(1)
    mine, other = (check(law, log, [], options=FAST).groups[0].gap for log in (own, world(2)))
    assert mine.predicted_se == 0
    assert mine.se == mine.rounds_se
    assert other.predicted_se > 0


def test_half_of_humaneval_holds_on_the_other_half(humaneval: RoundLog) -> None:
    """82 prompts with 27,000 rounds prove what they should: the mean within 5% of the tokens per round."""
    names = humaneval.frame["prompt_id"].unique().sort()
    first = pl.col("prompt_id").is_in(names[::2].to_list())
    for kind in (AffineLogit, FreeHazard):
        part = check(kind.fit(humaneval.where(first)), humaneval.where(~first), [], options=FAST).groups[0]
        assert part.verdict == "holds"
        assert part.allowance == pytest.approx(0.135, abs=0.01)


def test_as_many_prompts_as_are_said_to_tell_do_so_four_times_in_five(world: Callable[..., RoundLog]) -> None:
    truth = AffineLogit(1.2, 0.9, 8)
    few = check(truth, world(4, prompts=30, rounds=10, prompt_sd=0.0), [], options=FAST).groups[0]
    assert few.verdict == "cannot tell"
    assert isinstance(few.wanting, int)
    grown = [world(seed, prompts=30 + few.wanting, rounds=10, prompt_sd=0.0) for seed in range(100, 160)]
    told = sum(check(truth, log, [], options=FAST).groups[0].verdict == "holds" for log in grown)
    assert binom.cdf(told, 60, 0.8) > 0.001
    assert binom.sf(told - 1, 60, 0.8) > 0.001


def test_holms_correction_is_that_of_statsmodels() -> None:
    from statsmodels.stats.multitest import multipletests

    rng = np.random.default_rng(0)
    for size in range(1, 13):
        p = rng.choice([*rng.random(size), 0.0, 0.01, 0.01, 1.0], size)
        adjusted = multipletests(p, method="holm")[1]
        assert holm(p.tolist()) == pytest.approx(adjusted)
        assert holm([np.nan, *p])[1:] == pytest.approx(adjusted)
    assert np.isnan(holm([np.nan])).all()


def test_options_out_of_range_are_refused() -> None:
    for wrong in ({"level": 0.0}, {"level": 1.0}, {"tolerance": -0.1}, {"tolerance": float("nan")}):
        with pytest.raises(FitError):
            Options(**wrong)
