from __future__ import annotations

import numpy as np
import pytest

from lawfit import AffineLogit, FitError, FreeHazard, Observations
from lawfit.drift.cusum import Cusum, watch


def run_length(seed: int, state: Cusum, truth: float, law: float = 0.7, horizon: int = 6, limit: int = 20_000) -> int:
    """Rounds up to the alarm, where the true hazard is ``truth``."""
    rng = np.random.default_rng(seed)
    for at in range(1, limit + 1):
        a = int(min(rng.geometric(1.0 - truth) - 1, horizon))
        state = state.after(law, a, a < horizon)
        if state.alarm:
            return at
    return limit


def test_while_the_law_holds_alarms_are_at_least_as_far_apart_as_promised() -> None:
    lengths = [run_length(seed, Cusum(shift=0.5, arl=60), 0.7) for seed in range(80)]
    error = np.std(lengths) / np.sqrt(len(lengths))
    assert np.mean(lengths) - 2 * error > 60
    assert np.mean(lengths) < 60 * 40  # the bound is safe, not sharp


@pytest.mark.parametrize(("truth", "side"), [(0.58, "too much"), (0.8, "too little")])
def test_after_a_drift_the_alarm_is_soon_and_names_the_side(truth: float, side: str) -> None:
    state = Cusum(shift=0.5, arl=10_000)
    lengths = [run_length(seed, state, truth) for seed in range(40)]
    # The threshold over the Kullback-Leibler drift of a round, and what a last round overshoots.
    odds = np.log(truth / (1 - truth)) - np.log(0.7 / 0.3)
    shift = 0.5 * np.sign(odds)
    trials = sum(truth**k for k in range(6))
    gain = trials * (truth * shift - np.log(1 - 0.7 + 0.7 * np.exp(shift)))
    assert np.mean(lengths) < 1.3 * state.threshold / gain
    rng = np.random.default_rng(1)
    while state.alarm is None:
        a = int(min(rng.geometric(1.0 - truth) - 1, 6))
        state = state.after(0.7, a, a < 6)
    assert state.alarm == side
    assert state.restarted() == Cusum(shift=0.5, arl=10_000)


def test_a_round_adds_its_log_likelihood_ratio() -> None:
    hazards = np.array([0.6, 0.7, 0.8, 0.9])
    new = Cusum(shift=0.4, too_much=5.0, too_little=5.0).after(hazards, 2, True)
    for sign, got in ((-1.0, new.too_much), (1.0, new.too_little)):
        odds = hazards / (1 - hazards) * np.exp(sign * 0.4)
        moved = odds / (1 + odds)
        ratio = np.log(moved[:2] / hazards[:2]).sum() + np.log((1 - moved[2]) / (1 - hazards[2]))
        assert got - 5.0 == pytest.approx(ratio)
    censored = Cusum(too_much=5.0).after(hazards, 4, False)
    assert censored.too_little > 0
    assert Cusum(too_much=5.0).after(hazards, 0, False).too_much == 5.0


def test_watching_a_law_feeds_its_hazards_in_row_order() -> None:
    law = AffineLogit(1.0, 0.8, 5)
    a, entropy = np.array([0, 5, 2]), np.array([0.1, 0.0, 2.0])
    rows = Observations(a, np.full(3, 5), a < 5, np.ones(3), entropy)
    state, states = Cusum(), list(watch(law, rows))
    for at in range(3):
        state = state.after(law.hazard(entropy[at], 5), int(a[at]), bool(a[at] < 5))
        assert states[at] == state
    free = FreeHazard((0.5, 0.6))
    assert list(watch(free, rows))[-1] == Cusum().after([0.5, 0.6], 0, True).after([0.5, 0.6], 2, False).after(
        [0.5, 0.6], 2, False
    )


@pytest.mark.parametrize(
    "wrong", [{"shift": 0.0}, {"arl": 0.5}, {"arl": float("nan")}, {"too_much": -1.0}, {"too_little": float("inf")}]
)
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(FitError):
        Cusum(**wrong)


def test_hazards_that_do_not_cover_the_round_are_refused() -> None:
    with pytest.raises(FitError, match="for each of 3 offsets"):
        Cusum().after([0.5, 0.5], 2, True)
    with pytest.raises(FitError, match="expected a probability"):
        Cusum().after([1.5], 0, True)


def test_a_row_of_weight_w_is_w_rounds() -> None:
    law = FreeHazard((0.5, 0.6))
    weight = np.array([3.0, 1.0, 40.0, 7.0])
    rows = Observations(np.array([2, 0, 1, 2]), np.full(4, 2), np.array([False, True, True, False]), weight)
    one_by_one = Observations(
        *(np.repeat(column, weight.astype(int)) for column in (rows.accept_len, rows.horizon, rows.missed)),
        np.ones(int(weight.sum())),
    )
    ends = np.cumsum(weight).astype(int) - 1
    states = list(watch(law, one_by_one))
    for state, end in zip(watch(law, rows), ends, strict=True):
        assert (state.too_much, state.too_little) == pytest.approx((states[end].too_much, states[end].too_little))
