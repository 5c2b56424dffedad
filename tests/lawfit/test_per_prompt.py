"""Sums of a log by prompt."""

from __future__ import annotations

import polars as pl
import pytest

from lawfit import NotIdentified, RoundLog
from lawfit.per_prompt import prompt_sums

FRAME = pl.DataFrame(
    {
        "prompt_id": ["b", "a", "a", None],
        "request_id": ["r1", "r2", "r2", "r3"],
        "task": ["t", "t", "t", None],
        "accept_len": [3, 1, 2, 0],
        "horizon": [4, 4, 4, 4],
        "count": [1, 1, 2, 1],
        "truncated": [True, None, False, False],
        "round_ms": [5.0, None, 3.0, 2.0],
    }
)


def test_rounds_tokens_and_times_are_counted_by_prompt_and_else_by_request() -> None:
    sums = prompt_sums(RoundLog.from_frame(FRAME))
    assert sums["prompt"].to_list() == ["request\x1f\x1fr3", "a", "b"]
    assert sums["rounds"].to_list() == [1, 3, 1]
    assert sums["accepted"].to_list() == [0, 5, 3]
    assert sums["tokens"].to_list() == [1, 2 + 2 * 3, 3]  # the cut round of b gave no bonus
    assert sums["ms"].to_list() == [2.0, None, 5.0]


def test_further_columns_are_added_up_too() -> None:
    sums = prompt_sums(RoundLog.from_frame(FRAME), full=pl.col("count") * (pl.col("accept_len") == 2))
    assert sums["full"].to_list() == [0, 2, 0]


def test_a_row_without_prompt_and_request_is_refused() -> None:
    log = RoundLog.from_frame(FRAME.drop("request_id"))
    with pytest.raises(NotIdentified, match="1 of 4 rows name no prompt_id or request_id"):
        prompt_sums(log)


def test_an_empty_log_is_refused() -> None:
    with pytest.raises(NotIdentified, match="no rounds"):
        prompt_sums(RoundLog.from_frame(FRAME).where(pl.col("horizon") > 9))
