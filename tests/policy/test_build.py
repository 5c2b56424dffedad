import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.build import best_first
from policy.candidates import Candidates, Marginals
from policy.errors import TreeError
from tests.policy.tries import closed_sets, path_values, tries

A, B, A1, A2, B1 = 1, 2, 3, 4, 5


def seed_candidates():
    """The numeric tree of seed 000, section 0x06C."""
    return Candidates(
        np.array([9, A, B, A1, A2, B1]), np.array([-1, 0, 0, 1, 1, 2]), np.log([1, 0.6, 0.4, 0.8, 0.2, 0.95])
    )


def test_seed_tree_of_four_is_a_a1_b_b1_with_value_1_86_against_1_60_breadth_first():
    tree = best_first(seed_candidates(), 9, 4)
    assert tree.tokens.tolist() == [9, A, A1, B, B1]
    assert np.exp(tree.log_score[1:]).sum() == pytest.approx(1.86)
    breadth_first = path_values(seed_candidates())[[1, 2, 3, 4]]
    assert breadth_first.sum() == pytest.approx(1.60)


@settings(max_examples=150, deadline=None)
@given(tries(), st.integers(0, 6))
def test_best_first_has_the_greatest_value_of_all_ancestor_closed_sets(candidates, budget):
    size = min(budget, candidates.count)
    values = path_values(candidates)
    best = max(sum(values[node] for node in nodes) for nodes in closed_sets(candidates, size))
    assert np.exp(best_first(candidates, candidates.root, budget).log_score[1:]).sum() == pytest.approx(best)


@settings(max_examples=100, deadline=None)
@given(tries(max_nodes=14, levels=[0.25, 0.5, 1.0]), st.integers(0, 14))
def test_smaller_budgets_are_slices_even_with_ties(candidates, budget):
    whole = best_first(candidates, candidates.root, 14)
    small = best_first(candidates, candidates.root, budget)
    sliced = whole.prefix(budget)
    assert small.tokens.tolist() == sliced.tokens.tolist()
    assert small.parent.tolist() == sliced.parent.tolist()


@settings(max_examples=100, deadline=None)
@given(tries(max_nodes=14, levels=[0.5, 1.0]))
def test_order_is_strict_in_value_then_depth(candidates):
    tree = best_first(candidates, candidates.root, 14)
    keys = list(zip(-tree.log_score[1:], tree.depth[1:], strict=True))
    assert keys == sorted(keys)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_one_pass_marginals_give_the_best_products_over_all_strings(length, width, seed, budget):
    rng = np.random.default_rng(seed)
    probs = np.sort(rng.dirichlet(np.ones(width + 1), size=length)[:, :width], axis=1)[:, ::-1]
    tokens = np.tile(np.arange(width), (length, 1))
    tree = best_first(Marginals(7, tokens, np.log(probs)), 7, budget)
    values = []
    level = [1.0]
    for offset in range(length):
        level = [value * p for value in level for p in probs[offset]]
        values += level
    expected = sorted(values, reverse=True)[:budget]
    np.testing.assert_allclose(np.exp(tree.log_score[1:]), expected)


def test_probability_one_and_half_precision_ties_leave_no_orphan():
    for dtype in (np.float16, np.float32, np.float64):
        top = np.log(np.array([0.999, 0.999, 0.999, 1.0], dtype=dtype)).astype(np.float64)
        candidates = Candidates(np.array([0, 1, 2, 3, 4]), np.array([-1, 0, 1, 2, 3]), np.concatenate([[0.0], top]))
        tree = best_first(candidates, 0, 4)
        assert tree.is_chain
        assert tree.budget == 4


def test_negative_budget_is_refused():
    with pytest.raises(TreeError, match="budget -1"):
        best_first(seed_candidates(), 9, -1)
