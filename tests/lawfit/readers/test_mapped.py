import json

import polars as pl
import pytest

from lawfit.errors import LawfitError, LogFormatError
from lawfit.readers import read_rounds, read_with_notes

NAMES = {"accept_len": "a", "root_entropy": "H", "prompt_id": "prompt"}


def write_table(path, frame):
    if path.suffix == ".parquet":
        frame.write_parquet(path)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in frame.to_dicts()))
    else:
        frame.write_csv(path, separator="," if path.suffix == ".csv" else "\t")
    return path


FRAME = pl.DataFrame({"a": [1, 0], "H": [0.5, 1.25], "prompt": ["é", "日本"], "round": [0, 1], "extra": [9, 9]})


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".tsv", ".jsonl"])
def test_mapped_columns_are_taken_from_any_table(tmp_path, suffix):
    path = write_table(tmp_path / f"t{suffix}", FRAME)
    reading = read_with_notes(path, mapping=NAMES, constants={"horizon": 6, "task": "t"})
    assert reading.log.frame.select("accept_len", "root_entropy", "prompt_id", "round", "horizon", "task").rows() == [
        (1, 0.5, "é", 0, 6, "t"),
        (0, 1.25, "日本", 1, 6, "t"),
    ]
    assert f"{path}: left out extra" in reading.notes


def test_a_constant_stands_in_for_an_absent_column_with_a_note(tmp_path):
    path = write_table(tmp_path / "t.csv", FRAME)
    reading = read_with_notes(path, mapping={**NAMES, "horizon": "L"}, constants={"horizon": 6})
    assert reading.log.frame["horizon"].to_list() == [6, 6]
    assert f"{path}: no column 'L'; horizon is 6 in every row" in reading.notes


def test_an_absent_column_without_a_constant_is_an_error_that_lists_the_columns(tmp_path):
    path = write_table(tmp_path / "t.csv", FRAME)
    with pytest.raises(LogFormatError, match="no column 'L' for horizon; the columns are a, H, prompt, round, extra"):
        read_rounds(path, mapping={**NAMES, "horizon": "L"})


def test_a_constant_fills_gaps_but_never_overrides_a_value(tmp_path):
    path = write_table(tmp_path / "t.csv", pl.DataFrame({"accept_len": [1, 1], "horizon": [None, 4]}))
    assert read_rounds(path, constants={"horizon": 4}).frame["horizon"].to_list() == [4, 4]
    with pytest.raises(LogFormatError, match=r"--set horizon=6, but the file holds 4 \(.*t\.csv:3\)"):
        read_rounds(path, constants={"horizon": 6})


def test_a_float32_of_the_file_agrees_with_the_number_as_typed(tmp_path):
    frame = pl.DataFrame({"accept_len": [1], "horizon": [4], "temperature": pl.Series([0.7], dtype=pl.Float32)})
    read_rounds(write_table(tmp_path / "t.parquet", frame), constants={"temperature": "0.7"})


@pytest.mark.parametrize("source", ["acc_len-1", "acc_len - 1", "low+1"])
def test_a_source_may_be_shifted_by_a_whole_number(tmp_path, source):
    path = write_table(tmp_path / "t.csv", pl.DataFrame({"acc_len": [3, 1], "low": [1, -1]}))
    log = read_rounds(path, mapping={"accept_len": source}, constants={"horizon": 6})
    assert log.frame["accept_len"].to_list() == [2, 0]


def test_a_column_of_that_very_name_goes_before_the_shift(tmp_path):
    path = write_table(tmp_path / "t.csv", pl.DataFrame({"acc-1": [5], "acc": [3]}))
    assert read_rounds(path, mapping={"accept_len": "acc-1"}, constants={"horizon": 6}).frame["accept_len"][0] == 5


def test_a_shift_of_what_is_no_number_is_refused(tmp_path):
    path = write_table(tmp_path / "t.csv", pl.DataFrame({"acc": ["2", "many"]}))
    with pytest.raises(LogFormatError, match=r"acc is 'many', expected a whole number \(int64\) \(.*t\.csv:3\)"):
        read_rounds(path, mapping={"accept_len": "acc-1"}, constants={"horizon": 6})


