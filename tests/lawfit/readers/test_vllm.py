import json

import pytest

from lawfit.errors import LogFormatError
from lawfit.readers import read_rounds, read_with_notes

SUMMARY = {
    "mean_acceptance_length": 1.2325581395348837,
    "draft_acceptance_rate": 0.07751937984496124,
    "acceptance_histogram": [39, 1, 0, 3],
    "num_spec_steps": 43,
    "num_accepted_draft_tokens": 10,
    "num_draft_tokens": 129,
    "num_spec_tokens": 3,
}
DETAILED = {
    "acceptance_histogram": [1, 1, 1, 0],
    "num_spec_steps": 3,
    "num_accepted_draft_tokens": 3,
    "num_draft_tokens": 7,
    "num_spec_tokens": 3,
    "per_step_accepted": [2, 0, 1],
    "per_step_drafted": [3, 3, 1],
}


def response(block, name="cmpl-1"):
    return {"id": name, "model": "m", "choices": [], "metrics": {"speculative_decoding": block}}


def written(tmp_path, content, name="r.json"):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_detailed_metrics_give_one_round_per_step_with_its_own_horizon(tmp_path):
    reading = read_with_notes(written(tmp_path, response(DETAILED)))
    columns = ("request_id", "target", "round", "accept_len", "horizon", "budget", "count")
    assert reading.log.frame.select(columns).rows() == [
        ("cmpl-1", "m", 0, 2, 3, 3, 1),
        ("cmpl-1", "m", 1, 0, 3, 3, 1),
        ("cmpl-1", "m", 2, 1, 1, 1, 1),
    ]
    limits = "no entropy and no prompt: only entropy-free laws can be fitted, and errors cluster by request"
    assert reading.notes == (f"{tmp_path / 'r.json'}: read as vllm", f"{tmp_path / 'r.json'}: {limits}")


def test_a_summary_gives_one_row_per_accepted_length_with_its_count(tmp_path):
    log = read_rounds(written(tmp_path, response(SUMMARY)))
    assert log.frame.select("accept_len", "horizon", "count", "round").rows() == [
        (0, 3, 39, None),
        (1, 3, 1, None),
        (3, 3, 3, None),
    ]


@pytest.mark.parametrize("layout", ["array", "lines"])
def test_several_responses_may_come_as_array_or_as_lines(tmp_path, layout):
    both = [response(DETAILED, "a"), response(DETAILED, "b")]
    text = json.dumps(both, indent=1) if layout == "array" else "\n\n".join(map(json.dumps, both))
    log = read_rounds(written(tmp_path, text, "r.jsonl"))
    assert log.frame["request_id"].to_list() == ["a"] * 3 + ["b"] * 3


def test_the_earlier_form_names_each_choice(tmp_path):
    old = {**SUMMARY, "acceptance_histogram": {"0": 39, "1": 1, "3": 3}}
    choices = [
        {"index": 0, "speculative_decoding_stats": old},
        {"index": 1, "speculative_decoding_stats": old},
    ]
    log = read_rounds(written(tmp_path, {"id": "x", "choices": choices}))
    assert log.frame["request_id"].unique(maintain_order=True).to_list() == ["x/0", "x/1"]
    assert int(log.frame["count"].sum()) == 86


@pytest.mark.parametrize(
    "content",
    [
        {"id": "x", "choices": []},
        {"id": "x", "choices": [], "metrics": None},
        {"id": "x", "choices": [], "metrics": {"speculative_decoding": None}},
        {"id": "x", "choices": [{"speculative_decoding_stats": None}, 7]},
        {"id": "x", "choices": "none"},
    ],
)
def test_a_response_without_metrics_names_the_flag_that_gives_them(tmp_path, content):
    with pytest.raises(LogFormatError, match="start vLLM with --per-request-spec-decode-metrics detailed"):
        read_rounds(written(tmp_path, content))


def test_a_request_without_speculative_steps_is_noted(tmp_path):
    empty = dict.fromkeys(("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens"), 0)
    empty = {**empty, "acceptance_histogram": [0, 0], "per_step_accepted": [], "per_step_drafted": []}
    text = "\n".join(json.dumps(response(block)) for block in (empty, DETAILED))
    reading = read_with_notes(written(tmp_path, text, "r.jsonl"))
    assert len(reading.log) == 3
    assert any("r.jsonl:1: a response without speculative steps" in note for note in reading.notes)
    with pytest.raises(LogFormatError, match="no response has speculative steps"):
        read_rounds(written(tmp_path, response(empty)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_spec_steps": 4}, "acceptance_histogram sums to 3, num_spec_steps is 4"),
        ({"num_accepted_draft_tokens": 4}, "acceptance_histogram accepts 3, num_accepted_draft_tokens is 4"),
        ({"num_draft_tokens": 2}, "3 draft tokens accepted of 2 drafted"),
        ({"num_draft_tokens": 8}, "per_step_drafted sums to 7, num_draft_tokens is 8"),
        ({"per_step_drafted": [3, 4]}, "per_step_drafted has a length of 2, num_spec_steps is 3"),
        ({"per_step_accepted": [1, 1, 1]}, "per_step_accepted contradicts acceptance_histogram"),
        ({"per_step_drafted": [1, 3, 3]}, "accept_len 2 exceeds horizon 1"),
        ({"per_step_accepted": "all"}, "per_step_accepted is 'all', expected a list of whole numbers"),
        (
            {"acceptance_histogram": [1, 1, -1, 2]},
            "acceptance_histogram[2] is -1, expected a whole number >= 0",
        ),
        ({"acceptance_histogram": {"-1": 3}}, "expected accepted lengths as keys"),
        ({"num_spec_steps": True}, "num_spec_steps is True, expected a whole number >= 0"),
        (
            {"num_draft_tokens": 2**64},
            "num_draft_tokens is 18446744073709551616, expected a whole number >= 0",
        ),
    ],
)
def test_counts_that_contradict_each_other_are_refused_with_their_line(tmp_path, change, message):
    text = "\n".join(json.dumps(response(block)) for block in (DETAILED, {**DETAILED, **change}))
    with pytest.raises(LogFormatError) as caught:
        read_rounds(written(tmp_path, text, "r.jsonl"))
    assert message in str(caught.value)
    assert "r.jsonl:2)" in str(caught.value) or "r.jsonl:4)" in str(caught.value)


def test_a_summary_whose_steps_differ_is_refused_not_guessed(tmp_path):
    with pytest.raises(LogFormatError, match=r"120 tokens drafted in 43 steps, not 3 in each.*detailed"):
        read_rounds(written(tmp_path, response({**SUMMARY, "num_draft_tokens": 120})))


def test_a_summary_without_num_spec_tokens_takes_a_given_horizon(tmp_path):
    path = written(tmp_path, response({**SUMMARY, "num_spec_tokens": None}))
    with pytest.raises(LogFormatError, match=r"does not hold its horizon; give it, e\.g\. --set horizon=3"):
        read_rounds(path)
    assert read_rounds(path, constants={"horizon": 3}).frame["horizon"].to_list() == [3, 3, 3]


def test_a_horizon_other_than_the_logged_one_is_refused(tmp_path):
    with pytest.raises(LogFormatError, match="--set horizon=4, but the file holds 3"):
        read_rounds(written(tmp_path, response(SUMMARY)), constants={"horizon": 4})


def test_a_name_that_is_no_unicode_is_kept_escaped(tmp_path):
    log = read_rounds(written(tmp_path, response(DETAILED, "\ud800x")))
    assert log.frame["request_id"][0] == "\\ud800x"
