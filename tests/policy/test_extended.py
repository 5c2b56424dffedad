import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.build import best_first
from policy.candidates import Marginals
from policy.errors import TreeError
from policy.extended import Extended, confident_spine


def offer(rng, depth, words, root=0):
    probs = np.sort(rng.dirichlet(np.ones(words + 1), size=depth)[:, :words], axis=1)[:, ::-1]
    tokens = np.array([rng.choice(50, words, replace=False) for _ in range(depth)])
    return Marginals(root, tokens, np.log(probs))


def paths(first, beyond, spine):
    """Every path and its value, by the definition."""
    top = tuple(first.tokens[:spine, 0].tolist())
    found = {}

    def grow(path, value):
        if len(path) >= spine and path[:spine] == top:
            source, depth = beyond, len(path) - spine
        else:
            source, depth = first, len(path)
        if depth == len(source.tokens):
            return
        for token, log_prob in zip(source.tokens[depth].tolist(), source.log_probs[depth].tolist(), strict=True):
            found[(*path, token)] = value + log_prob
            grow((*path, token), value + log_prob)

    grow((), 0.0)
    return found


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_the_best_prefixes_are_those_of_the_definition(seed, depth, words, beyond_depth):
    rng = np.random.default_rng(seed)
    first, beyond = offer(rng, depth, words), offer(rng, beyond_depth, words)
    spine = int(rng.integers(1, depth + 1))
    every = paths(first, beyond, spine)
    tree = best_first(Extended(first, beyond, spine), 0, 1000)
    found = {}
    for node in range(1, tree.rows):
        path, at = [], node
        while at:
            path.append(int(tree.tokens[at]))
            at = int(tree.parent[at])
        found[tuple(path[::-1])] = tree.log_score[node]
    assert found.keys() == every.keys()
    for path, value in found.items():
        assert value == pytest.approx(every[path])


def test_the_confident_spine_is_the_run_of_high_value():
    sure = Marginals(0, np.array([[1], [2], [3]]), np.log(np.array([[0.9], [0.8], [0.5]])))
    assert [confident_spine(sure, least) for least in (0.95, 0.9 - 1e-9, 0.7, 0.3)] == [0, 1, 2, 3]


def test_a_spine_outside_the_block_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(TreeError, match="a spine of 3 offsets, the block has 2"):
        Extended(offer(rng, 2, 2), offer(rng, 2, 2), 3)