def test_an_unknown_table_lists_its_columns_and_shows_how_to_map_them(tmp_path):
    path = write_table(tmp_path / "t.csv", FRAME)
    with pytest.raises(LogFormatError) as caught:
        read_rounds(path)
    assert "no column gives horizon and accept_len; the columns are a, H, prompt, round, extra" in str(caught.value)
    assert "--map accept_len=" in str(caught.value)


def hint(tmp_path, frame):
    path = write_table(tmp_path / "a table.csv", frame)
    with pytest.raises(LogFormatError) as caught:
        read_rounds(path)
    return str(caught.value)


def test_the_hint_names_the_columns_of_the_file(tmp_path):
    told = hint(tmp_path, pl.DataFrame({"H": [0.5, 1.0], "L": [6, 6], "prompt": ["x", "y"], "a": [1, 0]}))
    options = "--map accept_len=a,horizon=L,root_entropy=H,prompt_id=prompt"
    assert told.endswith(
        f"by their names, perhaps: lawfit convert '{tmp_path}/a table.csv' {options} -o rounds.parquet"
    )


@pytest.mark.parametrize(("least", "source"), [(1, "acc_len-1"), (0, "acc_len")])
def test_the_hint_takes_the_bonus_out_and_asks_for_the_horizon(tmp_path, least, source):
    told = hint(tmp_path, pl.DataFrame({"acc_len": [least, 4], "entropy": ["much", "little"]}))
    assert f"--map accept_len={source} --set horizon=N -o" in told
    assert told.endswith("with N the tokens that a round drafted")
    assert "root_entropy=" not in told


@pytest.mark.parametrize(
    "columns",
    [
        {"k": [1, 2], "per_step_ms": [4.5, 5.5]},
        {"accepted": [0.5, 0.7], "drafted": [1, 1]},
        {"accepted": [677], "horizon": [6]},
        {"accepted": [677_000, 1], "horizon": [6, 6]},
    ],
)
def test_what_does_not_look_like_rounds_gets_no_mapping(tmp_path, columns):
    told = hint(tmp_path, pl.DataFrame(columns))
    assert "nor does one look like accepted tokens a round" in told
    assert "root_entropy" not in told


def test_nested_columns_are_no_hint(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"accepted": [1], "prompt": {"a": 1}}\n{"accepted": [2], "prompt": {}}\n')
    with pytest.raises(LogFormatError, match="nor does one look like accepted tokens a round"):
        read_rounds(tmp_path / "t.jsonl")


def test_a_mapping_for_a_server_log_says_what_the_file_is(samples, write):
    path = write(samples["vllm lines"].text, "s1.log")
    with pytest.raises(LawfitError) as caught:
        read_rounds(path, mapping={"accept_len": "acc"})
    assert str(caught.value) == (
        f"{path}: is vllm-lines (vLLM server log, SpecDecoding metrics), which needs no mapping, and has no column "
        "acc; a mapping goes with tables (CSV, TSV, JSON Lines, Parquet)"
    )
    with pytest.raises(LawfitError, match="has no column warm; a condition goes with tables"):
        read_rounds(path, where=["warm=false"])


def test_an_unknown_text_says_that_no_format_knows_it(write):
    with pytest.raises(LogFormatError, match="no log that lawfit knows .*, and no table: suffix '.log'"):
        read_rounds(write("INFO started\n", "s1.log"), mapping={"accept_len": "acc"})


def test_of_several_inputs_a_mapping_is_for_the_tables_alone(samples, write, tmp_path):
    server = write(samples["vllm lines"].text, "s1.log")
    table = write_table(tmp_path / "t.csv", FRAME)
    constants = {"horizon": 6, "task": "t"}
    reading = read_with_notes([server, table], mapping=NAMES, constants=constants)
    rows = reading.log.frame.group_by("run_id", "horizon", "task").agg(pl.col("count").sum()).sort("run_id").rows()
    assert rows == [("s1", 5, "t", 140), ("t", 6, "t", 2)]
    assert f"{server}: keeps its own horizon; --set horizon=6 is for the others" in reading.notes
    assert reading.log.frame["root_entropy"].drop_nulls().to_list() == [0.5, 1.25]


