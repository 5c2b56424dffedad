"""Two drafters' offers as one: a mixture of their path values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from policy.candidates import Candidates
from policy.errors import TreeError


def mix(first: Candidates, second: Candidates, weight: float) -> Candidates:
    r"""Merge two offers behind the same root, as if one of the two drafters were right for the whole round.

    The result is the union of both tries. A node's path value is

    .. math:: V(u) = w V_1(u) + (1 - w) V_2(u),

    where a trie that lacks u has :math:`V_k(u) = 0`; its conditional probability is V(u) / V(parent of u). So a token
    that one drafter alone offers counts for less, and what follows it is all that drafter's own.

    Siblings stay coherent: below a node p each trie has :math:`\sum_c V_k(c) = V_k(p) \sum_c P_k(c | p) \le V_k(p)`,
    because its siblings sum to at most 1, and 0 on both sides where it lacks p. The weighted sum of both gives
    :math:`\sum_c V(c) \le V(p)`: conditional probabilities sum to at most 1, and no value rises from parent to child.

    Nodes of value 0 (all of a trie whose weight is 0, among them) are left out.

    Parameters
    ----------
    first, second
        The offers. The result has the confidence of ``first``, and the passes of both.
    weight
        w, in [0, 1]: the probability that ``first`` is the right one.

    Raises
    ------
    TreeError
        The roots differ, or the weight is no probability.
    """
    if first.root != second.root:
        raise TreeError(f"offers behind the roots {first.root} and {second.root}, expected one root")
    if not 0 <= weight <= 1:
        raise TreeError(f"the weight of the first offer is {weight}, expected a probability")
    tokens, parent, children = [first.root], [-1], [dict[int, int]()]
    value = [0.0]  # log V
    for offer, share in ((first, weight), (second, 1.0 - weight)):
        if share == 0:
            continue
        own, at = [math.log(share)], [0]  # log w_k V_k, and place in the union, of each node of the offer
        columns = (offer.tokens[1:].tolist(), offer.parent[1:].tolist(), offer.log_prob[1:].tolist())
        for token, above, log_prob in zip(*columns, strict=True):
            own.append(own[above] + log_prob)
            if own[-1] == -math.inf:
                at.append(-1)  # and so is all below it
                continue
            place = children[at[above]].setdefault(token, len(tokens))
            at.append(place)
            if place == len(tokens):
                tokens.append(token)
                parent.append(at[above])
                children.append({})
                value.append(own[-1])
            else:
                value[place] = _log_sum(value[place], own[-1])
    places = np.array(parent)
    log_value = np.array(value)
    log_prob = np.minimum(log_value - log_value[np.maximum(places, 0)], 0.0)
    return Candidates(np.array(tokens), places, log_prob, first.confidence, first.passes + second.passes)


def evidence(first: Candidates, second: Candidates, future: Sequence[int]) -> tuple[float, float]:
    """Score both offers by what the target wrote: the probability that each gave to it.

    The event is the way of ``future`` through the union of both offers: the tokens on it, and where it leaves both,
    the mass that each had left for that. It is told only as far as it says which of the two is right: no further than
    either has lost the way, and no further than where an offer ends, for that is a limit of its depth and no promise.
    So each is a probability of the same event, as `mix` counts it, and
    ``weight * first + (1 - weight) * second`` is the likelihood of the weight.

    Returns
    -------
    tuple of float
        Of ``first`` and ``second``; both 1 where nothing can be told.
    """
    probs, keys = [1.0, 1.0], [0, 0]
    for token in future:
        rows = [offer.row(key) for offer, key in zip((first, second), keys, strict=True)]
        if not all(rows):
            break
        found = [next((child for child in row if child.token == token), None) for row in rows]
        for k, (row, child) in enumerate(zip(rows, found, strict=True)):
            if child is not None:
                probs[k] *= math.exp(child.log_prob)
                keys[k] = child.key
            elif any(found):
                probs[k] = 0.0
            else:
                probs[k] *= max(0.0, 1.0 - math.fsum(math.exp(other.log_prob) for other in row))
        if not all(found):
            break
    return probs[0], probs[1]


def _log_sum(a: float, b: float) -> float:
    """Log of exp(a) + exp(b)."""
    high, low = max(a, b), min(a, b)
    return high + math.log1p(math.exp(low - high))
