"""Histograms of rounds: their bound of cut drafts against enumeration, and the words of their notes."""

import pytest

from lawfit.errors import LogFormatError
from lawfit.readers.histogram import check_one_horizon, cut_bound, emitted, rows, tokens_note


@pytest.mark.parametrize("lengths", [(0, 0, 1, 2), (1, 1, 2), (2, 2, 0), (3, 1, 1), (0, 0)])
def test_the_bound_is_the_most_rounds_that_any_cut_of_the_drafts_could_have_ended(lengths):
    horizon = 3
    counts = {length: lengths.count(length) for length in lengths}
    for undrafted in range(7):
        worst = 0
        # Each round drafted max(1, its length) to 3 tokens; a round whose draft ended where it did is one of the bound.
        for drawn in all_drafts(lengths, horizon):
            if sum(horizon - draft for draft in drawn) <= undrafted:
                ended = sum(draft == length < horizon for draft, length in zip(drawn, lengths, strict=True))
                worst = max(worst, ended)
        assert cut_bound(counts, undrafted, horizon) == worst


def all_drafts(lengths, horizon):
    if not lengths:
        return [()]
    first = range(max(1, lengths[0]), horizon + 1)
    return [(draft, *others) for draft in first for others in all_drafts(lengths[1:], horizon)]


def test_more_drafted_than_the_horizon_allows_is_refused():
    with pytest.raises(LogFormatError, match=r"10 tokens drafted in 3 steps of at most 3 \(here\)"):
        check_one_horizon({0: 3}, 10, 3, "here", "cure")


def test_few_cut_drafts_are_bounded_and_many_refused():
    assert check_one_horizon({0: 90, 2: 10}, 297, 3, "here", "cure") == 3
    with pytest.raises(LogFormatError, match="not 3 in each: up to 10 rounds may have accepted a shorter draft whole"):
        check_one_horizon({0: 90, 2: 10}, 290, 3, "here", "cure")
    assert check_one_horizon({0: 100}, 200, 3, "here", "cure", most_cut=0.0) == 0  # a miss at the first offset is one


def test_a_row_stands_for_the_rounds_of_a_length_that_occurred():
    made = rows({0: 2, 1: 0, 3: 1}, 3, request_id="r")
    assert made == [
        {"request_id": "r", "horizon": 3, "accept_len": 0, "count": 2},
        {"request_id": "r", "horizon": 3, "accept_len": 3, "count": 1},
    ]
    assert emitted(made) == 6


@pytest.mark.parametrize(
    ("differences", "words"),
    [
        ([], None),
        ([0, 0], "equal the tokens of 2 requests"),
        ([1], "differ by +1 tokens (completion less rounds) from 1 request; more: tokens of the prompt's own pass"),
        ([-2, 1], "differ by -2 to +1 tokens"),
        ([-1], "fewer: the last round was cut after it was counted"),
    ],
)
def test_the_last_round_convention_is_told(differences, words):
    notes = tokens_note("f", differences)
    assert notes == [] if words is None else words in notes[0]
