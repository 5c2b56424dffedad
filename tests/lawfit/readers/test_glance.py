import json

import pytest

from lawfit.errors import LogFormatError
from lawfit.readers import read_rounds, read_with_notes

ROW = {
    "round": 0,
    "entropy": 0.25,
    "accepted": 3,
    "tau": 4,
    "tree_size": 64,
    "extended": False,
    "task": "docvqa",
    "prompt": 0,
}


def written(tmp_path, *changes):
    path = tmp_path / "rounds.jsonl"
    rows = [{name: value for name, value in {**ROW, **change}.items() if value != "absent"} for change in changes]
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


def test_a_round_keeps_its_outcome_entropy_and_setting(tmp_path):
    reading = read_with_notes(written(tmp_path, {}), constants={"horizon": 15})
    row = reading.log.frame.row(0, named=True)
    expected = {
        "round": 0,
        "accept_len": 3,
        "horizon": 15,
        "budget": 63,
        "root_entropy": 0.25,
        "shape": "tree",
    }
    assert {name: row[name] for name in expected} == expected
    assert row["truncated"] is None
    assert reading.notes[0].endswith("read as glance")


def test_without_a_horizon_the_error_says_how_to_give_it(tmp_path):
    with pytest.raises(LogFormatError, match=r"does not hold its horizon.*--set horizon=15"):
        read_rounds(written(tmp_path, {}))


def test_prompts_of_two_tasks_that_number_alike_are_apart(tmp_path):
    log = read_rounds(written(tmp_path, {}, {"task": "chartqa"}), constants={"horizon": 15})
    assert log.frame["prompt_id"].to_list() == ["docvqa/0", "chartqa/0"]
    assert log.frame["request_id"].to_list() == ["docvqa/0", "chartqa/0"]


def test_a_log_without_task_and_prompt_leaves_them_unknown(tmp_path):
    log = read_rounds(written(tmp_path, {"task": "absent", "prompt": "absent"}), constants={"horizon": 15})
    assert log.frame["prompt_id"].to_list() == [None]


def test_an_extended_round_beyond_the_horizon_is_cut_to_it_with_a_note(tmp_path):
    path = written(tmp_path, {"extended": True, "accepted": 18, "tau": 19, "tree_size": 80}, {"extended": True})
    reading = read_with_notes(path, constants={"horizon": 15})
    assert reading.log.frame.select("accept_len", "horizon", "draft_passes").rows() == [
        (15, 15, 2),
        (3, 15, 2),
    ]
    assert any("1 extended round accepted beyond the horizon 15" in note for note in reading.notes)


def test_a_plain_round_beyond_the_horizon_is_an_error(tmp_path):
    path = written(tmp_path, {}, {"round": 1, "accepted": 16, "tau": 17})
    with pytest.raises(LogFormatError, match=r"round 1: accept_len 16 exceeds horizon 15 \(.*rounds\.jsonl:2\)"):
        read_rounds(path, constants={"horizon": 15})


def test_no_round_is_deeper_than_its_tree_is_large(tmp_path):
    log = read_rounds(written(tmp_path, {"tree_size": 9}), constants={"horizon": 15})
    assert log.frame.select("budget", "horizon").row(0) == (8, 8)


@pytest.mark.parametrize("tau", [3, 5, None])
def test_a_tau_other_than_accepted_plus_one_is_refused(tmp_path, tau):
    with pytest.raises(LogFormatError, match=r"expected accepted \+ 1 with accepted 3 \(.*:2\)"):
        read_rounds(written(tmp_path, {}, {"tau": tau}), constants={"horizon": 15})


@pytest.mark.parametrize("name", ["tau", "extended"])
def test_a_missing_column_is_named(tmp_path, name):
    with pytest.raises(LogFormatError, match=f"no {name} in a GLANCE log"):
        read_rounds(written(tmp_path, {name: "absent"}), constants={"horizon": 15})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"entropy": float("nan")}, "root_entropy nan is not a finite number of nats"),
        ({"entropy": -0.5}, "root_entropy -0.5 is not a finite number of nats"),
        ({"entropy": "high"}, "entropy is 'high', expected a number"),
        ({"accepted": 2.5}, "accepted is 2.5, expected a whole number"),
        ({"accepted": 10**30}, "accepted is '1000"),
        ({"extended": "perhaps"}, "extended is 'perhaps', expected true or false"),
        ({"prompt": {"id": 1}}, "prompt is {'id': 1}, expected text"),
    ],
)
def test_a_value_that_makes_no_sense_is_named_with_its_line(tmp_path, change, message):
    with pytest.raises(LogFormatError) as caught:
        read_rounds(written(tmp_path, {}, change), constants={"horizon": 15})
    assert message in str(caught.value)
    assert "rounds.jsonl:2)" in str(caught.value)
