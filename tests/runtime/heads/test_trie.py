"""EAGLE-2's expansion (seed 000, 0x06B and 0x06C)."""

import math

import numpy as np
import pytest

pytest.importorskip("torch", reason="the runtime needs torch")

from policy.build import best_first
from policy.errors import TreeError
from runtime.heads.trie import Expansion, Trie, expand, likeliest

A, B, A1, A2, B1 = 1, 2, 3, 4, 5
EXAMPLE = {0: [(0.6, A), (0.4, B)], A: [(0.8, A1), (0.2, A2)], B: [(0.95, B1)]}


def grow(table, seen=None):
    """A drafter whose alternatives depend on the last token only."""

    def alternatives(trie, nodes):
        if seen is not None:
            seen.append([trie.tokens[node] for node in nodes])
        rows = [table.get(trie.tokens[node], []) for node in nodes]
        return [[(math.log(prob) if prob else -math.inf, token) for prob, token in row] for row in rows]

    return alternatives


def random_grow(seed):
    """A drafter with rounded probabilities, so that path values tie often, below random words."""

    def alternatives(trie, nodes):
        rng = np.random.default_rng((seed, len(trie.tokens)))
        rows = []
        for _ in nodes:
            count = int(rng.integers(0, 5))
            probs = np.floor(10 * rng.dirichlet(np.ones(count + 1))[:count]) / 10
            rows.append([(math.log(prob), int(k)) for k, prob in enumerate(probs) if prob])
        return rows

    return alternatives


def grow_by_path(seed):
    """A drafter whose alternatives depend on the path alone, with rounded probabilities."""

    def alternatives(trie, nodes):
        rows = []
        for node in nodes:
            rng = np.random.default_rng((seed, *trie.path(node)))
            probs = np.floor(20 * rng.dirichlet(np.ones(5))[:4]) / 20
            rows.append([(math.log(prob), k + 1) for k, prob in enumerate(probs) if prob])
        return rows

    return alternatives


@pytest.mark.parametrize("seed", range(30))
def test_what_cannot_be_among_the_wanted_is_not_expanded_and_the_best_stay_the_same(seed):
    asked = {None: 0, 12: 0}
    trees = []
    for wanted in asked:
        alternatives = grow_by_path(seed)

        def counted(trie, nodes, wanted=wanted, alternatives=alternatives):
            asked[wanted] += len(nodes)
            return alternatives(trie, nodes)

        trees.append(best_first(expand(0, Expansion(6, 40, 4), 9, counted, wanted), 0, 12))
    assert np.array_equal(trees[0].tokens, trees[1].tokens)
    assert np.array_equal(trees[0].parent, trees[1].parent)
    assert asked[12] < asked[None]


def test_the_numeric_example_of_the_seed_comes_out():
    offer = expand(0, Expansion(depth=2, width=2, children=2), 9, grow(EXAMPLE))
    assert offer.tokens.tolist() == [0, A, B, A1, A2, B1]
    assert offer.passes == 2
    assert best_first(offer, 0, 4).tokens[1:].tolist() == [A, A1, B, B1]
    full = best_first(offer, 0, 9)
    assert full.tokens[1:].tolist() == [A, A1, B, B1, A2]
    assert np.exp(full.log_score[1:]) == pytest.approx([0.60, 0.48, 0.40, 0.38, 0.12])


def test_the_best_nodes_of_the_newest_level_are_expanded():
    seen = []
    table = {0: [(0.5, 1), (0.3, 2), (0.2, 3)], 1: [(0.1, 4), (0.1, 5)], 2: [(0.9, 6)]}
    expand(0, Expansion(depth=3, width=2, children=3), 9, grow(table, seen))
    assert seen == [[0], [1, 2], [6, 4]]  # 0.27, then 0.05, whose tie with 5 goes to the earlier


@pytest.mark.parametrize("seed", range(40))
def test_best_first_takes_the_values_that_the_seeds_sort_takes(seed):
    expansion = Expansion(4, 3, 5)
    offer = expand(9, expansion, 9, random_grow(seed))
    assert offer.count <= expansion.max_nodes
    assert offer.depth.max() <= offer.passes <= 4
    value = [0.0]
    for node in range(1, offer.count + 1):
        value.append(value[offer.parent[node]] + offer.log_prob[node])
    ranked = sorted(range(1, offer.count + 1), key=lambda node: (-value[node], offer.depth[node], node))[:8]
    assert {int(offer.parent[node]) for node in ranked} - {0} <= set(ranked)
    assert sorted(best_first(offer, 9, 8).log_score[1:]) == pytest.approx(sorted(np.array(value)[ranked]))


def test_a_node_sees_its_ancestors_and_itself_in_the_order_of_expansion():
    shown = []

    def alternatives(trie, nodes):
        shown.append(trie.visible(nodes).tolist())
        return grow(EXAMPLE | {B1: [(0.5, 7)], A1: [(0.5, 8)]})(trie, nodes)

    expand(0, Expansion(depth=3, width=2, children=2), 9, alternatives)
    assert shown == [
        [[True]],
        [[True, True, False], [True, False, True]],
        [[True, True, False, True, False], [True, False, True, False, True]],
    ]


def test_depth_nought_and_a_drafter_with_nothing_offer_nothing():
    assert expand(4, Expansion(0), 9, grow(EXAMPLE)).count == 0
    assert expand(4, Expansion(3), 0, grow(EXAMPLE)).count == 0
    silent = expand(4, Expansion(3), 9, grow({}))
    assert (silent.count, silent.passes) == (0, 1)


def test_a_probability_of_nought_is_kept_and_ranked_last():
    offer = expand(0, Expansion(2, 1, 2), 9, grow({0: [(0.0, 1), (0.3, 2)], 2: [(0.5, 3)]}))
    assert offer.log_prob[1] == -math.inf
    assert offer.tokens[offer.depth == 2].tolist() == [3]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([(math.nan, 1)], "log probability nan"),
        ([(0.2, 1)], "log probability 0.2"),
        ([(math.inf, 1)], "log probability inf"),
        ([(-1.0, 1), (-2.0, 1)], "alternative 1 below node 0 comes twice"),
        ([(-0.5, 1), (-0.6, 2)], "mass 1.15"),
    ],
)
def test_alternatives_that_are_no_probabilities_are_refused(row, message):
    with pytest.raises(TreeError, match=message):
        Trie(0).add(0, row)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"depth": -1}, "depth"),
        ({"depth": 2.0}, "depth"),
        ({"depth": True}, "depth"),
        ({"width": 0}, "width"),
        ({"width": "8"}, "width"),
        ({"children": 0}, "children"),
    ],
)
def test_expansions_that_are_no_counts_are_refused(values, name):
    with pytest.raises(TreeError, match=f"{name} is .*, expected a whole number"):
        Expansion(**values)


def test_the_likeliest_words_are_those_of_the_softmax_over_all_words():
    import torch

    logits = torch.tensor([[1.0, 3.0, 2.0], [0.0, -1.0, 5.0]])
    rows = likeliest(logits, 2, torch.tensor([10, 20, 30]))
    assert [[token for _, token in row] for row in rows] == [[20, 30], [30, 10]]
    probs = torch.softmax(logits, -1)
    assert math.exp(rows[0][1][0]) == pytest.approx(float(probs[0, 2]), abs=1e-6)
    whole = likeliest(logits, 9)
    assert sum(math.exp(log_prob) for log_prob, _ in whole[0]) == pytest.approx(1.0, abs=1e-6)
