"""The round log v1 survives writing and reading, in both of its forms."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lawfit.errors import LogFormatError
from lawfit.log import RoundLog
from lawfit.readers import own, read_rounds
from lawfit.readers.glimpse import Glimpse
from lawfit.schema import VERSION_KEY

TEXT = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NATS = st.none() | st.floats(0, 1e6, allow_subnormal=False)
SMALL = st.integers(0, 2**62)


@st.composite
def rows(draw):
    horizon = draw(st.integers(0, 20))
    accepted = draw(st.integers(0, horizon))
    budget = draw(st.none() | st.integers(horizon, 60))
    ranks = st.lists(st.integers(1, budget or 60), min_size=accepted, max_size=accepted, unique=True).map(sorted)
    return {
        "run_id": draw(TEXT),
        "request_id": draw(TEXT),
        "prompt_id": draw(TEXT),
        "task": draw(TEXT),
        "round": draw(st.none() | SMALL),
        "horizon": horizon,
        "accept_len": accepted,
        "spine_len": draw(st.none() | st.integers(0, accepted)),
        "budget": budget,
        "truncated": draw(st.none() | st.booleans()),
        "count": draw(st.integers(1, 2**62)),
        "temperature": draw(NATS),
        "root_entropy": draw(NATS),
        "draft_entropies": draw(st.none() | st.lists(st.floats(0, 1e6), max_size=3)),
        "draft_logprobs": draw(st.none() | st.lists(st.floats(-1e6, 0), max_size=3)),
        "accept_ranks": draw(st.none() | ranks) if budget is None or budget >= accepted else None,
        "origin": draw(st.sampled_from(["round", "trace"])),
    }


def log_of(records):
    return RoundLog.from_frame(pl.from_dicts(records, schema={**dict.fromkeys(records[0])}, infer_schema_length=None))


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
@given(records=st.lists(rows(), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_every_valid_log_comes_back_as_it_was_written(records, suffix):
    log = log_of(records)
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"log{suffix}"
        own.write(log, path)
        assert own.recognise(Glimpse(path))
        back = read_rounds(path)
    assert back.frame.equals(log.frame)
    assert back.digest == log.digest


def simple(**columns):
    return RoundLog.from_frame(pl.DataFrame({"accept_len": [1, 2], "horizon": [4, 4], **columns}))


def test_json_lines_carry_the_version_and_only_known_values(tmp_path):
    own.write(simple(), tmp_path / "a.jsonl")
    first = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])
    assert first == {VERSION_KEY: 1, "accept_len": 1, "horizon": 4, "count": 1, "origin": "round"}


def test_another_suffix_is_not_written(tmp_path):
    with pytest.raises(LogFormatError, match=r"suffix '\.csv', expected \.parquet or \.jsonl"):
        own.write(simple(), tmp_path / "a.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_newer_version_is_refused_in_both_forms(tmp_path):
    (tmp_path / "a.jsonl").write_text(f'{{"{VERSION_KEY}": 2, "accept_len": 1, "horizon": 2}}\n')
    simple().frame.write_parquet(tmp_path / "a.parquet", metadata={VERSION_KEY: "2"})
    for name in ("a.jsonl", "a.parquet"):
        with pytest.raises(LogFormatError, match="round log version 2, this lawfit reads version 1"):
            read_rounds(tmp_path / name)


def test_a_broken_row_is_named_with_its_line(tmp_path):
    own.write(simple(), tmp_path / "a.jsonl")
    text = (tmp_path / "a.jsonl").read_text().replace('"accept_len": 2', '"accept_len": 17')
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(LogFormatError, match=r"round 1: accept_len 17 exceeds horizon 4 \(.*a\.jsonl:2\)"):
        read_rounds(tmp_path / "a.jsonl")


def write_parts(folder):
    folder.mkdir()
    own.write(simple(task=["a", "b"]), folder / "00002.parquet")
    own.write(simple(task=["c", "d"]), folder / "00010.parquet")
    (folder / ".00011.parquet.tmp").write_bytes(b"half a part")


def test_a_folder_of_parts_is_read_in_order_without_the_unfinished_part(tmp_path):
    write_parts(tmp_path / "log.parquet.parts")
    log = read_rounds(tmp_path / "log.parquet.parts")
    assert log.frame["task"].to_list() == ["a", "b", "c", "d"]


def test_parts_of_a_log_that_was_never_finished_stand_in_for_it(tmp_path):
    write_parts(tmp_path / "log.parquet.parts")
    assert len(read_rounds(tmp_path / "log.parquet")) == 4


def test_parts_that_the_file_does_not_hold_yet_are_read_after_it(tmp_path):
    write_parts(tmp_path / "log.parquet.parts")
    own.write(simple(task=["x", "y"]), tmp_path / "log.parquet", merged=["00002.parquet"])
    assert read_rounds(tmp_path / "log.parquet").frame["task"].to_list() == ["x", "y", "c", "d"]


def test_a_folder_without_parts_is_refused(tmp_path):
    with pytest.raises(LogFormatError, match="a folder without Parquet parts"):
        read_rounds(tmp_path)
