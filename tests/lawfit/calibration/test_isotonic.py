from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from lawfit import FitError
from lawfit.calibration.isotonic import IsotonicHazard, Steps
from lawfit.calibration.nodes import NodeTable

ROWS = st.lists(st.tuples(st.integers(-4, 4), st.booleans(), st.integers(1, 5)), min_size=1, max_size=40)


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_it_is_scikit_learns_isotonic_regression_with_half_an_outcome_at_each_end(
    rows: list[tuple[int, bool, int]],
) -> None:
    x, y, w = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    steps = Steps.fit(x, y, w)
    model = IsotonicRegression()
    model.fit(
        np.concatenate([[x.min()], x, [x.max()]]), np.concatenate([[1.0], y, [0.0]]), np.concatenate([[0.5], w, [0.5]])
    )
    assert steps.at(x) == pytest.approx(model.predict(x))


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_it_never_falls_and_never_promises_certainty(rows: list[tuple[int, bool, int]]) -> None:
    x, y, w = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    values = Steps.fit(x, y, w).at(np.linspace(-6, 6, 50))
    assert (np.diff(values) >= 0).all()
    assert 0 < values.min() <= values.max() < 1


def test_best_children_and_siblings_have_steps_of_their_own(nodes: NodeTable) -> None:
    siblings = nodes.frame.with_columns(rank=pl.lit(1, pl.Int64), accepted=pl.lit(False))
    both = NodeTable(pl.concat([nodes.frame, siblings]))
    hazard = IsotonicHazard.fit(both)
    alone = IsotonicHazard.fit(nodes)
    assert alone.sibling is None
    assert hazard.top == alone.top
    p = hazard.probability(both)
    assert p[len(nodes) :].max() < 0.01 < p[: len(nodes)].min()
    assert hazard.logit(both) == pytest.approx(np.log(p / (1 - p)))


@pytest.mark.parametrize(
    ("edges", "values"),
    [
        ((), ()),
        ((0.0,), (0.5,)),
        ((1.0, 0.0), (0.1, 0.2, 0.3)),
        ((0.0,), (0.4, 0.3)),
        ((), (1.0,)),
        ((float("inf"),), (0.1, 0.2)),
    ],
)
def test_values_that_are_no_steps_are_refused(edges: tuple[float, ...], values: tuple[float, ...]) -> None:
    with pytest.raises(FitError):
        Steps(edges, values)
