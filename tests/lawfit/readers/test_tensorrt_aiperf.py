"""TensorRT-LLM's responses and AIPerf's records."""

import json

import pytest

from lawfit.errors import LogFormatError
from lawfit.readers import read_rounds, read_with_notes

TENSORRT = {
    "total_accepted_draft_tokens": 30,
    "total_draft_tokens": 60,
    "num_spec_steps": 20,
    "acceptance_histogram": [8, 0, 6, 6],
    "num_spec_tokens": 3,
}
AIPERF = {
    "engine": "vllm",
    "acceptance_histogram": {"0": 39, "1": 1, "3": 3},
    "num_accepted_draft_tokens": 10,
    "num_draft_tokens": 129,
    "num_spec_steps": 43,
    "num_spec_tokens": 3,
    "completion_tokens": 53,
}


def tensorrt(block, count=1):
    return {"id": "x", "model": "m", "choices": [{"speculative_decoding": block}] * count}


def test_tensorrt_is_told_from_vllm_and_gives_a_histogram_per_choice(write):
    reading = read_with_notes(write(tensorrt(TENSORRT, 2), "r.json"))
    assert reading.notes[0].endswith("read as tensorrt")
    frame = reading.log.frame
    assert frame.select("request_id", "accept_len", "horizon", "count").rows()[:3] == [
        ("x/0", 0, 3, 8),
        ("x/0", 2, 3, 6),
        ("x/0", 3, 3, 6),
    ]
    assert frame["engine"].unique().to_list() == ["TensorRT-LLM"]


def test_a_block_of_a_choice_is_tensorrts_whatever_it_lacks_and_the_error_names_all_that_is_absent(write):
    short = {name: value for name, value in TENSORRT.items() if not name.startswith("total_")}
    with pytest.raises(LogFormatError) as caught:
        read_rounds(write(tensorrt(short), "r.json"))
    assert str(caught.value).startswith(
        "no total_accepted_draft_tokens and no total_draft_tokens in TensorRT-LLM's choices[].speculative_decoding; "
        "its fields are num_spec_steps, acceptance_histogram, num_spec_tokens ("
    )
    with pytest.raises(LogFormatError, match=r"expected TensorRT-LLM's choices\[\]\.speculative_decoding"):
        read_rounds(write(tensorrt(None), "r.json"))


def test_the_fields_that_aiperfs_record_lacks_are_named(write):
    short = {name: value for name, value in AIPERF.items() if name != "num_draft_tokens"}
    with pytest.raises(
        LogFormatError, match="no num_draft_tokens in AIPerf's acceptance record; its fields are engine"
    ):
        read_rounds(write(short, "p.json"))


def test_a_draft_length_schedule_needs_its_horizon(write):
    path = write(tensorrt({**TENSORRT, "num_spec_tokens": None}), "r.json")
    with pytest.raises(LogFormatError, match=r"does not hold its horizon; give it, e\.g\. --set horizon=3"):
        read_rounds(path)
    assert read_rounds(path, constants={"horizon": 3}).frame["horizon"].unique().to_list() == [3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_spec_steps": 19}, "acceptance_histogram sums to 20, num_spec_steps is 19"),
        ({"total_accepted_draft_tokens": 29}, "acceptance_histogram accepts 30, total_accepted_draft_tokens is 29"),
        ({"total_draft_tokens": 29}, "30 draft tokens accepted of 29 drafted"),
        ({"total_draft_tokens": 61}, "61 tokens drafted in 20 steps of at most 3"),
        ({"total_draft_tokens": 50}, "not 3 in each: up to 6 rounds may have accepted a shorter draft whole"),
    ],
)
def test_tensorrts_identities_are_checked(write, change, message):
    with pytest.raises(LogFormatError) as caught:
        read_rounds(write(tensorrt({**TENSORRT, **change}), "r.json"))
    assert message in str(caught.value)


def test_an_aiperf_record_names_its_engine_and_compares_its_tokens(write):
    path = write({"metadata": {"x_request_id": "q"}, "spec_decode_acceptance": AIPERF}, "p.json")
    reading = read_with_notes(path)
    assert reading.log.frame.select("request_id", "engine", "accept_len", "count").rows() == [
        ("q", "vllm", 0, 39),
        ("q", "vllm", 1, 1),
        ("q", "vllm", 3, 3),
    ]
    assert f"{path}: the sums of accept_len + 1 equal the tokens of 1 request" in reading.notes


def test_an_aiperf_record_with_steps_gives_rounds(write):
    steps = {"acceptance_histogram": {"0": 1, "2": 1}, "num_spec_steps": 2, "num_accepted_draft_tokens": 2}
    record = {**AIPERF, **steps, "num_draft_tokens": 4, "per_step_accepted": [2, 0], "per_step_drafted": [3, 1]}
    frame = read_rounds(write(record, "p.json")).frame
    assert frame.select("round", "accept_len", "horizon").rows() == [(0, 2, 3), (1, 0, 1)]


def test_the_histogram_that_aiperf_makes_up_for_llamacpp_is_refused(write):
    record = {**AIPERF, "engine": "llamacpp", "acceptance_histogram": {"2": 4, "3": 2}, "num_spec_steps": 6}
    with pytest.raises(LogFormatError, match="those sums spread evenly: no rounds were seen"):
        read_rounds(write(json.dumps(record), "p.json"))
