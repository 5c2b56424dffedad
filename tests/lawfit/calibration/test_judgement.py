from __future__ import annotations

import numpy as np
import pytest

from lawfit.calibration.judgement import in_words, judge, side
from lawfit.calibration.reliability import Forecast, Reliability, reliability


def curve(predicted: list[float], observed: list[float], half: float = 0.02, limit: float = 0.02) -> Reliability:
    p, y = np.array(predicted), np.array(observed)
    weight = np.full(len(p), 100.0)
    return Reliability(p, y, y - half, y + half, weight, float(np.abs(p - y).mean()), limit / 2, limit, True)


def test_right_probabilities_come_true() -> None:
    found = curve([0.3, 0.6, 0.9], [0.31, 0.59, 0.9])
    assert judge(found).lean == "comes true"
    assert judge(found).off == ()
    assert in_words(found) == "comes true: off by 0.007 on average, chance alone gives up to 0.020"


def test_a_failing_bin_is_named_though_the_whole_comes_true() -> None:
    found = curve([0.3, 0.6, 0.99], [0.3, 0.6, 0.94])
    assert judge(found).off == (2,)
    assert [side(found, k) for k in range(3)] == ["", "", "too much"]
    assert in_words(found) == (
        "comes true on the whole (off by 0.017 on average, chance alone gives up to 0.020), but not where it promises"
        " 0.990: 0.940 accepted (0.920 to 0.960), too much"
    )


def test_the_side_the_size_and_the_worst_bins_first_are_said() -> None:
    found = curve([0.5, 0.6, 0.7, 0.8, 0.9], [0.45, 0.49, 0.67, 0.7, 0.6])
    assert judge(found).off == (4, 1, 3, 0, 2)
    assert judge(found).excess == pytest.approx(0.118)
    assert in_words(found).startswith(
        "promises too much, by 0.118 on average (chance alone gives up to 0.020); most where"
    )
    assert "promises 0.900: 0.600 accepted (0.580 to 0.620), too much; 0.600: " in in_words(found)
    assert in_words(found).endswith("(and in 2 more bins)")
    assert in_words(curve([0.5, 0.6], [0.6, 0.7])).startswith("promises too little, by 0.100 on average")
    assert "off by 0.055" in in_words(curve([0.5, 0.6], [0.6, 0.59]))


def test_errors_that_cancel_lean_neither_way() -> None:
    found = curve([0.2, 0.8], [0.3, 0.7])
    assert judge(found).excess == pytest.approx(0.0)
    assert in_words(found).startswith("promises too much here and too little there, off by 0.100 on average")
    assert {side(found, k) for k in (0, 1)} == {"too much", "too little"}


def test_an_interval_that_is_not_known_judges_no_bin() -> None:
    found = reliability(Forecast.of([0.9, 0.2, 0.9], [1, 0, 0], None, np.zeros(3, dtype=int)), bins=2)
    assert np.isnan(found.low).all()
    assert judge(found).off == ()
