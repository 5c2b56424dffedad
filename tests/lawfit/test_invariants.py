import polars as pl
import pytest

from lawfit.errors import LogFormatError
from lawfit.invariants import INVARIANTS, check
from lawfit.log import RoundLog
from lawfit.place import Place

NAN, INF = float("nan"), float("inf")
GOOD = {
    "accept_len": 2,
    "horizon": 4,
    "spine_len": 1,
    "budget": 8,
    "round": 7,
    "position": 20,
    "context_len": 30,
    "batch_size": 1,
    "temperature": 0.0,
    "shape": "tree",
    "draft_passes": 1,
    "truncated": False,
    "count": 1,
    "root_entropy": 0.4,
    "prev_entropy": 0.0,
    "draft_entropy": 2.5,
    "draft_logprobs": [-0.1, -2.0, 0.0],
    "draft_entropies": [0.5, 0.0],
    "accept_ranks": [1, 3],
    "draft_ms": 0.5,
    "origin": "round",
}
# (changed values, what the message says); every rule is broken at least once.
BROKEN = [
    ({"accept_len": None}, "accept_len is missing, expected a whole number"),
    ({"horizon": None}, "horizon is missing, expected a whole number"),
    ({"horizon": 10**9}, "horizon 1000000000 exceeds 10000"),
    ({"accept_len": -1}, "accept_len -1 is below 0"),
    ({"horizon": -1}, "horizon -1 is below 0"),
    ({"spine_len": -1}, "spine_len -1 is below 0"),
    ({"budget": -1}, "budget -1 is below 0"),
    ({"round": -1}, "round -1 is below 0"),
    ({"position": -1}, "position -1 is below 0"),
    ({"context_len": -1}, "context_len -1 is below 0"),
    ({"draft_passes": -1}, "draft_passes -1 is below 0"),
    ({"count": 0}, "count 0 is below 1"),
    ({"batch_size": 0}, "batch_size 0 is below 1"),
    ({"accept_len": 5, "accept_ranks": None}, "accept_len 5 exceeds horizon 4"),
    ({"spine_len": 3}, "spine_len 3 exceeds accept_len 2"),
    ({"horizon": 9}, "horizon 9 exceeds budget 8"),
    ({"root_entropy": NAN}, "root_entropy nan is not a finite number of nats >= 0"),
    ({"prev_entropy": -0.1}, "prev_entropy -0.1 is not a finite number of nats >= 0"),
    ({"draft_entropy": INF}, "draft_entropy inf is not a finite number of nats >= 0"),
    ({"draft_ms": -1.0}, "draft_ms -1.0 is not a finite number of ms >= 0"),
    ({"build_ms": NAN}, "build_ms nan is not a finite number of ms >= 0"),
    ({"verify_ms": INF}, "verify_ms inf is not a finite number of ms >= 0"),
    ({"commit_ms": -INF}, "commit_ms -inf is not a finite number of ms >= 0"),
    ({"round_ms": -2.0}, "round_ms -2.0 is not a finite number of ms >= 0"),
    ({"temperature": -1.0}, "temperature -1.0 is not a finite number of units >= 0"),
    ({"shape": "cube"}, "shape 'cube', expected chain or tree"),
    ({"origin": "dream"}, "origin 'dream', expected round or trace"),
    ({"draft_logprobs": [-0.1, 0.5]}, "holds a value that is not a log probability"),
    ({"draft_logprobs": [None]}, "holds a value that is not a log probability"),
    ({"draft_logprobs": [-INF]}, "holds a value that is not a log probability"),
    ({"draft_entropies": [0.1, NAN]}, "holds a value that is not an entropy in nats"),
    ({"draft_entropies": [-0.1]}, "holds a value that is not an entropy in nats"),
    ({"accept_ranks": [1]}, "accept_ranks has 1 ranks, accept_len is 2"),
    ({"accept_ranks": [3, 1]}, "are not increasing ranks >= 1"),
    ({"accept_ranks": [2, 2]}, "are not increasing ranks >= 1"),
    ({"accept_ranks": [0, 1]}, "are not increasing ranks >= 1"),
    ({"accept_ranks": [1, None]}, "are not increasing ranks >= 1"),
    ({"accept_ranks": [1, 9]}, "accept_ranks reach 9, budget is 8"),
]


def good_frame(*rows):
    return RoundLog.from_frame(pl.DataFrame([{**GOOD, **row} for row in rows], infer_schema_length=None)).frame


def changed(frame, row, values):
    rows = frame.to_dicts()
    rows[row].update(values)
    return pl.DataFrame(rows, schema=frame.schema)


def test_a_good_row_passes():
    check(good_frame({}), Place("x"))


@pytest.mark.parametrize(("values", "message"), BROKEN)
def test_a_broken_row_is_named_with_its_round_and_place(values, message):
    frame = changed(good_frame({}, {}), 1, values)
    with pytest.raises(LogFormatError) as caught:
        check(frame, Place("x.jsonl", [1, 413]))
    number = values.get("round", 7)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"round {number}: ")
    assert str(caught.value).endswith("(x.jsonl:413)")


def test_every_rule_has_a_failing_example():
    frame = pl.concat([changed(good_frame({}), 0, values) for values, _ in BROKEN])
    frame = pl.concat([frame, changed(good_frame({}), 0, {"count": None})])
    broken = frame.select(rule.broken.fill_null(False).any().alias(str(k)) for k, rule in enumerate(INVARIANTS))
    assert [k for k in range(len(INVARIANTS)) if not broken[str(k)][0]] == []


def test_the_first_broken_row_is_reported():
    frame = changed(changed(good_frame({}, {}, {}), 2, {"horizon": -1}), 1, {"budget": -1})
    with pytest.raises(LogFormatError, match=r"budget -1 is below 0 \(x row 1\)"):
        check(frame, Place("x"))


def test_a_row_without_round_is_named_by_its_number():
    frame = changed(good_frame({}, {}), 1, {"round": None, "count": 0})
    with pytest.raises(LogFormatError, match="round 1: count 0"):
        check(frame, Place("x"))


def test_unknown_values_break_nothing():
    RoundLog.from_frame(pl.DataFrame({"accept_len": [0], "horizon": [0]}))


def test_an_empty_list_is_no_violation():
    row = {"accept_len": 0, "spine_len": 0, "accept_ranks": [], "draft_logprobs": [], "draft_entropies": []}
    check(changed(good_frame({}), 0, row), Place("x"))
