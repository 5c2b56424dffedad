"""Rows chosen before they are mapped."""

import polars as pl
import pytest

from lawfit.errors import LawfitError, LogFormatError
from lawfit.readers import read_rounds, read_with_notes
from lawfit.readers.condition import Condition

TABLE = "acc,warm,task,horizon\n1,true,a b,3\n2,false,a b,3\n3,False,c,3\n0,,c=1,3\n"
MAP = {"accept_len": "acc"}


def kept(write, *where, table=TABLE):
    return read_rounds(write(table, "t.csv"), mapping=MAP, where=where).frame["accept_len"].to_list()


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (["warm=false"], [2, 3]),
        (["warm!=true"], [2, 3, 0]),
        (["acc=1.0"], [1]),
        (["acc!=1"], [2, 3, 0]),
        (["acc>=2"], [2, 3]),
        (["acc<2"], [1, 0]),
        (["acc > 1", "acc <= 2"], [2]),
        (["task=a b"], [1, 2]),
        (["task=c=1"], [0]),
        (["warm="], []),
    ],
)
def test_a_condition_keeps_the_rows_that_satisfy_it(write, where, expected):
    if not expected:
        with pytest.raises(LogFormatError, match="no row satisfies --where warm="):
            kept(write, *where)
    else:
        assert kept(write, *where) == expected


def test_what_was_kept_is_told(write):
    path = write(TABLE, "t.csv")
    assert (
        f"{path}: --where warm=false kept 2 of 4 rows" in read_with_notes(path, mapping=MAP, where=["warm=false"]).notes
    )


def test_a_row_that_was_kept_still_knows_its_line(write):
    path = write(TABLE.replace("3,False", "x,False"), "t.csv")
    with pytest.raises(LogFormatError, match=r"accept_len is 'x', expected a whole number \(int64\) \(.*t\.csv:4\)"):
        read_rounds(path, mapping=MAP, where=["warm=false", "task!=a"])


def test_a_kept_row_of_parquet_knows_its_number(tmp_path):
    pl.DataFrame({"accept_len": [1, 1, 9], "horizon": 3, "use": [False, True, True]}).write_parquet(
        tmp_path / "t.parquet"
    )
    with pytest.raises(LogFormatError, match=r"accept_len 9 exceeds horizon 3 \(.*t\.parquet row 2\)"):
        read_rounds(tmp_path / "t.parquet", where=["use=true"])


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("warm", "expected COLUMN=VALUE, or with != < > <= >="),
        ("=1", "expected COLUMN=VALUE"),
        ("acc<many", "'many' is no number to compare with"),
        ("cold=1", "no column 'cold' for --where; the columns are acc, warm"),
    ],
)
def test_a_condition_that_makes_no_sense_is_refused(write, where, message):
    with pytest.raises(LawfitError) as caught:
        kept(write, where)
    assert message in str(caught.value)


def test_nested_cells_are_refused(write):
    path = write('{"accept_len": 1, "horizon": 3, "x": [1]}\n', "t.jsonl")
    with pytest.raises(LogFormatError, match="column x holds no plain values"):
        read_rounds(path, where=["x=1"])


def test_only_tables_are_filtered(samples, write):
    chosen = samples["vllm lines"]
    with pytest.raises(LawfitError, match="a condition was given with format vllm-lines"):
        read_rounds(write(chosen.text), "vllm-lines", where=["a=1"])


def test_a_value_may_hold_an_operator():
    assert Condition.parse("task=a>=b") == Condition("task", "=", "a>=b")
