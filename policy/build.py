"""The one best-first loop."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from policy.candidates import Candidates, Rows
from policy.errors import TreeError
from policy.tree import DraftTree


def best_first(rows: Rows, root: int, budget: int) -> DraftTree:
    """Take the ``budget`` prefixes of highest path value, in the order they are taken.

    The value of a node is the product of the conditional probabilities along its path (EAGLE-2 path value, GLANCE
    plug-in score). Ties are broken by the strict order (value, shallower, insertion), so every prefix of the result
    is ancestor-closed and the trees of all smaller budgets are its slices.

    Parameters
    ----------
    rows
        The alternatives below every node, most probable first.
    root
        Token of row 0.
    budget
        Most nodes to take, root excluded; fewer where the candidates end.

    Returns
    -------
    DraftTree
        ``log_score`` holds the log path values.
    """
    if not isinstance(budget, (int, np.integer)) or budget < 0:
        raise TreeError(f"budget {budget!r}, expected a whole number >= 0")
    tokens, parents, scores = [root], [-1], [0.0]
    # A heap entry stands for a node and, lazily, for its worse siblings:
    # (-value, depth, insertion, parent row, key of the row of alternatives, index in it).
    heap: list[tuple[float, int, int, int, int, int]] = []
    inserted = 0

    def push(parent: int, depth: int, key: int, index: int) -> None:
        nonlocal inserted
        row = rows.row(key)
        if index < len(row):
            heappush(heap, (-(scores[parent] + row[index].log_prob), depth, inserted, parent, key, index))
            inserted += 1

    push(0, 1, 0, 0)
    while heap and len(tokens) <= budget:
        negative, depth, _, parent, key, index = heappop(heap)
        child = rows.row(key)[index]
        tokens.append(child.token)
        parents.append(parent)
        scores.append(-negative)
        push(parent, depth, key, index + 1)
        push(len(tokens) - 1, depth + 1, child.key, 0)
    return DraftTree(np.array(tokens, dtype=np.int64), np.array(parents, dtype=np.int64), np.array(scores))


def best_candidates(rows: Rows, root: int, count: int, passes: int = 0) -> Candidates:
    """Keep the ``count`` best prefixes of any offer, such as the marginals of a one-pass drafter, as a trie.

    Every tree of at most ``count`` nodes that `best_first` builds from the trie is the one it builds from ``rows``.
    """
    tree = best_first(rows, root, count)
    log_prob = tree.log_score - tree.log_score[np.maximum(tree.parent, 0)]
    return Candidates(tree.tokens, tree.parent, np.minimum(log_prob, 0.0), passes=passes)
