from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import rel_entr

from lawfit import FitError
from lawfit.calibration.coherence import coherent

FAMILIES = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 5)), min_size=1, max_size=30)


@settings(max_examples=100, deadline=None)
@given(FAMILIES)
def test_families_sum_to_at_most_one_and_keep_their_order_and_ratios(rows: list[tuple[float, int]]) -> None:
    p, family = np.array([p for p, _ in rows]), np.array([f for _, f in rows])
    kept = coherent(p, family)
    for number in np.unique(family):
        before, after = p[family == number], kept[family == number]
        assert after.sum() <= 1 + 1e-12
        if before.sum() <= 1:
            assert (after == before).all()
        else:
            assert after == pytest.approx(before / before.sum())
        assert (np.diff(after[np.argsort(before, kind="stable")]) >= 0).all()
    assert coherent(kept, family) == pytest.approx(kept, abs=1e-15)


@pytest.mark.parametrize("p", [[0.9, 0.4, 0.2], [0.6, 0.6], [0.99, 0.01, 0.3, 0.7]])
def test_it_is_the_nearest_coherent_family_in_relative_entropy(p: list[float]) -> None:
    prior = np.array(p)
    found = minimize(
        lambda q: float(np.sum(rel_entr(q, prior) - q + prior)),
        np.full(len(p), 0.5 / len(p)),
        bounds=[(1e-9, 1)] * len(p),
        constraints={"type": "ineq", "fun": lambda q: 1.0 - q.sum()},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert coherent(prior, np.zeros(len(p), dtype=int)) == pytest.approx(found.x, abs=1e-4)


def test_what_is_no_probability_is_refused() -> None:
    for p in ([0.5, 1.2], [0.5, np.nan]):
        with pytest.raises(FitError, match="expected a number in"):
            coherent(p, np.zeros(2, dtype=int))
    with pytest.raises(FitError, match="expected two of one length"):
        coherent([0.5], np.zeros(2, dtype=int))
