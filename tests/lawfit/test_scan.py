from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from lawfit import LogFormatError, RoundLog
from lawfit.readers import own
from lawfit.scan import Scan, fold, is_own, scan_files, scan_frame
from lawfit.schema import SCHEMA_VERSION, VERSION_KEY

NAMES = ("accept_len", "horizon", "root_entropy")


def frame(size: int) -> pl.DataFrame:
    columns = {"accept_len": [1] * size, "horizon": [3] * size, "root_entropy": [0.5] * size}
    return pl.DataFrame({**columns, "round": range(100, 100 + size), "request_id": ["r"] * size})


def rows(scan: Scan, names: tuple[str, ...] = NAMES) -> pl.DataFrame:
    return pl.concat([batch.frame for batch in scan.batches(names)])


@pytest.mark.parametrize("column", ["accept_len", "horizon", "root_entropy", "count"])
@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("at", [0, 4, 9])
def test_a_broken_row_is_named_as_the_reader_names_it(
    column: str, numbered: bool, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lawfit.scan.BATCH", 4)
    path = tmp_path / "bad.parquet"
    wrong = {"accept_len": 4, "horizon": None, "root_entropy": float("nan"), "count": 0}[column]
    broken = (
        frame(10)
        .with_columns(count=1)
        .with_columns(pl.when(pl.int_range(pl.len()) == at).then(pl.lit(wrong)).otherwise(pl.col(column)).alias(column))
    )
    (broken if numbered else broken.drop("round")).write_parquet(path, metadata={VERSION_KEY: str(SCHEMA_VERSION)})
    with pytest.raises(LogFormatError) as theirs:
        own.read(path)
    with pytest.raises(LogFormatError) as ours:
        rows(scan_files(path), (*NAMES, "count"))
    assert str(ours.value) == str(theirs.value)
    assert f"row {at}" in str(ours.value)


def test_a_value_of_the_wrong_kind_is_named_with_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lawfit.scan.BATCH", 4)
    path = tmp_path / "bad.parquet"
    halves = pl.Series([1.0] * 6 + [1.5] * 4)
    frame(10).with_columns(accept_len=halves).write_parquet(path)
    with pytest.raises(
        LogFormatError, match=r"accept_len is 1.5, expected a whole number \(int64\) \(.*bad.parquet row 6"
    ):
        rows(scan_files(path))


def test_columns_come_typed_and_absent_ones_with_their_default(tmp_path: Path) -> None:
    narrow = frame(3).with_columns(pl.col("accept_len").cast(pl.UInt8), pl.col("root_entropy").cast(pl.Float32))
    narrow.write_parquet(tmp_path / "narrow.parquet")
    found = rows(scan_files(tmp_path / "narrow.parquet"), (*NAMES, "count", "truncated"))
    assert found.dtypes == [pl.Int64, pl.Int64, pl.Float64, pl.Int64, pl.Boolean]
    assert found["count"].to_list() == [1] * 3
    assert found["truncated"].null_count() == 3


def test_folders_patterns_and_files_are_read_in_order(tmp_path: Path) -> None:
    for k in (1, 2, 3):
        own.write(RoundLog.from_frame(frame(k)), tmp_path / f"{k}.parquet")
    for paths in (tmp_path, f"{tmp_path}/[0-9].parquet", [tmp_path / f"{k}.parquet" for k in (1, 2, 3)]):
        scan = scan_files(paths)
        assert [part.size for part in scan.parts] == [1, 2, 3]
        assert rows(scan).height == scan.rows == 6
        assert scan.source == f"{tmp_path / '1.parquet'} and 2 more"
    assert is_own([tmp_path])


def test_nameless_runs_of_several_logs_stay_apart_and_parts_of_one_log_do_not(tmp_path: Path) -> None:
    for k in (1, 2):
        own.write(RoundLog.from_frame(frame(k)), tmp_path / f"{k}.parquet")
    several = scan_files([tmp_path / "1.parquet", tmp_path / "2.parquet"])
    assert rows(several, ("run_id",))["run_id"].to_list() == ["1", "2", "2"]
    assert several.holds("run_id")
    assert rows(scan_files(tmp_path), ("run_id",))["run_id"].null_count() == 3


def test_more_columns_of_a_batch_are_of_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lawfit.scan.BATCH", 4)
    for batch in scan_frame(frame(10).lazy()).batches(("round",)):
        assert batch.also(["horizon"]).columns == ["round", "horizon"]
        assert batch.frame["round"][0] == 100 + batch.first
        assert batch.also(["request_id"]).height == batch.frame.height


def test_files_that_are_no_log_are_refused(tmp_path: Path) -> None:
    own.write(RoundLog.from_frame(frame(1)), tmp_path / "good.parquet")
    frame(0).write_parquet(tmp_path / "empty.parquet")
    frame(1).drop("horizon").write_parquet(tmp_path / "lacks.parquet")
    frame(1).write_parquet(tmp_path / "newer.parquet", metadata={VERSION_KEY: "2"})
    (tmp_path / "text.parquet").write_text("accept_len,horizon")
    (tmp_path / "folder").mkdir()
    for paths, message in (
        ("empty.parquet", "empty.parquet: no rounds"),
        ("lacks.parquet", "no column horizon; the columns are accept_len"),
        ("newer.parquet", "round log version 2, this lawfit reads version 1"),
        ("text.parquet", "not a Parquet file"),
        ("none.parquet", "no such file"),
        ("folder", "a folder without Parquet files"),
        ("*.csv", "no file matches"),
    ):
        with pytest.raises(LogFormatError, match=message):
            scan_files(tmp_path / paths)
    with pytest.raises(LogFormatError, match="given twice"):
        scan_files([tmp_path / "good.parquet", tmp_path / "folder" / ".." / "good.parquet"])
    with pytest.raises(LogFormatError, match="no input"):
        scan_files([])
    assert not is_own([tmp_path / "good.parquet", tmp_path / "lacks.parquet"])


def test_a_fold_is_the_grouping_of_all_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lawfit.scan._PENDING", 5)
    frames = [pl.DataFrame({"key": [k % 3, None, 7], "n": [1, k, 2]}) for k in range(20)]
    whole = pl.concat(frames).group_by("key").agg(pl.col("n").sum())
    folded = fold(frames, ["key"], [pl.col("n").sum()])
    assert folded.sort("key").equals(whole.sort("key"))
