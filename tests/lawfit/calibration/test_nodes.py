from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from lawfit import LogFormatError, NotIdentified, RoundLog
from lawfit.calibration.nodes import dense, spine_nodes, trace_nodes
from lawfit.readers import own
from lawfit.trace import Trace

DATA = Path(__file__).parents[3] / "data"


def a_trace(**changed: Any) -> Trace:
    """One round: root -> a, b; a -> c, d; b -> e; the output runs a, d."""
    row: dict[str, Any] = {
        "accept_len": 2,
        "horizon": 2,
        "truncated": False,
        "parent": [0, 0, 1, 1, 2],
        "depth": [1, 1, 2, 2, 2],
        "rank": [0, 1, 0, 1, 0],
        "draft_logprob": [-0.1, -2.5, -0.3, -1.5, -0.2],
        "on_path": [True, False, False, True, False],
    }
    row |= changed
    return Trace.from_frame(pl.DataFrame({name: [value] for name, value in row.items()}))


def test_only_children_of_the_accepted_path_are_reached() -> None:
    frame = trace_nodes(a_trace()).frame
    assert frame["reached"].to_list() == [True, True, True, True, False]
    assert frame["accepted"].to_list() == [True, False, False, True, False]


def test_the_spine_is_the_run_of_first_children_from_the_root() -> None:
    frame = trace_nodes(a_trace()).frame
    assert frame["on_spine"].to_list() == [True, False, True, False, False]
    assert frame["below_spine"].to_list() == [True, True, True, True, False]


def test_what_the_end_of_the_output_hid_is_not_reached() -> None:
    cut = a_trace(accept_len=1, on_path=[True, False, False, False, False], truncated=True)
    assert trace_nodes(cut).frame["reached"].to_list() == [True, True, False, False, False]


def test_siblings_share_a_family_within_their_round_only() -> None:
    nodes = trace_nodes(a_trace())
    assert nodes.siblings.tolist() == [0, 0, 1, 1, 2]
    twice = trace_nodes(Trace.from_frame(pl.concat([a_trace().frame, a_trace().frame])))
    assert twice.siblings.tolist() == [0, 0, 1, 1, 2, 3, 3, 4, 4, 5]


@pytest.mark.parametrize(
    "changed",
    [
        {"parent": [0, 0, 4, 1, 2]},
        {"parent": [0, 0, -1, 1, 2]},
        {"depth": [1, 1, 2, 3, 2]},
        {"on_path": [False, True, False, True, False]},
        {"rank": [0, -1, 0, 1, 0]},
        {"draft_logprob": [0.5, -2.5, -0.3, -1.5, -0.2]},
        {"draft_logprob": [float("nan"), -2.5, -0.3, -1.5, -0.2]},
    ],
)
def test_candidates_that_are_no_tree_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(LogFormatError, match="candidate . of trace row 0 is"):
        trace_nodes(a_trace(**changed))


def test_a_log_gives_its_spine_up_to_the_miss() -> None:
    log = RoundLog.from_frame(
        pl.DataFrame(
            {
                "accept_len": [1, 3, 1, 0],
                "horizon": [3, 3, 3, 0],
                "shape": ["chain"] * 4,
                "truncated": [False, False, True, False],
                "draft_logprobs": [[-0.1, -0.2, -0.3]] * 3 + [[]],
                "count": [1, 2, 1, 1],
            }
        )
    )
    seen = spine_nodes(log).at_risk()
    assert seen.frame["round_row"].to_list() == [0, 0, 1, 1, 1, 2]
    assert seen.accepted.tolist() == [1, 0, 1, 1, 1, 1]
    assert seen.weight.tolist() == [1, 1, 2, 2, 2, 1]
    assert seen.cluster is None


def test_a_branch_accepted_off_the_spine_is_a_miss_of_the_spine_even_where_the_request_ended() -> None:
    row = {"accept_len": [2], "spine_len": [0], "horizon": [3], "truncated": [True], "draft_logprobs": [[-0.1, -0.2]]}
    seen = spine_nodes(RoundLog.from_frame(pl.DataFrame(row))).at_risk()
    assert seen.accepted.tolist() == [0]


def test_a_log_without_confidences_cannot_be_calibrated() -> None:
    bare = RoundLog.from_frame(pl.DataFrame({"accept_len": [1], "horizon": [3]}))
    with pytest.raises(NotIdentified, match="no row holds draft_logprobs"):
        spine_nodes(bare)
    cut = {"accept_len": [0], "spine_len": [0], "horizon": [3], "truncated": [True], "draft_logprobs": [[-0.1]]}
    with pytest.raises(NotIdentified, match="no drafted node was reached"):
        spine_nodes(RoundLog.from_frame(pl.DataFrame(cut))).at_risk()


def test_the_shipped_trace_and_log_agree_with_their_accepted_lengths() -> None:
    trace = Trace.read(DATA / "trace.parquet")
    seen = trace_nodes(trace).at_risk()
    assert seen.accepted.sum() == trace.frame["accept_len"].sum()
    assert (np.bincount(seen.siblings, weights=seen.accepted) <= 1).all()
    on_spine = seen.frame.filter(pl.col("on_spine"))
    assert on_spine["accepted"].sum() == trace.frame["spine_len"].sum()
    log = own.read(DATA / "rounds.parquet")
    assert spine_nodes(log).at_risk().accepted.sum() == log.frame["spine_len"].sum()


def test_a_round_log_tests_every_token_once_and_a_trace_many_times() -> None:
    assert (spine_nodes(own.read(DATA / "rounds.parquet")).at_risk().overlap == 1).all()
    seen = trace_nodes(Trace.read(DATA / "trace.parquet")).at_risk()
    assert seen.overlap.max() == 32
    tested = seen.frame.select(pl.struct("request", pl.col("position") + pl.col("depth")).n_unique()).item()
    first = seen.frame["rank"].to_numpy() == 0
    assert (1.0 / seen.overlap[first]).sum() == pytest.approx(tested)


def test_equal_keys_get_one_number_nulls_too() -> None:
    assert dense(pl.Series(["b", "a", None, "b", None])).tolist() == [0, 1, 2, 0, 2]


def test_prompts_are_numbered_by_name_whatever_the_order_of_rows() -> None:
    frame = own.read(DATA / "rounds.parquet").frame
    nodes = spine_nodes(RoundLog.from_frame(frame))
    turned = spine_nodes(RoundLog.from_frame(frame.reverse()))
    names = dict(zip(nodes.frame["prompt"].to_list(), nodes.cluster.tolist(), strict=True))
    assert dict(zip(turned.frame["prompt"].to_list(), turned.cluster.tolist(), strict=True)) == names
    assert sorted(names, key=lambda name: names[name]) == sorted(names)
