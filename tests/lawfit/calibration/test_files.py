from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lawfit import LawfitError
from lawfit.calibration.calibration import Calibration
from lawfit.calibration.nodes import NodeTable


@pytest.mark.parametrize("method", ["logistic", "isotonic"])
@pytest.mark.parametrize("levels", [True, False])
def test_json_gives_back_the_same_value(nodes: NodeTable, method: Any, levels: bool) -> None:
    below = nodes.frame.with_columns(rank=pl.when(pl.col("depth") > 3).then(1).otherwise(0).cast(pl.Int64))
    fitted = Calibration.fit(NodeTable(below), method=method, levels=levels)
    again = Calibration.from_json(fitted.to_json())
    assert again == fitted
    assert (again.probability(nodes) == fitted.probability(nodes)).all()


@pytest.fixture(scope="module")
def text(nodes: NodeTable) -> str:
    return Calibration.fit(nodes.take(np.arange(len(nodes)) < 300)).to_json()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("format",), "lawfit.law", "format is 'lawfit.law'"),
        (("version",), 2, "version 2"),
        (("version",), True, "version True"),
        (("method",), "magic", "method is 'magic'"),
        (("method",), ["logistic"], "method is"),
        (("hazard",), None, "expected an object"),
        (("hazard", "coef"), [1.0], "centres, scales and slopes"),
        (("hazard", "coef"), "x", "expected"),
        (("hazard", "scale"), [None, 1.0, 1.0, 1.0, 1.0], "finite"),
        (("hazard", "features"), ["__class__"] * 5, "features are"),
        (("hazard", "extra"), 1, "unknown fields: extra"),
        (("levels", "mu"), None, "finite"),
        (("levels", "mu"), 10**400, "too large"),
        (("levels", "prompts"), [["t", "p"]], "expected"),
        (("nodes",), "many", "nodes"),
        (("nodes",), None, "nodes is nan"),
        (("nodes",), -1.0, "nodes is -1"),
        (("nodes",), 10**400, "too large"),
        (("prompts",), -1, "prompts is -1"),
        (("prompts",), 10**400, "prompts is 1000"),
        (("source",), "\ud800", "holds text that is none"),
        (("levels", "tasks"), [["\udfff", 0.0]], "holds text that is none"),
        (("levels", "task_sd"), 1e308, "within"),
        (("hazard", "coef"), [1e308] * 6, "overflow"),
        (("hazard", "scale"), [5e-324] * 5, "scales above 0"),
        (("source",), 3, "source"),
    ],
)
def test_a_changed_value_is_refused_with_its_place(text: str, path: tuple[str, ...], value: Any, message: str) -> None:
    record = json.loads(text)
    inner = record
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(LawfitError, match=message) as caught:
        Calibration.from_json(json.dumps(record), "c.json")
    assert str(caught.value).startswith("c.json")


@pytest.mark.parametrize(
    "bad", ["", "[]", "3", "{", "NaN", '{"format": NaN}', "[" * 100_000, "1" * 5000, " " * 20_000_001]
)
def test_what_is_no_calibration_is_refused(bad: str) -> None:
    with pytest.raises(LawfitError):
        Calibration.from_json(bad)


def test_a_message_never_repeats_megabytes(text: str) -> None:
    record = json.loads(text)
    for path in (("source",), ("method",), ("hazard",)):
        with pytest.raises(LawfitError) as caught:
            Calibration.from_json(json.dumps(record | {path[0]: ["x" * 1_000_000]}))
        assert len(str(caught.value)) < 500


def test_a_number_beyond_floats_is_refused(text: str) -> None:
    record = json.loads(text) | {"nodes": 0.125}
    for written in ("1e400", "-1e400"):
        with pytest.raises(LawfitError, match="nodes is"):
            Calibration.from_json(json.dumps(record).replace('"nodes": 0.125', f'"nodes": {written}'))


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
SOUND = {
    "format": "lawfit.calibration",
    "version": 1,
    "method": "isotonic",
    "hazard": {"top": {"edges": [], "values": [0.5]}, "sibling": None},
    "levels": None,
    "nodes": 1.0,
    "prompts": 1,
    "source": "",
}


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["hazard", "levels", "nodes", "prompts", "source", "method", "version"]), JSON)
def test_hostile_values_raise_nothing_but_lawfit_errors(key: str, value: Any) -> None:
    assert Calibration.from_json(json.dumps(SOUND)).nodes == 1.0
    with contextlib.suppress(LawfitError):
        Calibration.from_json(json.dumps(SOUND | {key: value}))
