"""Files that are not what they claim: one clear `LawfitError`, and nothing else, comes out."""

import copy
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lawfit.errors import LawfitError, LogFormatError
from lawfit.log import RoundLog
from lawfit.readers import FORMATS, own, read_rounds

JUNK = bytes(range(256)) * 4


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".tsv"])
def test_binary_under_a_text_suffix_is_no_text(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(JUNK)
    with pytest.raises(LogFormatError, match=r"not a text file \(byte 128 is not UTF-8\)"):
        read_rounds(path)


@pytest.mark.parametrize("content", [JUNK, b"PAR1", b"PAR1" + JUNK + b"PAR1", b'{"accept_len": 1}'])
def test_what_is_no_parquet_is_refused(tmp_path, content):
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    with pytest.raises(LogFormatError, match=r"a\.parquet: not a Parquet file"):
        read_rounds(path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.99])
def test_a_truncated_parquet_file_is_refused(tmp_path, share):
    path = tmp_path / "a.parquet"
    own.write(RoundLog.from_frame(pl.DataFrame({"accept_len": [1] * 500, "horizon": [2] * 500})), path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(LogFormatError, match=r"not a Parquet file|the file is empty"):
        read_rounds(path)


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".parquet", ".txt", ""])
@pytest.mark.parametrize("name", ["auto", *(known.name for known in FORMATS)])
def test_empty_and_absent_files_and_folders_are_refused_in_every_format(tmp_path, suffix, name):
    (tmp_path / f"empty{suffix}").touch()
    (tmp_path / f"folder{suffix}").mkdir()
    constants = {"horizon": 6}
    for path, message in (("empty", "empty"), ("absent", "no such file"), ("folder", "folder")):
        with pytest.raises(LogFormatError, match=message):
            read_rounds(tmp_path / f"{path}{suffix}", name, constants=constants)


def test_an_unknown_suffix_lists_the_known_ones(tmp_path):
    (tmp_path / "notes.txt").write_text("INFO nothing of the kind\n")
    with pytest.raises(LogFormatError, match=r"suffix '\.txt', expected \.parquet, \.csv, \.tsv, \.jsonl or \.json"):
        read_rounds(tmp_path / "notes.txt")


@pytest.mark.parametrize("name", ["server.txt", "server.log", "server.jsonl"])
def test_a_server_line_without_its_counts_is_named(tmp_path, name):
    (tmp_path / name).write_text("INFO SpecDecoding metrics: Mean acceptance length: 2.62\n")
    with pytest.raises(LogFormatError, match="is not a line of vLLM's metrics with accepted and drafted tokens"):
        read_rounds(tmp_path / name)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"accept_len": 5, "horizon": 3}', "accept_len 5 exceeds horizon 3"),
        ('{"accept_len": 1, "horizon": 3, "root_entropy": NaN}', "root_entropy nan is not a finite number"),
        ('{"accept_len": 1, "horizon": 3, "root_entropy": -1}', "root_entropy -1.0 is not a finite number"),
        ('{"accept_len": 1.5, "horizon": 3}', "accept_len is 1.5, expected a whole number"),
        ('{"accept_len": 9223372036854775808, "horizon": 3}', "accept_len is '9223372036854775808'"),
        ('{"accept_len": true, "horizon": 3}', "accept_len is 'True', expected a whole number"),
        ('{"accept_len": {"n": 1}, "horizon": 3}', "accept_len is {'n': 1}, expected a whole number"),
        ('{"accept_len": [1], "horizon": 3}', "accept_len is [1], expected a whole number"),
        ('{"accept_len": null, "horizon": 3}', "accept_len is missing"),
        (
            '{"accept_len": 1, "horizon": 3, "accept_ranks": [1, 2]}',
            "accept_ranks has 2 ranks, accept_len is 1",
        ),
        (
            '{"accept_len": 1, "horizon": 3, "accept_ranks": [1.5]}',
            "accept_ranks is [1.5], expected a list of whole",
        ),
        ('{"accept_len": 1, "horizon": 3, "draft_entropies": ["x"]}', "expected a list of numbers"),
        ("[" * 100_000, "not a JSON object"),
        ('{"accept_len": ' + "9" * 5000 + ', "horizon": 3}', "not a JSON object"),
    ],
)
def test_a_bad_row_is_named_with_its_line_past_blank_lines(tmp_path, row, message):
    good = '{"accept_len": 1, "horizon": 3, "root_entropy": 0.5, "accept_ranks": [1], "draft_entropies": [0.1]}'
    (tmp_path / "a.jsonl").write_text(f"{good}\n\n{good}\n\n{row}\n{good}\n")
    with pytest.raises(LogFormatError) as caught:
        read_rounds(tmp_path / "a.jsonl")
    assert message in str(caught.value)
    assert "a.jsonl:5" in str(caught.value)
    assert "\n" not in str(caught.value)


