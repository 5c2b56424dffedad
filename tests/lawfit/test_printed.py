"""Printed numbers and what follows from them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from lawfit import FitError
from lawfit.printed import Printed, rederive


def ratio(a: float, b: float) -> float:
    return a / b


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [("11.90", 11.9, 0.01), ("60", 60.0, 1.0), ("7.2e-18", 7.2e-18, 1e-19), ("-0.07", -0.07, 0.01)],
)
def test_a_printed_number_keeps_the_worth_of_its_last_digit(text: str, value: float, unit: float) -> None:
    number = Printed.parse(text)
    assert (number.value, number.unit) == pytest.approx((value, unit), rel=1e-12)
    assert str(number) == text


def test_the_three_verdicts() -> None:
    assert rederive("exact", "1.15", ratio, "14.36", "12.50").verdict == "equal"
    off = rederive("hidden by rounding", "2.14", ratio, "24.91", "11.67")
    assert off.derived == pytest.approx(2.1345, abs=1e-4)
    assert off.verdict == "within rounding"
    assert rederive("wrong", "2.15", ratio, "24.91", "11.67").verdict == "differs"


def test_the_range_is_that_of_every_input_that_prints_the_same() -> None:
    check = rederive("quotient", "1.2", ratio, "3.0", "2.5")
    rng = np.random.default_rng(0)
    inside = rng.uniform(2.95, 3.05, 5000) / rng.uniform(2.45, 2.55, 5000)
    assert check.low <= inside.min()
    assert inside.max() <= check.high
    assert (check.low, check.high) == pytest.approx((float(Fraction("2.95") / Fraction("2.55")), 3.05 / 2.45))


def test_a_half_that_rounds_to_even_or_away_counts_as_equal() -> None:
    assert rederive("half", "2.14", float, "2.145").verdict == "equal"
    assert rederive("half", "2.15", float, "2.145").verdict == "equal"


@pytest.mark.parametrize("text", ["", "1.2%", "nan", "inf"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(FitError, match="expected a"):
        Printed.parse(text)


def test_more_inputs_than_can_be_tried_are_refused() -> None:
    with pytest.raises(FitError, match="13 inputs"):
        rederive("many", "1", lambda *x: sum(x), *["1"] * 13)
