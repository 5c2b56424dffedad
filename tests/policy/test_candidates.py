import numpy as np
import pytest

from policy.candidates import Candidates
from policy.errors import TreeError


def two_levels():
    return Candidates(np.array([9, 1, 2, 3]), np.array([-1, 0, 0, 2]), np.log([1.0, 0.3, 0.5, 0.8]), confidence=4.0)


def test_rows_are_sorted_and_the_best_child_is_top():
    candidates = two_levels()
    assert [child.token for child in candidates.row(0)] == [2, 1]
    assert candidates.is_top.tolist() == [False, False, True, True]
    assert candidates.depth.tolist() == [0, 1, 1, 2]


def test_along_reads_conditional_probabilities_and_refuses_strangers():
    assert np.exp(two_levels().along([2, 3])).tolist() == pytest.approx([0.5, 0.8])
    with pytest.raises(TreeError, match="token 7 is no candidate at offset 2"):
        two_levels().along([2, 7])


def test_entropy_counts_the_omitted_mass_as_one_symbol():
    probs = np.array([0.3, 0.5, 0.2])
    assert two_levels().entropy == pytest.approx(-(probs * np.log(probs)).sum())
    assert Candidates.none(3).entropy is None


@pytest.mark.parametrize(
    ("parent", "log_prob", "message"),
    [
        ([-1, 0], [0.0, 0.1], "at most 0"),
        ([-1, 0, 0], np.log([1.0, 0.7, 0.7]), "mass 1.4"),
        ([-1, 1], [0.0, -1.0], "earlier rows"),
        ([-1], [0.0, -1.0], "lengths"),
        ([-1, 0], [-3.0, -1.0], "0 at the root"),
    ],
)
def test_arrays_that_are_no_trie_of_probabilities_are_refused(parent, log_prob, message):
    with pytest.raises(TreeError, match=message):
        Candidates(np.arange(len(log_prob)), np.array(parent), np.asarray(log_prob))
