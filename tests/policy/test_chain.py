import numpy as np
import pytest

from policy.candidates import Candidates
from policy.chain import FixedChain, spine
from policy.controller import FixedBudget
from policy.errors import TreeError

TRIE = Candidates(
    np.array([9, 1, 2, 3, 4, 5]), np.array([-1, 0, 0, 1, 2, 4]), np.log(np.array([1.0, 0.4, 0.5, 0.9, 0.8, 0.7]))
)


def test_the_spine_follows_the_most_probable_child():
    tree = spine(TRIE, 10)
    assert tree.tokens.tolist() == [9, 2, 4, 5]
    assert tree.is_chain
    assert np.allclose(np.exp(tree.log_score), [1.0, 0.5, 0.4, 0.28])


def test_a_fixed_chain_is_cut_at_its_depth_and_ends_with_the_offer():
    assert FixedChain(2).start().decide(TRIE, 0.0).tree.tokens.tolist() == [9, 2, 4]
    assert FixedChain(0).start().decide(TRIE, 0.0).tree.budget == 0
    assert FixedChain(4).start().decide(Candidates.none(3), 0.0).tree.tokens.tolist() == [3]


@pytest.mark.parametrize("value", [-1, 2.5, True, None, "3"])
def test_what_is_no_size_is_refused(value):
    for policy in (FixedChain, FixedBudget):
        with pytest.raises(TreeError, match="expected a whole number"):
            policy(value)
