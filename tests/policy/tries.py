"""Random tries for property tests."""

import numpy as np
from hypothesis import strategies as st

from policy.candidates import Candidates


@st.composite
def tries(draw, max_nodes=9, levels=None):
    """A trie with sibling masses of at most 1; ``levels`` forces ties by drawing shares from few values."""
    count = draw(st.integers(0, max_nodes))
    parents, tokens = [-1], [draw(st.integers(0, 5))]
    for node in range(1, count + 1):
        parents.append(draw(st.integers(0, node - 1)))
        tokens.append(node)  # distinct, so siblings never clash
    share = st.sampled_from(levels) if levels else st.floats(0.01, 1.0)
    weight = np.array([1.0] + [draw(share) for _ in range(count)])
    parent = np.array(parents)
    total = np.bincount(parent[1:], weights=weight[1:], minlength=count + 1) if count else np.ones(1)
    escape = 0.0 if levels else draw(st.floats(0.0, 1.0))
    log_prob = np.where(parent < 0, 0.0, np.log(weight / np.maximum(total + escape, weight.min())[parent]))
    return Candidates(np.array(tokens), parent, np.minimum(log_prob, 0.0))


def closed_sets(candidates, size):
    """All ancestor-closed node sets of ``size`` (root excluded), by brute force."""
    from itertools import combinations

    nodes = range(1, candidates.count + 1)
    for chosen in combinations(nodes, size):
        if all(candidates.parent[node] == 0 or candidates.parent[node] in chosen for node in chosen):
            yield chosen


def path_values(candidates):
    """Product of the conditional probabilities along every node's path."""
    values = np.ones(candidates.count + 1)
    for node in range(1, candidates.count + 1):
        values[node] = values[candidates.parent[node]] * np.exp(candidates.log_prob[node])
    return values
