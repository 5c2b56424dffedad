"""The cap of the law, and the share of copying rounds that breaks it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lawfit import AffineLogit, FitError
from lawfit.copyregime import cap, copy_floor, copy_threshold, ordinary_mean


@pytest.mark.parametrize("b0", [-2.0, 0.819, 1.226, 3.0])
def test_the_cap_is_the_laws_own_mean_at_zero_entropy_and_below_that_of_every_horizon(b0: float) -> None:
    assert cap(b0, 15) == pytest.approx(float(AffineLogit(b0, 0.5, 15).mean(np.zeros(1), 15)[0]))
    assert cap(b0, 15) < cap(b0) == pytest.approx(math.exp(b0))
    assert cap(b0, 5000) == pytest.approx(cap(b0))


def simulate(pi: float, rho: float, enter: float, horizon: int) -> float:
    """E[a] of a chain whose copy state never misses nor ends, by adding up over offsets."""
    copy, ordinary, total = pi, 1.0 - pi, 0.0
    for _ in range(horizon):
        matched = ordinary * rho
        total += copy + matched
        copy, ordinary = copy + enter * matched, (1.0 - enter) * matched
    return total


def test_the_floor_is_the_mean_of_a_chain_that_never_enters_the_copy_state() -> None:
    assert copy_floor(0.2, 0.6, 15) == pytest.approx(simulate(0.2, 0.6, 0.0, 15))
    assert copy_floor(0.2, 0.6, 15) == pytest.approx(4.199, abs=5e-4)


def test_the_floor_is_a_lower_bound_where_rounds_may_enter_later() -> None:
    assert simulate(0.2, 0.6, 0.1, 15) == pytest.approx(5.38, abs=5e-3)
    for pi in (0.0, 0.1, 0.5):
        for rho in (0.1, 0.6, 0.95):
            assert copy_floor(pi, rho, 15) <= simulate(pi, rho, 0.2, 15)


def test_at_the_threshold_the_floor_meets_the_cap() -> None:
    ordinary = ordinary_mean(0.6, 15)
    share = copy_threshold(cap(1.226), ordinary, 15)
    assert copy_floor(share, 0.6, 15) == pytest.approx(cap(1.226))


@pytest.mark.parametrize(("ordinary", "share"), [(1.0, 0.172), (1.5, 0.141), (2.0, 0.108), (2.5, 0.073)])
def test_thresholds_of_docvqa(ordinary: float, share: float) -> None:
    assert copy_threshold(3.41, ordinary, 15) == pytest.approx(share, abs=5e-4)


@pytest.mark.parametrize(("bound", "ordinary", "horizon"), [(1.0, 2.0, 15), (16.0, 2.0, 15), (15.0, 15.0, 15)])
def test_a_cap_that_no_share_or_any_share_reaches_is_refused(bound: float, ordinary: float, horizon: int) -> None:
    with pytest.raises(FitError, match="ordinary <= bound"):
        copy_threshold(bound, ordinary, horizon)


def test_odd_arguments_are_refused() -> None:
    for call in (lambda: copy_floor(1.2, 0.5, 15), lambda: copy_floor(0.5, -0.1, 15), lambda: cap(math.nan)):
        with pytest.raises(FitError):
            call()
