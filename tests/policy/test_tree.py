import numpy as np
import pytest
from hypothesis import given, settings

from policy.build import best_first
from policy.errors import TreeError
from policy.tree import DraftTree, chain
from tests.policy.tries import tries


def tree_of(candidates):
    return best_first(candidates, candidates.root, 20)


@settings(max_examples=100, deadline=None)
@given(tries(max_nodes=14))
def test_mask_is_the_ancestor_relation_and_depth_counts_it(candidates):
    tree = tree_of(candidates)
    for row in range(tree.rows):
        ancestors, at = {row}, row
        while tree.parent[at] >= 0:
            at = int(tree.parent[at])
            ancestors.add(at)
        assert set(np.flatnonzero(tree.mask[row])) == ancestors
        assert tree.depth[row] == len(ancestors) - 1


@settings(max_examples=100, deadline=None)
@given(tries(max_nodes=14))
def test_every_prefix_is_a_valid_tree_and_paths_cover_all_rows(candidates):
    tree = tree_of(candidates)
    for budget in range(tree.budget + 1):
        small = tree.prefix(budget)
        assert small.budget == budget
        assert set(np.concatenate(small.paths)) == set(range(small.rows))
        assert all(path[0] == 0 for path in small.paths)


@settings(max_examples=100, deadline=None)
@given(tries(max_nodes=14))
def test_spine_follows_the_most_probable_child(candidates):
    tree = tree_of(candidates)
    row = 0
    for best in tree.spine.tolist():
        children = [r for r in range(1, tree.rows) if tree.parent[r] == row]
        assert tree.log_score[best] == max(tree.log_score[children])
        row = best
    assert row not in tree.parent[1:]


def test_spine_len_counts_the_run_before_the_first_sibling():
    tree = DraftTree(np.array([0, 1, 2, 3, 4]), np.array([-1, 0, 1, 0, 2]), np.array([0, -0.1, -0.2, -0.3, -0.4]))
    assert tree.spine.tolist() == [1, 2, 4]
    assert tree.spine_len([1, 2]) == 2
    assert tree.spine_len([3]) == 0
    assert tree.spine_len([]) == 0


def test_a_chain_is_a_chain_and_a_fork_is_not():
    assert chain(5, np.array([1, 2, 3]), np.log([0.5, 0.5, 0.5])).is_chain
    fork = DraftTree(np.array([0, 1, 2]), np.array([-1, 0, 0]), np.array([0.0, -1.0, -2.0]))
    assert not fork.is_chain
    assert DraftTree.root_only(3).is_chain
    assert DraftTree.root_only(3).horizon == 0


@pytest.mark.parametrize(
    ("tokens", "parent", "score", "message"),
    [
        ([1, 2], [-1], [0.0, 0.0], "lengths 2, 1 and 2"),
        ([], [], [], "lengths 0, 0 and 0"),
        ([1, 2], [0, 0], [0.0, -1.0], "row 0 has parent 0"),
        ([1, 2, 3], [-1, 2, 0], [0.0, -1.0, -1.0], "row 1 has parent 2"),
        ([1, 2], [-1, 0], [0.0, 0.5], "rises from a parent"),
        ([1, 2], [-1, 0], [0.0, float("nan")], "NaN"),
        ([1, 2, 2], [-1, 0, 0], [0.0, -1.0, -1.0], "same token"),
        ([-1, 2], [-1, 0], [0.0, -1.0], "not negative"),
        ([1, 2], [-1, 0], [5.0, -1.0], "root has log_score 0"),
    ],
)
def test_arrays_that_are_no_tree_are_refused(tokens, parent, score, message):
    with pytest.raises(TreeError, match=message):
        DraftTree(np.array(tokens, dtype=np.int64), np.array(parent, dtype=np.int64), np.array(score))
