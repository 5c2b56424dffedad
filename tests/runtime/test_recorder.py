import os
import random
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from lawfit.errors import LogFormatError
from lawfit.readers import own
from lawfit.readers.parts import folder_of, pending
from runtime.recorder import Recorder

WRITER = """
import sys
from pathlib import Path
from runtime.recorder import Recorder
recorder = Recorder(Path(sys.argv[1]), {"run_id": "run"}, batch=5)
for k in range(100000):
    recorder.record({"request_id": "r", "round": k, "accept_len": k % 4, "horizon": 4, "budget": 4})
    if k % 7 == 0:
        print(k, flush=True)
    if k % 400 == 399:
        recorder.close()
        recorder = Recorder(Path(sys.argv[1]), {"run_id": "run"}, batch=5)
"""


def row(k):
    return {"request_id": "r", "round": k, "accept_len": 1, "horizon": 4}


@pytest.mark.parametrize("seed", range(8))
def test_a_kill_at_a_random_moment_loses_at_most_the_unflushed_batch(tmp_path, seed):
    path = tmp_path / "rounds.parquet"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as writer:
        writer.stdout.readline()
        time.sleep(random.Random(seed).uniform(0.0, 0.8))
        os.kill(writer.pid, signal.SIGKILL)
        reported = [0] + [int(line) for line in writer.stdout.read().split("\n")[:-1] if line]
    rounds = own.read(path).frame["round"].to_list() if path.is_file() or pending(path) else []
    assert rounds == list(range(len(rounds)))
    # Row k was reported after it was recorded; of those at most the batch of 5 was in memory only.
    assert len(rounds) >= max(reported) + 1 - 5
    with Recorder(path, {"run_id": "run"}) as recorder:
        recorder.record(row(len(rounds)))
    assert own.read(path).frame["round"].to_list() == list(range(len(rounds) + 1))
    assert [file.name for file in tmp_path.iterdir()] == ["rounds.parquet"]


def test_parts_that_a_kill_left_after_merging_are_not_counted_twice(tmp_path, monkeypatch):
    path = tmp_path / "rounds.parquet"
    recorder = Recorder(path, batch=1)
    recorder.record(row(0))
    monkeypatch.setattr("runtime.recorder.shutil.rmtree", lambda folder, **options: None)
    monkeypatch.setattr("pathlib.Path.unlink", lambda path, missing_ok=False: None)
    recorder.close()
    monkeypatch.undo()
    assert list(folder_of(path).iterdir())
    assert own.read(path).frame["round"].to_list() == [0]
    with Recorder(path) as again:
        again.record(row(1))
    assert own.read(path).frame["round"].to_list() == [0, 1]


def test_rows_are_appended_to_an_existing_log(tmp_path):
    path = tmp_path / "rounds.parquet"
    for k in range(3):
        with Recorder(path, {"engine": "e"}, batch=1) as recorder:
            recorder.record(row(k))
    log = own.read(path)
    assert log.frame["round"].to_list() == [0, 1, 2]
    assert log.frame["run_id"].n_unique() == 3
    assert log.frame["engine"].to_list() == ["e"] * 3


def test_a_recorder_without_rows_leaves_nothing_behind(tmp_path):
    with Recorder(tmp_path / "rounds.parquet"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_round_log_is_not_touched(tmp_path):
    path = tmp_path / "rounds.parquet"
    pl.DataFrame({"x": [1]}).write_parquet(path)
    before = path.read_bytes()
    with pytest.raises(LogFormatError, match="no column .*accept_len"):
        Recorder(path)
    assert path.read_bytes() == before
    with pytest.raises(LogFormatError, match="expected .parquet"):
        Recorder(tmp_path / "rounds.csv")


def test_a_folder_or_an_impossible_place_is_refused_before_any_row(tmp_path):
    (tmp_path / "d.parquet").mkdir()
    with pytest.raises(LogFormatError, match="is a folder"):
        Recorder(tmp_path / "d.parquet")
    (tmp_path / "file").write_text("x")
    with pytest.raises(LogFormatError, match="cannot be written"):
        Recorder(tmp_path / "file" / "r.parquet")


def test_an_unknown_column_is_refused_by_name(tmp_path):
    with Recorder(tmp_path / "r.parquet") as recorder, pytest.raises(LogFormatError, match="no column speed"):
        recorder.record({**row(0), "speed": 3})


def test_an_error_in_the_loop_keeps_the_rows_before_it(tmp_path):
    path = tmp_path / "r.parquet"
    with pytest.raises(RuntimeError), Recorder(path) as recorder:
        recorder.record(row(0))
        raise RuntimeError
    assert len(own.read(path)) == 1
