"""SGLang: responses under all names, the DSpark dump, and the server's lines."""

import json

import pytest

from lawfit.errors import LogFormatError
from lawfit.readers import read_rounds, read_with_notes

DETAILS = {
    "spec_accept_length": 2.465,
    "spec_num_correct_drafts": 63,
    "spec_num_proposed_drafts": 215,
    "spec_verify_ct": 43,
    "spec_correct_drafts_histogram": [11, 14, 11, 4, 0, 3],
}
HORIZON = {"horizon": 5}
COUNTS = [(0, 11), (1, 14), (2, 11), (3, 4), (5, 3)]


def counts(frame):
    return frame.select("accept_len", "count").rows()


@pytest.mark.parametrize(
    ("accepted", "histogram"),
    [
        ("spec_num_correct_drafts", "spec_correct_drafts_histogram"),
        ("spec_accepted_drafts", "spec_acceptance_histogram"),
        ("spec_accept_token_num", "spec_accept_histogram"),
        (None, "spec_accept_histogram"),
    ],
)
def test_names_of_every_version_are_read(write, accepted, histogram):
    meta = {"id": "r", "completion_tokens": 107, "spec_verify_ct": 43, histogram: [11, 14, 11, 4, 0, 3]}
    reading = read_with_notes(
        write({"text": "", "meta_info": {**meta, **({accepted: 63} if accepted else {})}}, "r.json"), constants=HORIZON
    )
    assert counts(reading.log.frame) == COUNTS
    assert reading.log.frame["request_id"].unique().to_list() == ["r"]
    assert any("differ by +1 tokens (completion less rounds) from 1 request" in note for note in reading.notes)


@pytest.mark.parametrize("layout", ["object", "list", "choices"])
def test_the_openai_api_names_each_choice(write, layout):
    response = {"id": "x", "model": "m", "choices": [{}, {}], "usage": {"completion_tokens": 106}}
    if layout == "object":
        response["sglext"] = {"spec_tokens_details": DETAILS}
    elif layout == "list":
        response["sglext"] = {"spec_tokens_details": [DETAILS, DETAILS]}
    else:
        response["choices"] = [{"meta_info": DETAILS}, {"meta_info": DETAILS}]
    frame = read_rounds(write(response, "r.json"), constants=HORIZON).frame
    names = ["x"] if layout == "object" else ["x/0", "x/1"]
    assert frame["request_id"].unique(maintain_order=True).to_list() == names
    assert int(frame["count"].sum()) == 43 * len(names)


def test_the_horizon_must_be_given_and_a_hint_says_what_the_counts_suggest(write):
    with pytest.raises(
        LogFormatError, match=r"the horizon is not in SGLang's histogram.*spec_verify_ct is 5: that, if"
    ):
        read_rounds(write({"meta_info": DETAILS}, "r.json"))
    with pytest.raises(LogFormatError, match="accept_len 5 exceeds horizon 4"):
        read_rounds(write({"meta_info": DETAILS}, "r.json"), constants={"horizon": 4})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spec_verify_ct": 44}, "spec_correct_drafts_histogram sums to 43, spec_verify_ct is 44"),
        ({"spec_num_correct_drafts": 64}, "spec_correct_drafts_histogram accepts 63, spec_num_correct_drafts is 64"),
        ({"spec_correct_drafts_histogram": None}, "spec_accept_length 2.465, 43 steps, and no histogram"),
        ({"spec_cap_lens_histogram": [0, 20, 23]}, "nothing says which round had which"),
        ({"spec_verify_ct": "43"}, "spec_verify_ct is '43', expected a whole number"),
        ({"spec_verify_ct": 0}, "no response has speculative steps"),
    ],
)
def test_counts_that_contradict_each_other_are_refused(write, change, message):
    with pytest.raises(LogFormatError) as caught:
        read_rounds(write({"meta_info": {**DETAILS, **change}}, "r.json"), constants=HORIZON)
    assert message in str(caught.value)


def test_a_response_without_speculation_is_noted(write):
    text = "\n".join(json.dumps({"meta_info": meta}) for meta in ({"id": "plain"}, DETAILS))
    path = write(text, "r.jsonl")
    reading = read_with_notes(path, constants=HORIZON)
    assert counts(reading.log.frame) == COUNTS
    assert f"{path}:1: a response without speculative steps gives no rows" in reading.notes


@pytest.mark.parametrize("name", ["dspark", "dspark records"])
def test_the_dspark_dump_gives_rounds_with_their_own_horizons(samples, write, name):
    chosen = samples[name]
    frame = read_rounds(write(chosen.text, f"d{chosen.suffix}")).frame
    columns = ("request_id", "round", "context_len", "batch_size", "horizon", "accept_len", "verify_ms", "round_ms")
    assert frame.select(columns).rows() == [
        ("a", 0, 21, 2, 5, 3, 9.5, 11.0),
        ("b", 0, 31, 2, 2, 0, 9.5, 11.0),
        ("a", 1, 22, 2, 5, 3, 9.5, 11.0),
        ("b", 1, 32, 2, 2, 0, 9.5, 11.0),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"acc_len": 3}, "acc_len is 3, expected correct_drafts + 1 with correct_drafts 3"),
        ({"verify_len": 3}, "acc_len is 4, expected 1 to verify_len 3"),
        ({"verify_len": None}, "no verify_len in a request of SGLang"),
    ],
)
def test_a_dump_that_contradicts_itself_names_its_pass(write, change, message):
    good = {"rid": "a", "verify_len": 6, "acc_len": 4, "correct_drafts": 3}
    records = [{"forward_ct": 1, "reqs": [good]}, {"forward_ct": 2, "reqs": [{**good, **change}]}]
    with pytest.raises(LogFormatError) as caught:
        read_rounds(write({"records": records}, "d.json"))
    assert message in str(caught.value)
    assert "record 1" in str(caught.value)


def test_a_dump_without_requests_names_the_switch(write):
    with pytest.raises(LogFormatError, match="SGLANG_DSPARK_DEBUG_DUMP=all"):
        read_rounds(write({"dspark_info_record": {"records": [{"forward_ct": 1, "bs": 2}]}}, "d.json"))


@pytest.mark.parametrize("end", [",", "."])
def test_server_lines_are_reported_and_never_fitted(write, end):
    line = (
        f"[2025-12-01 10:00:00 TP0] Decode batch{end} #running-req: 8, #token: 9, accept len: {{}}, accept rate: 0.49, "
    )
    text = f"INFO up\n{line.format('2.47')}\n{line.format('1.53')}\n"
    with pytest.raises(
        LogFormatError, match=r"2 lines of SGLang: accept len 1\.53 to 2\.47 \(mean of the lines 2\.00"
    ) as caught:
        read_rounds(write(text, "s.log"))
    assert "no law can be fitted" in str(caught.value)
    assert "spec_correct_drafts_histogram" in str(caught.value)
    assert "s.log:2)" in str(caught.value)


def test_decode_lines_without_speculation_say_so(write):
    with pytest.raises(LogFormatError, match="none with an accept len: no speculation"):
        read_rounds(write("Decode batch, #running-req: 8, gen throughput (token/s): 1\n", "s.log"))
