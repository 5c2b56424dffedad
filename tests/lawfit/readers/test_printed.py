"""Counts from printed survival rates: against the counts that were printed."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lawfit.errors import LogFormatError
from lawfit.readers.printed import Span, find_drafts, recover

HISTOGRAM = st.lists(st.integers(0, 60), min_size=2, max_size=7).filter(lambda counts: sum(counts) > 0)


def printed(counts, digits=3):
    """Print a histogram as an engine does: survival rates, drafts, accepted tokens."""
    drafts = sum(counts)
    survivors = np.cumsum(counts[::-1])[::-1][1:]
    return [f"{count / drafts:.{digits}f}" for count in survivors], drafts, int(survivors.sum())


@given(counts=HISTOGRAM)
def test_counts_of_a_small_window_come_back_exactly(counts):
    found = recover(*printed(counts), "here")
    assert [found.counts[j] for j in range(len(counts))] == counts
    assert found.slack == 0


@given(counts=HISTOGRAM, scale=st.integers(1, 5000), digits=st.integers(1, 3))
@settings(max_examples=200)
def test_of_a_large_window_drafts_and_accepted_are_exact_and_survivors_within_the_slack(counts, scale, digits):
    counts = [count * scale + j % 2 for j, count in enumerate(counts)]
    rates, drafts, accepted = printed(counts, digits)
    found = recover(rates, drafts, accepted, "here")
    assert min(found.counts.values()) >= 0
    assert sum(found.counts.values()) == drafts
    assert sum(j * count for j, count in found.counts.items()) == accepted
    ours = np.cumsum([found.counts[j] for j in range(len(counts))][::-1])[::-1]
    theirs = np.cumsum(counts[::-1])[::-1]
    assert np.abs(ours - theirs).max() <= found.slack
    for j, text in enumerate(rates):
        span = Span.of(text)
        assert span.low <= ours[j + 1] / drafts <= span.high


@pytest.mark.parametrize(("drafts", "rates"), [(37, ["0.5", "0.2"]), (64, ["0.7", "0.7"]), (20, ["1.0", "0.0"])])
def test_the_slack_is_the_width_that_enumeration_finds(drafts, rates):
    spans = [Span.of(text) for text in rates]
    fits = [
        pair
        for pair in product(range(drafts + 1), repeat=2)
        if pair[0] >= pair[1] and all(s.low <= n / drafts <= s.high for n, s in zip(pair, spans, strict=True))
    ]
    for accepted in {sum(pair) for pair in fits}:
        same = np.array([pair for pair in fits if sum(pair) == accepted])
        found = recover(rates, drafts, accepted, "here")
        assert (found.counts[1] + found.counts[2], found.counts[2]) in [tuple(pair) for pair in same]
        assert found.slack >= np.ptp(same, axis=0).max()


@pytest.mark.parametrize(
    ("rates", "drafts", "accepted", "message"),
    [
        (["0.443", "0.171"], 70, 60, "accept 43 to 43 tokens, the line says 60"),
        (["0.443", "0.571"], 70, 43, "0.443 at position 1 is no share of 70 drafts, or above that at an earlier"),
        (["0.443"], 3, 1, "is no share of 3 drafts"),
        (["1.2"], 10, 10, "is no share of 10 drafts"),
    ],
)
def test_a_print_that_contradicts_itself_gives_both_numbers(rates, drafts, accepted, message):
    with pytest.raises(LogFormatError, match=message):
        recover(rates, drafts, accepted, "here")


@given(counts=HISTOGRAM)
def test_full_drafts_are_counted_by_their_tokens(counts):
    rates, drafts, accepted = printed(counts)
    horizon = len(rates)
    mean = f"{1 + accepted / drafts:.2f}"
    assert find_drafts(rates, mean, accepted, drafts * horizon, horizon, "here") == drafts
    assert find_drafts(rates, None, accepted, drafts * horizon, horizon, "here") == drafts


@pytest.mark.parametrize(
    ("mean", "accepted", "drafted"), [("3.50", 141, 435), ("2.62", 141, 5000), ("1.00", 141, 435), ("2.62", 0, 435)]
)
def test_no_number_of_drafts_may_fit(mean, accepted, drafted):
    with pytest.raises(LogFormatError, match=f"do not fit {accepted} accepted of {drafted} drafted"):
        find_drafts(["0.782", "0.494", "0.230", "0.080", "0.034"], mean, accepted, drafted, 5, "here")
