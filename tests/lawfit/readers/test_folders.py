"""What a folder stands for: one log in parts, or the logs in it; nothing in it is dropped without a word."""

import polars as pl
import pytest

from lawfit.errors import LawfitError, LogFormatError
from lawfit.log import RoundLog
from lawfit.readers import own, read_rounds, read_with_notes
from lawfit.readers.folders import expand
from lawfit.scan import is_own, scan_files


@pytest.fixture
def parquet(tmp_path):
    """Write a round log of two rounds under a name."""

    def written(name):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        own.write(RoundLog.from_frame(pl.DataFrame({"accept_len": [1, 2], "horizon": [4, 4]})), path)
        return path

    return written


@pytest.fixture
def server_log(samples, write):
    return lambda name: write(samples["vllm lines"].text, name)


def test_parquet_and_other_logs_side_by_side_are_all_read(parquet, server_log, tmp_path):
    parquet("he.parquet")
    server_log("s1.log")
    frame = read_rounds(tmp_path).frame
    assert frame["run_id"].unique().sort().to_list() == ["he", "s1"]
    assert frame["engine"].unique().drop_nulls().to_list() == ["vLLM"]
    assert not is_own([tmp_path])
    with pytest.raises(LogFormatError, match=r"s1\.log: not a Parquet file; `lawfit convert` makes one"):
        scan_files(tmp_path)


def test_a_folder_of_nothing_but_parquet_is_one_log(parquet, tmp_path):
    for name in ("1.parquet", "2.parquet"):
        parquet(name)
    assert expand([tmp_path]).paths == (tmp_path,)
    assert read_rounds(tmp_path).frame["run_id"].to_list() == [None] * 4


def test_parquet_of_other_columns_is_no_part(parquet, tmp_path):
    parquet("1.parquet")
    table = pl.DataFrame({"a": [1], "H": [0.5]})
    table.write_parquet(tmp_path / "2.parquet")
    with pytest.raises(LogFormatError, match=r"2\.parquet: not a known log.*the columns are a, H"):
        read_rounds(tmp_path)
    frame = read_rounds(tmp_path, mapping={"accept_len": "a"}, constants={"horizon": 4}).frame
    assert frame["run_id"].to_list() == ["1", "1", "2"]


def test_what_is_passed_over_is_told(parquet, server_log, tmp_path):
    parquet("he.parquet")
    for name in ("s.log", ".old.jsonl", "s.log.tmp", "t.csv~", ".DS_Store", "report.html"):
        server_log(name)
    (tmp_path / "figures").mkdir()
    (tmp_path / ".git").mkdir()
    inputs = expand([tmp_path])
    assert [path.name for path in inputs.paths] == ["he.parquet", "s.log"]
    assert inputs.notes == (
        f"{tmp_path}: passed over .old.jsonl, s.log.tmp, t.csv~ (hidden or temporary)",
        f"{tmp_path}: passed over figures/, report.html (not a log by its name)",
    )
    assert read_with_notes(tmp_path).notes[:2] == inputs.notes


def test_a_scan_tells_what_it_passed_over(parquet, server_log, tmp_path):
    parquet("he.parquet")
    server_log("run.log.tmp")
    assert scan_files(tmp_path).notes == (f"{tmp_path}: passed over run.log.tmp (hidden or temporary)",)


def test_parts_within_a_folder_stand_for_a_log_that_was_never_finished_and_are_read_once_otherwise(parquet, tmp_path):
    parquet("done.parquet")
    parquet("done.parquet.parts/1.parquet")
    parquet("open.parquet.parts/1.parquet")
    assert [path.name for path in expand([tmp_path]).paths] == ["done.parquet", "open.parquet.parts"]
    assert len(read_rounds(tmp_path)) == 6


def test_rotated_logs_are_logs(server_log, tmp_path):
    for name in ("server.log", "server.log.1"):
        server_log(name)
    assert read_rounds(tmp_path).frame["run_id"].n_unique() == 2


@pytest.mark.parametrize("path", [".", "./", "../folder", "", "../folder/."])
def test_a_folder_is_read_whatever_it_is_called(parquet, server_log, tmp_path, monkeypatch, path):
    for name in ("folder/1.parquet", "folder/2.parquet"):
        parquet(name)
    server_log("s.log")
    monkeypatch.chdir(tmp_path / "folder")
    assert len(read_rounds(path)) == scan_files(path).rows == 4
    frame = read_rounds([path, "../s.log"]).frame
    assert frame["run_id"].unique().sort().to_list() == ["folder", "s"]


def test_the_folder_above_is_read_too(parquet, tmp_path, monkeypatch):
    parquet("a.parquet")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    assert len(read_rounds("..")) == scan_files("..").rows == 2


@pytest.mark.parametrize("path", ["loop", "dangling", "/", "/dev/null", "~", "a\x00b", "x" * 300, "closed"])
def test_no_path_ends_in_another_error(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere.parquet")
    (tmp_path / "closed").mkdir()
    for read in (read_rounds, scan_files):
        with pytest.raises((LawfitError, OSError)):
            read(path)
