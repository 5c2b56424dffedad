import math
from time import perf_counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from policy.build import best_first
from policy.candidates import Candidates
from policy.errors import TreeError
from policy.mixture import evidence, mix
from tests.policy.tries import closed_sets, path_values, tries

ROOT = 7


@st.composite
def offers(draw, max_nodes=9):
    """Tries over few tokens, so that two of them share many paths."""
    trie = draw(tries(max_nodes))
    tokens, taken = [ROOT], {}
    for node in range(1, trie.count + 1):
        parent = int(trie.parent[node])
        free = [token for token in range(max_nodes) if token not in taken.setdefault(parent, set())]
        tokens.append(free[draw(st.integers(0, min(2, len(free) - 1)))])
        taken[parent].add(tokens[-1])
    passes = draw(st.integers(0, 5))
    return Candidates(np.array(tokens), trie.parent, trie.log_prob, draw(st.floats(0, 16)), passes)


def values_by_path(offer):
    """Map the tokens of every path to its value."""
    paths = [()]
    for node in range(1, offer.count + 1):
        paths.append((*paths[offer.parent[node]], int(offer.tokens[node])))
    return dict(zip(paths, path_values(offer), strict=True))


WEIGHTS = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0]))


@settings(max_examples=200, deadline=None)
@given(offers(), offers(), WEIGHTS)
def test_path_values_are_the_weighted_sum_of_both(first, second, weight):
    one, two = values_by_path(first), values_by_path(second)
    expected = {path: weight * one.get(path, 0) + (1 - weight) * two.get(path, 0) for path in one | two}
    found = values_by_path(mix(first, second, weight))
    assert len(found) == mix(first, second, weight).count + 1  # no path twice
    for path, value in found.items():
        assert value == pytest.approx(expected.pop(path), rel=1e-9)
    assert all(value < 1e-300 for value in expected.values())


@settings(max_examples=200, deadline=None)
@given(offers(), offers(), WEIGHTS)
def test_siblings_sum_to_at_most_one_and_passes_add_up(first, second, weight):
    mixed = mix(first, second, weight)
    for node in range(mixed.count + 1):
        assert sum(math.exp(child.log_prob) for child in mixed.row(node)) <= 1 + 1e-9
    assert mixed.passes == first.passes + second.passes
    assert mixed.confidence == first.confidence


@settings(max_examples=60, deadline=None)
@given(offers(5), offers(5), st.floats(0.01, 0.99))
def test_every_prefix_is_the_best_set_of_its_size(first, second, weight):
    mixed = mix(first, second, weight)
    values, tree = path_values(mixed), best_first(mixed, ROOT, mixed.count)
    taken = np.exp(tree.log_score)
    for size in range(1, mixed.count + 1):
        best = max(values[list(chosen)].sum() for chosen in closed_sets(mixed, size))
        assert taken[1 : size + 1].sum() == pytest.approx(best, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(offers(), offers(), st.floats(0.01, 0.99))
def test_the_order_of_both_does_not_matter(first, second, weight):
    assert values_by_path(mix(first, second, weight)) == pytest.approx(
        values_by_path(mix(second, first, 1 - weight)), rel=1e-9, abs=1e-15
    )


@given(offers(), offers())
def test_a_weight_of_nought_or_one_leaves_one_offer(first, second):
    assert values_by_path(mix(first, second, 1.0)) == pytest.approx(values_by_path(first))
    assert values_by_path(mix(first, second, 0.0)) == pytest.approx(values_by_path(second))


def test_what_one_alone_offers_counts_less_and_what_follows_it_is_its_own():
    lookup = Candidates(np.array([ROOT, 1, 2]), np.array([-1, 0, 1]), np.log([1.0, 0.8, 0.9]))
    head = Candidates(np.array([ROOT, 3, 1]), np.array([-1, 0, 0]), np.log([1.0, 0.6, 0.2]))
    mixed = mix(lookup, head, 0.5)
    assert np.exp(mixed.along([1, 2])) == pytest.approx([0.5, 0.36 / 0.5])
    assert np.exp(mixed.along([3])) == pytest.approx([0.3])


def test_long_paths_do_not_underflow():
    count = 400
    deep = Candidates(np.full(count, ROOT), np.arange(-1, count - 1), np.where(np.arange(count) == 0, 0.0, -5.0))
    assert mix(deep, Candidates.none(ROOT), 0.5).log_prob[2:] == pytest.approx(np.full(count - 2, -5.0))


def test_a_token_of_probability_nought_is_left_out_with_all_below_it():
    never = Candidates(np.array([ROOT, 1, 2]), np.array([-1, 0, 1]), np.array([0.0, -np.inf, -0.1]))
    assert mix(never, Candidates.none(ROOT), 0.5).count == 0


@pytest.mark.parametrize("weight", [-0.1, 1.1, math.nan])
def test_weights_that_are_no_probabilities_are_refused(weight):
    with pytest.raises(TreeError, match="expected a probability"):
        mix(Candidates.none(ROOT), Candidates.none(ROOT), weight)


def test_offers_behind_different_roots_are_refused():
    with pytest.raises(TreeError, match="roots 1 and 2"):
        mix(Candidates.none(1), Candidates.none(2), 0.5)


@settings(max_examples=200, deadline=None)
@given(offers(), offers())
def test_evidence_is_a_probability_of_one_event(first, second):
    """Over all that could come next, the evidence of each sums to 1."""
    assume(first.count)
    assume(second.count)
    next_tokens = {child.token for offer in (first, second) for child in offer.row(0)}
    total = np.zeros(2)
    for token in next_tokens | {-1}:
        total += evidence(first, second, [token])
    assert total == pytest.approx([1.0, 1.0], abs=2e-6)


def test_evidence_follows_the_run_until_one_has_lost_it_or_ends():
    lookup = Candidates(np.array([ROOT, 1, 2, 3]), np.array([-1, 0, 1, 2]), np.log([1.0, 0.8, 0.5, 0.5]))
    head = Candidates(np.array([ROOT, 1, 4, 2]), np.array([-1, 0, 0, 1]), np.log([1.0, 0.6, 0.3, 0.4]))
    assert evidence(lookup, head, [1]) == pytest.approx((0.8, 0.6))
    assert evidence(lookup, head, [1, 2]) == pytest.approx((0.4, 0.24))
    # The head ends there: what the lookup says of the third token tells nothing of which is right.
    assert evidence(lookup, head, [1, 2, 3]) == pytest.approx((0.4, 0.24))
    assert evidence(lookup, head, [4, 9]) == pytest.approx((0.0, 0.3))
    assert evidence(lookup, head, [9]) == pytest.approx((0.2, 0.1))
    assert evidence(lookup, head, [1, 9]) == pytest.approx((0.8 * 0.5, 0.6 * 0.6))
    assert evidence(lookup, Candidates.none(ROOT), [1]) == (1.0, 1.0)


def test_64_and_64_nodes_mix_in_less_than_a_millisecond():
    rng = np.random.default_rng(0)

    def offer():
        parent = np.array([-1, *(int(rng.integers(max(0, node - 8), node)) for node in range(1, 65))])
        return Candidates(np.append(ROOT, rng.integers(0, 10**6, 64)), parent, np.where(parent < 0, 0.0, -4.2))

    first, second = offer(), offer()
    times = []
    for _ in range(50):
        start = perf_counter()
        mix(first, second, 0.4)
        times.append(perf_counter() - start)
    assert min(times) < 1e-3
