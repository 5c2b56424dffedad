"""llama.cpp: lines of requests, totals, adaptive lines, and sums that are refused."""

import pytest

from lawfit.errors import LogFormatError
from lawfit.readers import read_rounds, read_with_notes

SLOT = "0.06.8 I slot print_timing: id  1 | task {} | "
LINE = (
    "draft acceptance = 0.64479 (  167 accepted /   259 generated), mean acceptance length =  2.92, "
    "acceptance rate per position = (0.805, 0.632, 0.483)"
)
TOTALS = (
    "I statistics        draft-mtp: #calls(b,g,a) =    2    {0}    {0}, #gen drafts =    {0}, #acc drafts =   109, "
    "#gen tokens =    {1}, #acc tokens =   {2}, #mean acc len = 3.64, #acc rate/pos = ({3}), dur(b,g,a) = 0.0, 8.2 ms"
)
ADAPTIVE = (
    "I spec accept: adaptive draft depth seq 0: 7 -> 6 (n_draft={}, n_accepted={}, n_cur=6, cur_generated={}, x=1)"
)


def counts(frame):
    return frame.select("accept_len", "horizon", "count").rows()


def test_a_line_is_the_histogram_of_its_request(write):
    """87 drafts: 1 + 167 / 87 is 2.92, and 70, 55 and 42 of them print as .805, .632 and .483."""
    reading = read_with_notes(write(f"srv up\n{SLOT.format(0)}{LINE}\n{SLOT.format(3)}{LINE}\n"))
    frame = reading.log.frame
    assert counts(frame)[:4] == [(0, 3, 17), (1, 3, 15), (2, 3, 13), (3, 3, 42)]
    assert frame["request_id"].unique(maintain_order=True).to_list() == ["task 0", "task 3"]
    assert any("at most 4 of 174 rounds may be a whole short draft" in note for note in reading.notes)


def test_a_task_number_that_recurs_is_another_request(write):
    text = f"{SLOT.format(0)}{LINE}\n" * 2
    assert read_rounds(write(text)).frame["request_id"].unique(maintain_order=True).to_list() == [
        "task 0",
        "task 0 (2)",
    ]


def test_a_deeper_horizon_may_be_given(write):
    line = LINE.replace("259 gen", "345 gen")
    with pytest.raises(LogFormatError, match="do not fit 167 accepted of 345 drafted"):
        read_rounds(write(line))
    assert read_rounds(write(line), constants={"horizon": 4}).frame["horizon"].unique().to_list() == [4]


def test_drafts_of_many_lengths_are_refused(write):
    with pytest.raises(LogFormatError, match=r"not 3 in each: up to \d+ rounds .*--spec-draft-p-min 0"):
        read_rounds(write(LINE.replace("259 gen", "220 gen")))


def test_a_line_of_a_request_without_drafts_gives_no_rows(write):
    idle = "draft acceptance = 0.00000 (    0 accepted /     0 generated), mean acceptance length =  1.00"
    assert len(read_rounds(write(f"{idle}\n{LINE}\n"))) == 4


def test_the_last_totals_of_each_drafter_count(write):
    lines = [
        TOTALS.format(100, 400, 264, "0.800, 0.700, 0.600, 0.540"),
        TOTALS.format(134, 536, 354, "0.813, 0.716, 0.619, 0.493"),
    ]
    frame = read_rounds(write("\n".join(lines) + "\n")).frame
    assert counts(frame) == [(0, 4, 25), (1, 4, 13), (2, 4, 13), (3, 4, 17), (4, 4, 66)]
    assert frame["drafter"].unique().to_list() == ["draft-mtp"]
    with pytest.raises(LogFormatError, match="fell from 134 to 100 drafts at line 2: the server was restarted"):
        read_rounds(write("\n".join(lines[::-1]) + "\n"))


@pytest.mark.parametrize(
    "text",
    [
        "draft acceptance rate = 0.57576 (  171 accepted /   297 generated)\n",
        "draft acceptance = 0.57576 (  171 accepted /   297 generated), mean len =  2.52\n",
        "n_draft   = 8\nn_drafted = 297\nn_accept  = 171\naccept    = 57.576%\n",
    ],
)
def test_sums_without_positions_are_reported_and_refused(write, text):
    with pytest.raises(LogFormatError, match="171 tokens accepted of 297 drafted: sums without the number of rounds"):
        read_rounds(write(text))


def test_an_adaptive_line_is_a_round_with_its_own_horizon(write):
    text = "\n".join([ADAPTIVE.format(7, 4, 100), ADAPTIVE.format(6, 6, 106), ADAPTIVE.format(7, 0, 113)]) + "\n"
    reading = read_with_notes(write(text))
    assert reading.log.frame.select("request_id", "horizon", "accept_len").rows() == [
        ("seq 0", 7, 4),
        ("seq 0", 6, 6),
        ("seq 0", 7, 0),
    ]
    assert any("every round between the lines is there" in note for note in reading.notes)


def test_adaptive_lines_that_leave_rounds_out_say_that_they_are_chosen_by_their_outcome(write):
    text = "\n".join([ADAPTIVE.format(7, 4, 11029), ADAPTIVE.format(6, 6, 11083)]) + "\n"
    notes = read_with_notes(write(text)).notes
    assert any("the lines show 6 of 54 drafted tokens" in note and "is biased" in note for note in notes)


@pytest.mark.parametrize(("drafted", "accepted"), [(7, 8), ("x", 1)])
def test_an_adaptive_line_that_cannot_be_is_refused(write, drafted, accepted):
    with pytest.raises(LogFormatError, match=r"log\.txt:1\)"):
        read_rounds(write(f"{ADAPTIVE.format(drafted, accepted, 1)}\n{ADAPTIVE.format(7, 4, 9)}\n"))


@pytest.mark.parametrize("nested", [False, True])
def test_timings_are_reported_and_refused(write, nested):
    timings = {"draft_n": 15, "draft_n_accepted": 14, "predicted_n": 20}
    response = {"choices": [], "timings": timings}
    content = {"runs": [{"records": [timings, {"draft_n": None, "predicted_n": 9}]}]} if nested else response
    with pytest.raises(
        LogFormatError,
        match=r"14 tokens accepted of 15 drafted, 2\.3333 accepted a step \(bonus excluded\) over 6 steps",
    ):
        read_rounds(write(content, "r.json"))


@pytest.mark.parametrize(
    ("timings", "message"),
    [
        ({"draft_n": 5, "draft_n_accepted": 6}, "6 draft tokens accepted of 5 drafted"),
        ({"draft_n": 9, "draft_n_accepted": 6, "predicted_n": 5}, "predicted_n is 5, below draft_n_accepted 6"),
        ({"predicted_n": 5}, "timings of llama.cpp without draft_n: no speculation"),
        ({"draft_n": 9, "draft_n_accepted": 6}, r"6 tokens accepted of 9 drafted: sums"),
    ],
)
def test_timings_are_checked_before_they_are_reported(write, timings, message):
    with pytest.raises(LogFormatError, match=message):
        read_rounds(write({"timings": timings, "choices": []}, "r.json"))