SEEDS = [
    [{"accept_len": 1, "horizon": 3, "prompt_id": n, "task": "ab"[n], "truncated": n} for n in (0, 1)],
    [
        {
            "round": 0,
            "entropy": 0.3,
            "accepted": 1,
            "tau": 2,
            "tree_size": 64,
            "extended": False,
            "task": "t",
            "prompt": 0,
        }
    ],
    [
        {
            "id": "a",
            "choices": [{"speculative_decoding_stats": {"acceptance_histogram": {"1": 2}, "num_spec_steps": 2}}],
            "metrics": {
                "speculative_decoding": {
                    "acceptance_histogram": [1, 0, 1, 0],
                    "num_spec_steps": 2,
                    "num_draft_tokens": 6,
                    "num_accepted_draft_tokens": 2,
                    "num_spec_tokens": 3,
                    "per_step_accepted": [2, 0],
                    "per_step_drafted": [3, 3],
                }
            },
        }
    ],
    [
        {
            "round": 0,
            "batch": 0,
            "pos_in_round": pos,
            "output_position": pos,
            "emission_source": source,
            "target_entropy": 0.1,
            "consecutive_accepted_length": 1,
        }
        for pos, source in enumerate(["accepted_draft", "bonus"])
    ],
    [
        {
            "lawfit.schema_version": 1,
            "accept_len": 1,
            "horizon": 3,
            "accept_ranks": [1],
            "task": "é",
            "truncated": False,
        }
    ],
]
ODD = st.sampled_from(
    [
        None,
        True,
        -1,
        2**63,
        10**40,
        1.5,
        float("nan"),
        float("inf"),
        "",
        "3",
        "\ud800",
        [],
        [1, "x"],
        [[1]],
        {},
        {"a": 1},
    ]
)


@st.composite
def mutated(draw):
    """A valid file of some format with one value replaced or removed."""
    records = copy.deepcopy(draw(st.sampled_from(SEEDS)))
    node = records
    while True:
        key = draw(st.sampled_from(list(node) if isinstance(node, dict) else range(len(node))))
        if isinstance(node[key], (dict, list)) and node[key] and draw(st.booleans()):
            node = node[key]
        elif draw(st.booleans()):
            node[key] = draw(ODD)
            break
        else:
            del node[key]
            break
    return "\n".join(json.dumps(record) for record in records).encode()


@st.composite
def damaged(draw):
    """A valid file with some bytes overwritten or its end cut off."""
    content = bytearray("\n".join(json.dumps(record) for record in draw(st.sampled_from(SEEDS))).encode())
    for at, byte in draw(st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), max_size=4)):
        content[at] = byte
    return bytes(content[: draw(st.integers(0, len(content)))])


@given(
    content=st.binary(max_size=300)
    | st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace"))
    | mutated()
    | damaged(),
    suffix=st.sampled_from([".jsonl", ".json", ".csv", ".tsv", ".parquet", ".log"]),
    name=st.sampled_from(["auto", *(known.name for known in FORMATS)]),
    constants=st.sampled_from([{}, {"horizon": 3}, {"horizon": 15, "task": "t"}]),
)
@settings(max_examples=600, deadline=None)
def test_only_lawfit_errors_escape_from_any_file(content, suffix, name, constants):
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"a{suffix}"
        path.write_bytes(content)
        try:
            log = read_rounds(path, name, constants=constants)
        except LawfitError:
            return
        assert len(log) > 0
