import numpy as np

from policy.tree import DraftTree
from runtime.walk import walk

# root -> 5 -> 7, root -> 6
TREE = DraftTree(np.array([1, 5, 6, 7]), np.array([-1, 0, 0, 1]), np.array([0.0, -0.1, -0.2, -0.3]))
NEVER = frozenset()


def test_the_walk_descends_along_the_targets_choices_and_ends_with_the_frontier():
    outcome = walk(TREE, [5, 7, 0, 9].__getitem__, limit=10, eos=NEVER)
    assert (outcome.rows, outcome.tokens, outcome.frontier) == ((0, 1, 3), (5, 7), 9)
    assert outcome.emitted == (5, 7, 9)
    assert not outcome.truncated


def test_a_miss_at_the_root_emits_the_targets_own_token():
    outcome = walk(TREE, [8, 7, 0, 9].__getitem__, limit=10, eos=NEVER)
    assert (outcome.rows, outcome.accept_len, outcome.emitted) == ((0,), 0, (8,))


def test_an_accepted_end_token_ends_the_run_without_a_frontier():
    outcome = walk(TREE, [5, 7, 0, 9].__getitem__, limit=10, eos=frozenset({5}))
    assert (outcome.tokens, outcome.frontier, outcome.truncated) == ((5,), None, True)


def test_the_limit_cuts_the_run():
    outcome = walk(TREE, [5, 7, 0, 9].__getitem__, limit=2, eos=NEVER)
    assert (outcome.tokens, outcome.frontier, outcome.truncated) == ((5, 7), None, True)
    assert walk(TREE, [5, 0, 0, 9].__getitem__, limit=2, eos=NEVER).emitted == (5, 0)


def test_an_end_token_as_frontier_is_a_miss_not_a_cut():
    outcome = walk(TREE, [5, 2, 0, 9].__getitem__, limit=10, eos=frozenset({2}))
    assert (outcome.tokens, outcome.frontier, outcome.truncated) == ((5,), 2, False)
