from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import isotonic_regression

from lawfit import AffineLogit, FitError, Geometric, Isotonic, RoundLog, observe
from lawfit.laws.isotonic import falling_steps

ROWS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=30)


@given(ROWS)
def test_pooling_equals_isotonic_regression_of_the_shares(rows: list[tuple[int, int, int]]) -> None:
    x, hit, miss = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    trials = hit + miss
    if not trials.any():
        return
    edges, values = falling_steps(x, hit, trials)
    places = np.unique(x[trials > 0])
    sums = np.array([hit[x == place].sum() for place in places])
    sizes = np.array([trials[x == place].sum() for place in places])
    expected = isotonic_regression(sums / sizes, sample_weight=sizes, increasing=False)
    assert values[np.searchsorted(edges, places, side="right")] == pytest.approx(expected)
    assert (np.diff(values) < 0).all()


def test_it_fits_no_worse_than_any_falling_law(synthetic: RoundLog) -> None:
    best = Isotonic.fit(synthetic).log_likelihood(synthetic)
    assert best > AffineLogit.fit(synthetic).log_likelihood(synthetic)
    assert best > Geometric.fit(synthetic).log_likelihood(synthetic)


def test_the_matches_it_expects_are_those_observed_in_every_step(synthetic: RoundLog) -> None:
    seen, law = observe(synthetic), Isotonic.fit(synthetic)
    assert seen.entropy is not None
    residual = seen.accept_len - seen.trials * law.hazard(seen.entropy, 1)[:, 0]
    step = np.searchsorted(law.edges, seen.entropy, side="right")
    assert np.bincount(step, weights=residual) == pytest.approx(np.zeros(len(law.hazards)), abs=1e-9)


def test_a_step_starts_at_its_edge() -> None:
    law = Isotonic((1.0,), (0.8, 0.2), 3)
    assert law.hazard([0.0, 0.999, 1.0, 50.0])[:, 0].tolist() == [0.8, 0.8, 0.2, 0.2]


def test_it_has_no_standard_errors(synthetic: RoundLog) -> None:
    details = Isotonic.fit(synthetic).fitted
    assert details is not None
    assert (details.se, details.cluster_se) == (None, None)


@pytest.mark.parametrize(
    ("edges", "hazards"),
    [
        ((), ()),
        ((1.0,), (0.5,)),
        ((1.0, 1.0), (0.5, 0.4, 0.3)),
        ((1.0,), (0.4, 0.5)),
        ((1.0,), (1.2, 0.5)),
        ((np.inf,), (0.5, 0.4)),
    ],
)
def test_steps_that_rise_or_do_not_fit_are_refused(edges: tuple[float, ...], hazards: tuple[float, ...]) -> None:
    with pytest.raises(FitError):
        Isotonic(edges, hazards)
