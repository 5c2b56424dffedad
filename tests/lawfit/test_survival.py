from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lawfit import NotIdentified, Observations
from lawfit.survival import expit, hazard_of_mean, log_likelihood, mean, survival

HAZARDS = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8)


def observations(a: list[int], horizon: list[int], missed: list[bool], weight: list[float]) -> Observations:
    return Observations(np.array(a), np.array(horizon), np.array(missed), np.array(weight, dtype=float))


ROUNDS = observations([0, 2, 3, 1, 0], [3, 3, 3, 3, 0], [True, True, False, False, False], [1, 2, 1, 3, 9])


def by_hand(hazard: list[float]) -> float:
    total = 0.0
    for a, missed, weight in zip(ROUNDS.accept_len, ROUNDS.missed, ROUNDS.weight, strict=True):
        probability = math.prod(hazard[:a]) * ((1 - hazard[a]) if missed else 1.0)
        total += weight * math.log(probability)
    return total


def test_the_likelihood_equals_the_product_written_out_by_hand() -> None:
    assert log_likelihood([[0.7, 0.6, 0.9]], ROUNDS) == pytest.approx(by_hand([0.7, 0.6, 0.9]), rel=1e-14)
    assert log_likelihood([[0.7]], ROUNDS) == pytest.approx(by_hand([0.7] * 3), rel=1e-14)


def test_one_hazard_per_round_equals_the_same_hazard_at_every_offset() -> None:
    hazard = np.array([[0.3], [0.5], [0.9], [0.2], [0.4]])
    assert log_likelihood(hazard, ROUNDS) == pytest.approx(log_likelihood(np.repeat(hazard, 3, axis=1), ROUNDS))


def test_impossible_rounds_have_likelihood_minus_infinity_and_certain_ones_zero() -> None:
    certain = observations([0, 2], [2, 2], [False, False], [1, 1])
    assert log_likelihood([[1.0]], certain) == 0.0
    assert log_likelihood([[0.0]], certain) == -math.inf
    assert log_likelihood([[0.0]], observations([0], [2], [True], [5])) == 0.0
    assert log_likelihood([[1.0]], observations([0], [2], [True], [5])) == -math.inf


@given(hazard=st.floats(0.01, 0.99), split=st.floats(0.0, 1.0))
def test_splitting_the_weight_of_a_round_leaves_the_likelihood(hazard: float, split: float) -> None:
    whole = observations([2, 1], [4, 4], [True, False], [3.0, 1.0])
    parts = observations([2, 2, 1], [4, 4, 4], [True, True, False], [3.0 * split, 3.0 * (1 - split), 1.0])
    assert log_likelihood([[hazard]], whole) == pytest.approx(log_likelihood([[hazard]], parts), rel=1e-12)


@given(HAZARDS)
def test_survival_never_rises_and_the_mean_lies_between_zero_and_the_horizon(hazards: list[float]) -> None:
    values = survival(hazards, len(hazards))
    assert (np.diff(values) <= 0).all()
    assert 0.0 <= mean(hazards, len(hazards)) <= len(hazards) + 1e-12
    assert mean(hazards, len(hazards)) == pytest.approx(values.sum())


@given(st.floats(0.0, 1.0), st.integers(0, 40))
def test_the_mean_of_one_hazard_is_the_sum_of_its_powers(hazard: float, horizon: int) -> None:
    expected = math.fsum(hazard**k for k in range(1, horizon + 1))
    assert mean([hazard], horizon) == pytest.approx(expected, rel=1e-12, abs=1e-300)


def test_the_mean_is_exact_as_the_hazard_tends_to_one() -> None:
    assert mean([1.0], 15) == 15.0
    for miss in (1e-8, 1e-12, 1e-15):
        hazard = 1.0 - miss
        assert mean([hazard], 15) == pytest.approx(math.fsum(hazard**k for k in range(1, 16)), rel=1e-15)


def test_the_mean_respects_each_rounds_own_horizon() -> None:
    assert mean([[0.5], [0.5], [0.5]], [0, 1, 2]).tolist() == [0.0, 0.5, 0.75]
    assert mean([[0.5, 0.2]] * 3, [0, 1, 2]).tolist() == pytest.approx([0.0, 0.5, 0.6])
    assert mean([0.5, 0.2], [1, 2]).tolist() == pytest.approx([0.5, 0.6])


def test_hazards_beyond_their_last_offset_are_not_identified() -> None:
    for ask in (
        lambda: survival([0.5, 0.2], 3),
        lambda: mean([0.5, 0.2], 3),
        lambda: log_likelihood([[0.5, 0.2]], ROUNDS),
    ):
        with pytest.raises(NotIdentified, match="offset 3 was asked for"):
            ask()


def test_the_capped_mean_is_that_of_the_public_code() -> None:
    assert mean([0.75], 15, "capped") == pytest.approx(3.0)
    assert mean([0.99], 15, "capped") == 15.0
    assert mean([0.0], 15, "capped") == pytest.approx(1e-6, rel=1e-5)
    with pytest.raises(NotIdentified, match="one hazard"):
        mean([0.5, 0.2], 2, "capped")


@given(st.floats(0.0, 15.0))
def test_inverting_the_mean_gives_it_back(target: float) -> None:
    assert mean(hazard_of_mean(target, 15)[..., None], 15) == pytest.approx(target, abs=1e-12)
    assert mean(hazard_of_mean(target, 15, "capped")[..., None], 15, "capped") == pytest.approx(target, abs=2e-6)


def test_the_caps_printed_in_the_paper() -> None:
    assert mean([expit(1.226)], 15)[()] == pytest.approx(3.33577, abs=5e-6)
    assert math.exp(1.226) == pytest.approx(3.40757, abs=5e-6)


@pytest.mark.parametrize(("hazard", "error"), [(0.65, 0.00156), (0.80, 0.03518), (0.90, 0.20589)])
def test_the_truncation_error_is_p_to_the_15_of_the_untruncated_mean(hazard: float, error: float) -> None:
    whole = hazard / (1 - hazard)
    assert (whole - mean([hazard], 15)) / whole == pytest.approx(error, abs=5e-6)


def test_the_threshold_of_the_grounded_tail() -> None:
    # GLANCE Theorem 2 B: pi* = (e^b0 - M) / (L - M) at M = 1, 1.5, 2, 2.5 with e^b0 = 3.41, L = 15.
    ordinary = np.array([1.0, 1.5, 2.0, 2.5])
    assert np.round((3.41 - ordinary) / (15 - ordinary), 3).tolist() == [0.172, 0.141, 0.108, 0.073]


def test_expit_has_no_overflow() -> None:
    assert expit([-1000.0, 0.0, 1000.0]).tolist() == [0.0, 0.5, 1.0]