def test_each_prompt_is_a_request_where_no_column_says_otherwise(tmp_path):
    reading = read_with_notes(write_table(tmp_path / "t.csv", FRAME), mapping=NAMES, constants={"horizon": 6})
    assert reading.log.frame["request_id"].to_list() == ["é", "日本"]
    assert any("no request_id; each prompt is taken as one request" in note for note in reading.notes)


def test_prompt_numbers_that_recur_in_tasks_are_told_apart(tmp_path):
    frame = pl.DataFrame({"accept_len": [1, 1], "horizon": [2, 2], "prompt_id": [0, 0], "task": ["a", "b"]})
    log = read_rounds(write_table(tmp_path / "t.csv", frame))
    assert log.frame["prompt_id"].to_list() == log.frame["request_id"].to_list() == ["a/0", "b/0"]


def test_a_prompt_name_that_recurs_in_tasks_stays_one_prompt_but_two_requests(tmp_path):
    frame = pl.DataFrame({"accept_len": [1, 1], "horizon": [2, 2], "prompt_id": ["x", "x"], "task": ["a", "b"]})
    log = read_rounds(write_table(tmp_path / "t.csv", frame))
    assert log.frame["prompt_id"].to_list() == ["x", "x"]
    assert log.frame["request_id"].to_list() == ["a/x", "b/x"]


def test_a_column_of_another_kind_under_a_log_name_is_left_out_with_a_note(tmp_path):
    frame = pl.DataFrame({"accept_len": [1, 1], "horizon": [2, 2], "round": ["r1", "r2"]})
    reading = read_with_notes(write_table(tmp_path / "t.csv", frame))
    assert reading.log.frame["round"].to_list() == [None, None]
    assert any("column round is not what the log means by it" in note for note in reading.notes)


def test_one_bad_value_in_a_good_column_is_an_error_not_a_dropped_column(tmp_path):
    frame = pl.DataFrame({"accept_len": [1, 1], "horizon": [2, 2], "root_entropy": ["0.5", "NA"]})
    with pytest.raises(LogFormatError, match=r"root_entropy is 'NA', expected a number \(.*t\.csv:3\)"):
        read_rounds(write_table(tmp_path / "t.csv", frame))


@pytest.mark.parametrize("name", ["prompt_id", "task"])
def test_a_nested_name_is_an_error_with_its_row(tmp_path, name):
    rows = [{"accept_len": 1, "horizon": 2, "prompt_id": "p", "task": "t", name: value} for value in ("x", {"a": 1})]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(LogFormatError, match=rf"{name} is {{'a': 1}}, expected text \(.*t\.jsonl:2\)"):
        read_rounds(tmp_path / "t.jsonl")


def test_whole_floats_are_whole_numbers(tmp_path):
    frame = pl.DataFrame({"accept_len": [1.0, 2.0], "horizon": [2.0, 2.0]})
    for suffix in (".csv", ".jsonl", ".parquet"):
        log = read_rounds(write_table(tmp_path / f"t{suffix}", frame))
        assert log.frame["accept_len"].to_list() == [1, 2]


@pytest.mark.parametrize(
    ("mapping", "constants", "message"),
    [
        ({"accept": "a"}, None, "no log column 'accept', expected one of run_id"),
        (None, {"horizn": 6}, "no log column 'horizn'"),
        (None, {"horizon": "six"}, "--set horizon=six: expected a whole number"),
        (None, {"horizon": 6.5}, "--set horizon=6.5: expected a whole number"),
        (None, {"horizon": True}, "--set horizon=True: expected a whole number"),
        (None, {"horizon": 2**63}, "expected a whole number"),
        (None, {"temperature": "hot"}, "--set temperature=hot: expected a number"),
        (None, {"truncated": "maybe"}, "--set truncated=maybe: expected true or false"),
        (None, {"accept_ranks": "1"}, "expected a column of plain values"),
        (None, {"task": None}, "--set task=None: expected text"),
    ],
)
def test_statements_that_make_no_sense_are_refused(tmp_path, mapping, constants, message):
    with pytest.raises(LawfitError) as caught:
        read_rounds(write_table(tmp_path / "t.csv", FRAME), mapping=mapping, constants=constants)
    assert message in str(caught.value)
