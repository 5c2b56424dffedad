from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from lawfit import AffineLogit, FitError, FreeHazard, Geometric, Isotonic, RoundLog, observe
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
    assert tolerant.allowance == pytest.approx(max(0.1, 0.05 * tolerant.gap.predicted))


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
    for text in ("taken as exact", "prompts are not named", "the law ends at offset 2"):
        assert text in notes


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
