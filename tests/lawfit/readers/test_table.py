"""Raw tables: what a file holds, row by row, with the right line."""

import polars as pl
import pytest

from lawfit.errors import LogFormatError
from lawfit.readers.columns import column
from lawfit.readers.table import first_record, load_records, load_table


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blank_lines_between_records_keep_the_line_numbers(tmp_path, end):
    path = written(tmp_path, "a.jsonl", end.join(["", '{"a": 1}', "", "  ", '{"a": 2}', ""]))
    records, place = load_records(path)
    assert [record["a"] for record in records] == [1, 2]
    assert [place.of(0), place.of(1)] == [f"{path}:2", f"{path}:5"]


def test_a_line_separator_within_json_text_ends_no_line(tmp_path):
    path = written(tmp_path, "a.jsonl", '{"a": "x\u2028y\x85z"}\n{"a": 2}\n')
    records, place = load_records(path)
    assert records[0]["a"] == "x\u2028y\x85z"
    assert place.of(1) == f"{path}:2"


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    assert load_table(written(tmp_path, "a.jsonl", b'\xef\xbb\xbf{"a": 1}\n')).frame["a"].to_list() == [1]
    assert load_table(written(tmp_path, "a.csv", b"\xef\xbb\xbfa,b\n1,2\n")).frame.columns == ["a", "b"]


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_a_document_over_several_lines_is_read_whole(tmp_path, name):
    assert load_records(written(tmp_path, name, '{\n "a": 1\n}\n'))[0] == [{"a": 1}]
    records, place = load_records(written(tmp_path, name, '[\n {"a": 1},\n {"a": 2}\n]\n'))
    assert records == [{"a": 1}, {"a": 2}]
    assert place.of(1).endswith(f"{name} row 1")


def test_a_broken_document_is_named_with_the_line_of_the_fault(tmp_path):
    path = written(tmp_path, "a.json", '{\n "a": 1,\n "b": oops\n}\n')
    with pytest.raises(LogFormatError, match=r"a\.json:3: not JSON \(Expecting value"):
        load_records(path)


def test_a_broken_line_after_good_ones_is_named(tmp_path):
    path = written(tmp_path, "a.jsonl", '{"a": 1}\n\n{"a": 2\n')
    with pytest.raises(LogFormatError, match=r"a\.jsonl:3: not a JSON object"):
        load_records(path)


@pytest.mark.parametrize(("text", "where"), [('{"a": 1}\n[1]\n', "a.jsonl:2"), ('[{"a": 1}, 7]', "a.jsonl row 1")])
def test_what_is_json_but_no_object_is_refused(tmp_path, text, where):
    with pytest.raises(LogFormatError) as caught:
        load_records(written(tmp_path, "a.jsonl", text))
    assert where in str(caught.value)


@pytest.mark.parametrize("text", ["[]", "\n\n", " "])
def test_a_file_without_records_is_refused(tmp_path, text):
    with pytest.raises(LogFormatError, match="no rows"):
        load_records(written(tmp_path, "a.jsonl", text))


def test_the_first_record_is_found_in_any_layout(tmp_path):
    for text in ('{"a": 1}\n', '\n[{"a": 1}]', '{\n"a": 1}'):
        assert first_record(written(tmp_path, "a.log", text)) == {"a": 1}
    assert first_record(written(tmp_path, "a.log", "INFO 1")) is None
    assert first_record(written(tmp_path, "a.csv", '{"a": 1}')) is None


def test_csv_rows_know_their_line_despite_blank_lines_and_line_breaks_in_cells(tmp_path):
    path = written(tmp_path, "a.csv", '\na,b\n\n1,"x\ny"\n\n3,\n')
    table = load_table(path)
    assert table.frame.rows() == [("1", "x\ny"), ("3", None)]
    assert [table.place.of(0), table.place.of(1)] == [f"{path}:4", f"{path}:7"]


def test_tabs_separate_in_tsv(tmp_path):
    assert load_table(written(tmp_path, "a.tsv", "a\tb\n1\t2,5\n")).frame.rows() == [("1", "2,5")]


def test_a_column_that_appears_twice_is_refused(tmp_path):
    with pytest.raises(LogFormatError, match=r"a\.csv:1: column 'a' appears twice"):
        load_table(written(tmp_path, "a.csv", "a,b,a\n1,2,3\n"))


@pytest.mark.parametrize("row", ["1", "1,2,3"])
def test_a_row_of_another_length_than_the_header_is_refused(tmp_path, row):
    with pytest.raises(LogFormatError, match=r"a\.csv:3: \d fields, expected 2"):
        load_table(written(tmp_path, "a.csv", f"a,b\n1,2\n{row}\n"))


def test_a_parquet_name_is_no_pattern_and_its_folder_no_column(tmp_path):
    path = tmp_path / "task=x" / "a[1]*.parquet"
    path.parent.mkdir()
    pl.DataFrame({"a": [1]}).write_parquet(path)
    pl.DataFrame({"a": [2]}).write_parquet(path.with_name("a1.parquet"))
    assert load_table(path).frame.to_dict(as_series=False) == {"a": [1]}


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, None], pl.Int64),
        ([1, 2.5], pl.Float64),
        ([True, None], pl.Boolean),
        (["a", "\u2028"], pl.String),
        ([[1], [0.5], []], pl.List(pl.Float64)),
        ([[1], [2], None], pl.List(pl.Int64)),
        ([None], pl.Null),
    ],
)
def test_json_values_keep_their_value_and_kind(values, dtype):
    series = column("c", values)
    assert series.dtype == dtype
    assert series.to_list() == values


@pytest.mark.parametrize(
    ("values", "text"), [([1, "x"], ["1", "x"]), ([2**70, 1], [str(2**70), "1"]), (["\ud800"], ["\\ud800"])]
)
def test_json_values_of_no_single_kind_become_text(values, text):
    assert column("c", values).to_list() == text


@pytest.mark.parametrize("values", [[{"a": 1}], [[1, "x"]], [[[1]]], [1, [1]]])
def test_nested_json_values_stay_objects(values):
    assert column("c", values).dtype == pl.Object
