import polars as pl
import pytest

from lawfit.errors import LogFormatError
from lawfit.log import RoundLog, concat
from lawfit.place import Place
from lawfit.schema import NAMES, POLARS_SCHEMA


def log_of(**columns):
    size = len(next(iter(columns.values())))
    return RoundLog.from_frame(pl.DataFrame({"accept_len": [1] * size, "horizon": [4] * size, **columns}))


def test_a_log_has_all_columns_in_the_order_and_types_of_the_schema():
    frame = log_of(task=["a"]).frame
    assert tuple(frame.columns) == NAMES
    assert dict(frame.schema) == POLARS_SCHEMA


def test_absent_columns_take_their_default_or_null():
    frame = log_of(task=["a"]).frame
    assert frame["count"][0] == 1
    assert frame["origin"][0] == "round"
    assert frame["truncated"][0] is None


def test_a_null_count_is_one():
    assert log_of(count=[None, 3]).frame["count"].to_list() == [1, 3]
    assert log_of(count=[None, None]).frame["count"].to_list() == [1, 1]


def test_unknown_columns_are_dropped():
    assert "extra" not in log_of(extra=[1]).frame.columns


def test_a_missing_required_column_is_named_with_those_there_are():
    with pytest.raises(LogFormatError, match="x: no column horizon; the columns are accept_len, b"):
        RoundLog.from_frame(pl.DataFrame({"accept_len": [1], "b": [2]}), Place("x"))


def test_an_empty_frame_is_refused():
    with pytest.raises(LogFormatError, match="no rounds"):
        RoundLog.from_frame(pl.DataFrame({"accept_len": [], "horizon": []}))


def test_len_counts_rows_not_rounds():
    assert len(log_of(count=[5, 6])) == 2


def test_groups_keep_the_order_of_appearance_and_every_row():
    groups = log_of(task=["b", "a", None, "b"]).groups("task")
    assert {key: len(part) for key, part in groups.items()} == {"b": 2, "a": 1, "(none)": 1}
    assert list(groups) == ["b", "a", "(none)"]
    assert tuple(groups["b"].frame.columns) == NAMES


def test_groups_by_a_number_are_named_by_it():
    assert list(log_of(budget=[8, 16]).groups("budget")) == ["8", "16"]


@pytest.mark.parametrize("by", ["tusk", "accept_ranks"])
def test_grouping_by_what_is_no_plain_column_is_refused(by):
    with pytest.raises(LogFormatError, match=f"cannot group by '{by}'"):
        log_of(task=["a"]).groups(by)


def test_where_may_leave_nothing():
    assert len(log_of(task=["a"]).where(pl.col("task") == "b")) == 0


def test_concat_keeps_order_and_names_all_sources():
    one, two = log_of(task=["a"]), log_of(task=["b", "c"])
    joined = concat([RoundLog(one.frame, "x"), RoundLog(two.frame, "y"), RoundLog(two.frame, "x")])
    assert joined.frame["task"].to_list() == ["a", "b", "c", "b", "c"]
    assert joined.source == "x, y"


def test_concat_of_nothing_is_refused():
    with pytest.raises(LogFormatError, match="no round log"):
        concat([])


def test_the_digest_is_of_the_content_not_of_the_source():
    log = log_of(prompt_id=["a", "b"])
    assert RoundLog(log.frame, "elsewhere").digest == log.digest
    assert len(log.digest) == 64


@pytest.mark.parametrize(
    "change",
    [
        {"accept_len": [1, 2]},
        {"horizon": [4, 5]},
        {"truncated": [None, True]},
        {"count": [1, 2]},
        {"root_entropy": [0.5, None]},
        {"prev_entropy": [0.5, None]},
        {"run_id": [None, "r"]},
        {"request_id": [None, "r"]},
        {"prompt_id": ["p", "q"]},
    ],
)
def test_the_digest_changes_with_all_that_a_fit_depends_on(change):
    base = {"accept_len": [1, 1], "horizon": [4, 4], "prompt_id": ["p", "p"]}
    assert log_of(**{**base, **change}).digest != log_of(**base).digest


def test_the_digest_ignores_what_no_fit_reads():
    assert log_of(round_ms=[1.0]).digest == log_of(round_ms=[2.0]).digest
