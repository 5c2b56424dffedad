"""Choosing a format, and joining files."""

import json

import pytest

from lawfit.errors import LawfitError
from lawfit.readers import FORMATS, own, read_rounds, read_with_notes

ROW = {"accept_len": 1, "horizon": 4, "request_id": "r", "round": 0}


def written(path, *rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


def test_the_formats_have_distinct_names():
    names = [known.name for known in FORMATS]
    assert len(set(names)) == len(names) == 15
    assert (names[0], names[-1]) == ("own", "mapped")


def test_what_was_found_is_told(tmp_path):
    path = written(tmp_path / "a.jsonl", ROW)
    assert read_with_notes(path).notes == (f"{path}: read as mapped",)
    own.write(read_rounds(path), tmp_path / "b.jsonl")
    assert read_with_notes(tmp_path / "b.jsonl").notes == (f"{tmp_path / 'b.jsonl'}: read as own",)


def test_a_known_format_is_found_whatever_the_suffix(tmp_path):
    row = {"round": 0, "entropy": 0.1, "accepted": 1, "tau": 2, "tree_size": 64, "extended": False}
    reading = read_with_notes(written(tmp_path / "rounds.log", row), constants={"horizon": 15})
    assert reading.notes[0].endswith("rounds.log: read as glance")


def test_a_mapping_asks_for_the_mapped_format(tmp_path):
    path = written(tmp_path / "a.jsonl", {"round": 0, "entropy": 0.1, "accepted": 1, "tree_size": 64})
    log = read_rounds(path, mapping={"accept_len": "accepted"}, constants={"horizon": 15})
    assert log.frame["budget"][0] is None
    with pytest.raises(LawfitError, match="a mapping was given with format glance"):
        read_rounds(path, "glance", mapping={"accept_len": "accepted"})


def test_an_unknown_format_name_lists_the_known_ones(tmp_path):
    with pytest.raises(LawfitError, match="no format 'excel', expected auto, own, glance, .*, vllm, .*, mapped"):
        read_rounds(written(tmp_path / "a.jsonl", ROW), "excel")


def test_one_file_gets_no_run_of_its_own(tmp_path):
    assert read_rounds(written(tmp_path / "a.jsonl", ROW)).frame["run_id"].to_list() == [None]


def test_requests_of_two_files_are_never_merged(tmp_path):
    paths = [written(tmp_path / "a.jsonl", ROW), written(tmp_path / "b.jsonl", ROW)]
    log = read_rounds(paths)
    assert log.frame["run_id"].to_list() == ["a", "b"]
    assert log.source == f"{paths[0]}, {paths[1]}"


def test_two_files_of_the_same_name_are_two_runs(tmp_path):
    paths = [written(tmp_path / "x" / "a.jsonl", ROW), written(tmp_path / "y" / "a.jsonl", ROW)]
    assert read_rounds(paths).frame["run_id"].to_list() == [str(path) for path in paths]


def test_a_run_that_the_file_names_is_kept(tmp_path):
    paths = [written(tmp_path / "a.jsonl", {**ROW, "run_id": "7"}), written(tmp_path / "b.jsonl", ROW)]
    assert read_rounds(paths).frame["run_id"].to_list() == ["7", "b"]


def test_the_same_file_twice_is_refused(tmp_path):
    path = written(tmp_path / "a.jsonl", ROW)
    with pytest.raises(LawfitError, match="given twice"):
        read_rounds([path, tmp_path / "." / "a.jsonl"])


def test_no_file_is_refused():
    with pytest.raises(LawfitError, match="no input"):
        read_rounds([])


def test_a_round_that_occurs_twice_in_a_request_is_noted(tmp_path):
    notes = read_with_notes(written(tmp_path / "a.jsonl", ROW, ROW, {**ROW, "round": 1})).notes
    assert any(note.startswith("1 row with a round that the request had already") for note in notes)


def test_each_file_read_is_reported(tmp_path):
    paths = [written(tmp_path / "a.jsonl", ROW), written(tmp_path / "b.jsonl", ROW)]
    seen = []
    read_with_notes(paths, on_read=seen.append)
    assert seen == paths


def test_constants_fill_a_round_log_too(tmp_path):
    own.write(read_rounds(written(tmp_path / "a.jsonl", ROW)), tmp_path / "b.parquet")
    assert read_rounds(tmp_path / "b.parquet", constants={"task": "t"}).frame["task"].to_list() == ["t"]
