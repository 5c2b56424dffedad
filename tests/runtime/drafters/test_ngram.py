import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lawfit.errors import LawfitError
from policy.build import best_first
from runtime.drafters.ngram import NgramDrafter


def spine(candidates):
    tree = best_first(candidates, candidates.root, 64)
    return tree.tokens[tree.spine].tolist()


def test_the_longest_match_leads_and_its_length_is_the_confidence():
    text = [1, 2, 3, 4, 5, 9, 3, 7, 8, 1, 2, 3]
    candidates = NgramDrafter(min_match=1, depth=2).propose(text, 0, 10)
    assert candidates.confidence == 3
    assert spine(candidates) == [4, 5]
    assert {child.token for child in candidates.row(0)} == {4, 7}


def test_no_match_of_the_least_length_offers_nothing():
    assert NgramDrafter(min_match=2).propose([1, 2, 3, 9, 3], 0, 10).count == 0
    assert NgramDrafter(min_match=2).propose([1], 0, 10).count == 0


def test_probability_rises_with_match_length():
    def first(length):
        text = [*range(10), 40, *range(10 - length, 10)]
        return NgramDrafter(min_match=1, depth=6).propose(text, 0, 10).along([40])[0]

    assert first(1) < first(2) < first(5)


def test_a_match_in_the_prompt_promises_a_longer_run_than_one_in_the_output():
    text = [*range(10), 40, 41, 42, 43, 8, 9]
    inside, outside = (
        np.array(NgramDrafter().propose(text, prompt_len, 10).along([40, 41, 42, 43])) for prompt_len in (14, 0)
    )
    assert inside[0] == outside[0]
    assert (inside[1:] > outside[1:]).all()
    assert (np.diff(inside) > 0).all()
    np.testing.assert_allclose(outside, outside[0])


def test_agreeing_matches_add_their_weight():
    once = NgramDrafter().propose([1, 2, 5, 0, 1, 2], 0, 5).along([5])[0]
    twice = NgramDrafter().propose([1, 2, 5, 0, 1, 2, 5, 9, 1, 2], 0, 5).along([5])[0]
    assert twice > once


def test_a_loop_is_continued_from_its_own_copy():
    candidates = NgramDrafter(depth=9).propose([7, 8, 7, 8, 7, 8], 0, 9)
    assert spine(candidates) == [7, 8, 7, 8, 7, 8, 7, 8, 7]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(0, 12), st.integers(1, 3))
def test_offers_are_bounded_and_every_path_occurs_behind_a_match(text, max_depth, min_match):
    drafter = NgramDrafter(min_match=min_match, max_nodes=20, depth=8)
    candidates = drafter.propose(text, 0, max_depth)
    assert candidates.root == text[-1]
    assert candidates.count <= 20
    assert candidates.depth.max() <= min(max_depth, 8)
    for node in np.flatnonzero(candidates.depth == 1):
        suffix = [*text[-min_match:], int(candidates.tokens[node])]
        windows = [text[k : k + len(suffix)] for k in range(len(text))]
        assert suffix in windows


@pytest.mark.parametrize(
    "settings_", [{"min_match": 0}, {"min_match": 5, "max_match": 4}, {"matches": 0}, {"depth": 0}]
)
def test_settings_without_a_meaning_are_refused(settings_):
    with pytest.raises(LawfitError, match="expected"):
        NgramDrafter(**settings_)
