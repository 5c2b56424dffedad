import json

import pytest

from lawfit.errors import LogFormatError
from lawfit.readers import read_rounds, read_with_notes


def position(round_, pos, out, end="accepted_draft", **more):
    accepted = pos if end != "accepted_draft" else pos + 1
    record = {
        "round": round_,
        "batch": 0,
        "pos_in_round": pos,
        "output_position": out,
        "emission_source": end,
    }
    return {**record, "consecutive_accepted_length": accepted, "target_entropy": 0.1 * out, **more}


def bonus(round_, pos, out):
    record = position(round_, pos, out, "bonus")
    del record["target_entropy"]
    return record


# Accepted 1 of 2, then 2 of 2 with its bonus, then 0.
GOOD = [
    position(0, 0, 0, draft_entropy=0.7),
    position(0, 1, 1, "recovered", draft_entropy=0.8),
    position(1, 0, 2),
    position(1, 1, 3),
    bonus(1, 2, 4),
    position(2, 0, 5, "recovered"),
]


def written(tmp_path, records):
    path = tmp_path / "case_025.jsonl"
    path.write_text("\n".join(json.dumps(record) for record in records) + "\n")
    return path


def test_positions_become_rounds(tmp_path):
    frame = read_rounds(written(tmp_path, GOOD)).frame
    assert frame.select("round", "position", "accept_len", "horizon").rows() == [
        (0, 0, 1, 2),
        (1, 2, 2, 2),
        (2, 5, 0, 2),
    ]
    assert frame["truncated"].to_list() == [False, False, False]
    assert frame["prompt_id"].to_list() == frame["request_id"].to_list() == ["case_025"] * 3


def test_the_root_entropy_is_that_of_position_0_and_the_previous_one_of_the_row_before_the_root(tmp_path):
    frame = read_rounds(written(tmp_path, GOOD)).frame
    assert frame["root_entropy"].to_list() == pytest.approx([0.0, 0.2, 0.5])
    # A bonus record holds no entropy, so round 2 has no previous one.
    assert frame["prev_entropy"].to_list() == [None, 0.1, None]


def test_draft_entropies_are_kept_where_all_are_there(tmp_path):
    frame = read_rounds(written(tmp_path, GOOD)).frame
    assert frame["draft_entropy"].to_list() == [0.7, None, None]
    assert frame["draft_entropies"].to_list() == [[0.7, 0.8], None, None]


def test_the_horizon_of_the_bonus_records_is_taken_with_a_note(tmp_path):
    notes = read_with_notes(written(tmp_path, GOOD)).notes
    assert any("every bonus record stands at 2" in note for note in notes)
    assert any("--last-round drop" in note for note in notes)


def test_without_a_bonus_record_the_horizon_must_be_given(tmp_path):
    path = written(tmp_path, GOOD[:2])
    with pytest.raises(LogFormatError, match=r"no bonus record to show it.*--set horizon=6"):
        read_rounds(path)
    assert read_rounds(path, constants={"horizon": 6}).frame["horizon"].to_list() == [6]


def test_bonus_records_that_disagree_need_a_given_horizon_and_keep_their_own(tmp_path):
    records = [*GOOD, position(3, 0, 6), bonus(3, 1, 7)]
    with pytest.raises(LogFormatError, match=r"bonus records show \[1, 2\]"):
        read_rounds(written(tmp_path, records))
    log = read_rounds(written(tmp_path, records), constants={"horizon": 6})
    assert log.frame["horizon"].to_list() == [6, 2, 6, 1]


def test_a_given_horizon_below_a_bonus_record_is_refused(tmp_path):
    with pytest.raises(LogFormatError, match="--set horizon=1, but a bonus record stands at 2"):
        read_rounds(written(tmp_path, GOOD), constants={"horizon": 1})


def test_a_run_that_stops_without_rejection_or_bonus_is_truncated(tmp_path):
    log = read_rounds(written(tmp_path, [*GOOD, position(3, 0, 6)]))
    assert log.frame.select("accept_len", "truncated").row(-1) == (1, True)


def test_two_batches_are_two_requests(tmp_path):
    records = [{**record, "batch": batch} for batch in (0, 1) for record in GOOD]
    frame = read_rounds(written(tmp_path, records)).frame
    assert frame["request_id"].unique(maintain_order=True).to_list() == ["case_025/0", "case_025/1"]


def test_names_may_be_given(tmp_path):
    log = read_rounds(written(tmp_path, GOOD), constants={"prompt_id": "p", "request_id": "r", "task": "t"})
    assert log.frame.select("prompt_id", "request_id", "task").unique().rows() == [("p", "r", "t")]


@pytest.mark.parametrize(
    ("row", "change", "message"),
    [
        (1, {"pos_in_round": 3}, "pos_in_round is 3, expected 1"),
        (0, {"emission_source": "recovered"}, "emission_source is 'recovered', expected accepted_draft"),
        (5, {"emission_source": "magic"}, "emission_source is 'magic'"),
        (1, {"consecutive_accepted_length": 2}, "consecutive_accepted_length is 2, expected 1"),
        (3, {"batch": {}}, "batch is {}, expected a whole number >= 0"),
        (3, {"round": "two"}, "round is 'two', expected a whole number >= 0"),
        (2, {"output_position": -1}, "output_position is -1, expected a whole number >= 0"),
        (2, {"target_entropy": "low"}, "target_entropy is 'low', expected a number"),
        (2, {"target_entropy": -1}, "root_entropy -1.0 is not a finite number of nats"),
    ],
)
def test_records_that_form_no_round_are_named_with_their_line(tmp_path, row, change, message):
    records = [dict(record) for record in GOOD]
    records[row].update(change)
    with pytest.raises(LogFormatError) as caught:
        read_rounds(written(tmp_path, records))
    assert message in str(caught.value)
    assert str(caught.value).endswith(f"case_025.jsonl:{row + 1})")
