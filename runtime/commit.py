"""The commit transaction: output, cache and next root change together, or not at all."""

from __future__ import annotations

from collections.abc import Set
from itertools import pairwise

from torch import Tensor

from policy.tree import DraftTree
from runtime.errors import CommitError
from runtime.request import Request
from runtime.walk import Walk


def commit(
    request: Request, tree: DraftTree, outcome: Walk, states: Tensor | None, entropy: float, eos: Set[int]
) -> None:
    """Publish the accepted path and forget all other rows.

    Rows are named by the verifier's row indices, never found again by token: equal tokens can stand in several rows.
    The frontier token is emitted but its row does not exist yet; as the next root it is append-required.

    Parameters
    ----------
    request, tree, outcome
        The round.
    states
        (N+1, K, d) states of the verified rows, where the drafter reads them: those of the accepted path reseed it.
    entropy
        Entropy of the last accepted row, which produced the frontier token, nats.
    eos
        Tokens that end the request.

    Raises
    ------
    CommitError
        The rows are not a path of the tree, or the cache does not hold them. Nothing is changed then.
    """
    rows = outcome.rows
    if rows[0] != 0 or any(int(tree.parent[b]) != a for a, b in pairwise(rows)):
        raise CommitError(f"rows {list(rows)} are not a path from the root of the tree")
    if request.cache.committed != len(request.tokens) - 1:
        raise CommitError(
            f"cache holds {request.cache.committed} rows for {len(request.tokens)} tokens, expected all but the root"
        )
    request.cache.commit(list(rows))
    request.tokens.extend(outcome.emitted)
    request.prev_entropy = entropy
    request.ended = outcome.emitted[-1] in eos
    if not request.done:  # else the last accepted row has no token behind it, and nothing will be drafted
        request.session.observe(None if states is None else states[list(rows)], outcome.emitted)
