"""Bounds on acceptance from elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lawfit import FitError
from lawfit.brackets import adaedl_bound, adaedl_vacuous_from, ceiling_vacuous_below, verification_ceiling


def test_adaedls_bound_by_hand() -> None:
    assert adaedl_bound([0.0, 0.2, 1.25, 5.0, 9.0], gamma=0.2) == pytest.approx([1.0, 0.8, 0.5, 0.0, 0.0])


def test_adaedls_bound_says_nothing_from_one_over_gamma_on() -> None:
    start = adaedl_vacuous_from(0.25)
    assert start == 4.0
    assert adaedl_bound(start, 0.25) == 0.0
    assert adaedl_bound(start - 1e-6, 0.25) > 0.0


def test_the_ceiling_by_hand() -> None:
    assert verification_ceiling([[1.0, 2.0]], 31) == pytest.approx(np.array([[6.867974, 3.433987]]), abs=1e-6)
    assert verification_ceiling(0.0, 31) == math.inf
    assert verification_ceiling([0.0, 1.0], 1) == pytest.approx([0.0, 0.0])


@pytest.mark.parametrize(("budget", "entropy"), [(31, 0.458), (63, 0.552)])
def test_the_ceiling_is_vacuous_below_the_entropy_where_it_meets_the_horizon(budget: int, entropy: float) -> None:
    meets = ceiling_vacuous_below(budget, 15)
    assert meets == pytest.approx(entropy, abs=5e-4)
    assert verification_ceiling(meets, budget) == pytest.approx(15.0)


def test_odd_arguments_are_refused() -> None:
    with pytest.raises(FitError, match="an entropy is -0.1"):
        adaedl_bound([0.3, -0.1])
    with pytest.raises(FitError, match="an entropy is nan"):
        verification_ceiling([np.nan], 31)
    with pytest.raises(FitError, match="gamma is 0"):
        adaedl_bound([0.3], 0.0)
    with pytest.raises(FitError, match="budget is 0"):
        verification_ceiling([0.3], 0)
    with pytest.raises(FitError):
        ceiling_vacuous_below(31, 0)
