from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from lawfit import FitError, NotIdentified, RoundLog, observe
from lawfit.risk import risk_table


def log(**columns: object) -> RoundLog:
    return RoundLog.from_frame(pl.DataFrame(columns))


def test_a_round_is_censored_at_its_horizon_and_where_its_request_ended() -> None:
    seen = observe(log(accept_len=[3, 2, 1, 0], horizon=[3, 3, 3, 3], truncated=[False, True, None, False]))
    assert seen.missed.tolist() == [False, False, True, True]
    assert seen.trials.tolist() == [3, 2, 2, 1]


def test_a_spine_that_left_the_path_before_the_end_of_the_request_did_miss() -> None:
    frame = log(accept_len=[2, 2, 4, 4], spine_len=[1, 2, 4, 3], horizon=[4] * 4, truncated=[True, True, False, False])
    seen = observe(frame, outcome="spine_len")
    assert seen.accept_len.tolist() == [1, 2, 4, 3]
    assert seen.missed.tolist() == [True, False, False, True]


def test_the_spine_of_a_chain_is_its_accepted_run() -> None:
    seen = observe(log(accept_len=[2, 1], horizon=[3, 3], shape=["chain", "tree"]), outcome="spine_len")
    assert seen.accept_len.tolist() == [2]
    with pytest.raises(NotIdentified, match="no row has spine_len"):
        observe(log(accept_len=[2], horizon=[3]), outcome="spine_len")


def requests() -> RoundLog:
    return log(
        accept_len=[0, 1, 2, 0, 1],
        horizon=[3] * 5,
        request_id=["r", "r", None, "s", None],
        prompt_id=["p", "p", "p", "q", "p"],
        round=[1, 0, 0, 0, 1],
    )


def test_last_rounds_are_dropped_by_request_else_by_prompt_in_order_of_round() -> None:
    assert observe(requests(), last_round="drop").accept_len.tolist() == [1, 2]


def test_last_rounds_are_censored_in_place() -> None:
    assert observe(requests(), last_round="censor").missed.tolist() == [False, True, True, False, False]


def test_rows_give_the_order_where_round_numbers_are_incomplete() -> None:
    frame = log(accept_len=[0, 1, 2], horizon=[3] * 3, request_id=["r"] * 3, round=[2, None, 0])
    assert observe(frame, last_round="drop").accept_len.tolist() == [0, 1]


@pytest.mark.parametrize("policy", ["drop", "censor"])
@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({}, "2 of 2 rows name no request_id or prompt_id"),
        ({"request_id": ["r", None]}, "1 of 2 rows"),
        ({"request_id": ["r", "r"], "count": [1, 9]}, "count > 1"),
        ({"prompt_id": ["p", "p"], "round": [0, 0]}, "occurs twice in one request"),
    ],
)
def test_last_rounds_that_cannot_be_told_are_refused(policy: str, extra: dict[str, object], message: str) -> None:
    frame = log(accept_len=[0, 1], horizon=[3, 3], **extra)
    assert len(observe(frame)) == 2
    with pytest.raises(NotIdentified, match=message):
        observe(frame, last_round=policy)  # type: ignore[arg-type]


def test_a_log_of_last_rounds_only_has_nothing_left() -> None:
    with pytest.raises(NotIdentified, match="no rounds are left"):
        observe(log(accept_len=[0], horizon=[3], request_id=["r"]), last_round="drop")


def test_an_unknown_option_is_named_with_what_was_expected() -> None:
    with pytest.raises(FitError, match="last_round is 'last', expected drop, censor or keep"):
        observe(requests(), last_round="last")  # type: ignore[arg-type]


def test_rows_without_entropy_are_left_out_and_counted() -> None:
    seen = observe(log(accept_len=[0, 1, 2], horizon=[3] * 3, count=[1, 4, 1], root_entropy=[0.5, None, 0.1]))
    kept = seen.with_entropy()
    assert kept.accept_len.tolist() == [0, 2]
    assert kept.left_out == 4
    assert "4 of 6 rounds have no root_entropy" in kept.notes[-1]
    assert len(seen) == 3


def test_a_log_without_the_signal_is_not_identified() -> None:
    with pytest.raises(NotIdentified, match="no row has draft_entropy"):
        observe(log(accept_len=[0], horizon=[3], root_entropy=[1.0]), signal="draft_entropy").with_entropy()


def test_clusters_are_prompts_else_requests_and_unknown_if_a_row_names_neither() -> None:
    ids = {"prompt_id": ["p", None, "p", None], "request_id": ["1", "2", "3", "2"]}
    seen = observe(log(accept_len=[0] * 4, horizon=[3] * 4, **ids))
    assert seen.clusters == 2
    assert seen.cluster is not None
    assert seen.cluster[0] == seen.cluster[2] != seen.cluster[1] == seen.cluster[3]
    assert observe(log(accept_len=[0, 1], horizon=[3, 3], prompt_id=["p", None])).cluster is None


def test_equal_request_ids_of_two_runs_are_two_requests() -> None:
    frame = log(accept_len=[0, 1, 2, 3], horizon=[3] * 4, request_id=["1"] * 4, run_id=["x", "x", "y", "y"])
    assert observe(frame, last_round="drop").accept_len.tolist() == [0, 2]
    assert observe(frame).clusters == 2


def test_an_unknown_truncation_is_noted_only_where_last_rounds_are_kept() -> None:
    assert "truncated is not known in 5 of 5 rows" in observe(requests()).notes[0]
    assert observe(requests(), last_round="drop").notes == ()


def test_the_risk_table_counts_weighted_rounds_at_risk() -> None:
    table = risk_table(
        observe(log(accept_len=[0, 2, 3, 1], horizon=[3] * 4, count=[2, 1, 1, 1], truncated=[False] * 3 + [True]))
    )
    assert table.offset.tolist() == [1, 2, 3]
    assert table.at_risk.tolist() == [5, 2, 2]
    assert table.misses.tolist() == [2, 0, 1]
    assert np.allclose(table.hazard, [0.6, 1.0, 0.5])


def test_rounds_that_offered_no_draft_are_left_out_with_a_note() -> None:
    seen = observe(log(accept_len=[0, 1], horizon=[0, 2]))
    assert len(seen) == 1
    assert any("1 of 2 rounds offered no draft" in note for note in seen.notes)
    with pytest.raises(NotIdentified, match="no round offered a draft"):
        observe(log(accept_len=[0], horizon=[0]))


def test_trees_of_different_budgets_are_told_to_be_pooled() -> None:
    frame = {"accept_len": [0, 1, 2], "horizon": [4, 4, 8], "budget": [4, 4, 8], "truncated": [False] * 3}
    pooled = RoundLog.from_frame(pl.DataFrame({**frame, "shape": ["tree"] * 3}))
    assert observe(pooled).notes == (
        "trees of different budgets (4, 8) are pooled, and a wider tree accepts more: fit by budget",
    )
    assert all(not observe(part).notes for part in pooled.groups("budget").values())
    # The budget of a chain is its horizon, which the likelihood knows.
    assert not observe(RoundLog.from_frame(pl.DataFrame({**frame, "shape": ["chain"] * 3}))).notes
