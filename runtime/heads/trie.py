"""EAGLE-2's expansion: a trie of candidates that grows level by level (seed 000, 0x06B)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from policy.candidates import Candidates
from policy.errors import TreeError
from policy.tree import BoolArray

Alternative = tuple[float, int]  # conditional log probability, token

# Ranking floor of a path value, for each step; the stored probability stays what it is.
_FLOOR = math.log(1e-12)
# Of a softmax in single precision.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Expansion:
    """How far a drafter expands. Width 1 with one alternative is a greedy chain.

    Attributes
    ----------
    depth
        Passes; the deepest offset. 0 offers nothing.
    width
        Nodes that are expanded at each depth, those of the highest path value.
    children
        Alternatives of each expanded node.
    """

    depth: int = 5
    width: int = 8
    children: int = 8

    def __post_init__(self) -> None:
        """Refuse what is no count."""
        for name, least in (("depth", 0), ("width", 1), ("children", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise TreeError(f"expansion: {name} is {value!r}, expected a whole number of at least {least}")

    @property
    def max_nodes(self) -> int:
        """Most candidates of one offer."""
        return 0 if self.depth == 0 else self.children * (1 + self.max_rows)

    @property
    def max_rows(self) -> int:
        """Most draft rows that are fed for one offer, the root's excluded."""
        return self.width * max(self.depth - 1, 0)


class Trie:
    """Candidates under construction.

    Attributes
    ----------
    tokens, parent, depth, log_prob
        Of each node; node 0 is the root.
    value
        Log path values, for ranking.
    place
        Of each expanded node, its place in the order of expansion; the root's is 0.
    """

    def __init__(self, root: int) -> None:
        self.tokens, self.parent, self.depth = [root], [-1], [0]
        self.log_prob, self.value = [0.0], [0.0]
        self.place: dict[int, int] = {}

    def best(self, frontier: Sequence[int], width: int) -> list[int]:
        """Take the nodes to expand, by the strict order (value, shallower, insertion)."""
        return sorted(frontier, key=lambda node: (-self.value[node], self.depth[node], node))[:width]

    def visible(self, nodes: Sequence[int]) -> BoolArray:
        """Tell which of the E expanded nodes each of ``nodes`` sees (W, E): its ancestors and itself."""
        seen = np.zeros((len(nodes), len(self.place)), dtype=np.bool_)
        for row, start in enumerate(nodes):
            node = start
            while node >= 0:
                seen[row, self.place[node]] = True
                node = self.parent[node]
        return seen

    def path(self, node: int) -> list[int]:
        """List the tokens from below the root to a node."""
        tokens = list[int]()
        while node > 0:
            tokens.append(self.tokens[node])
            node = self.parent[node]
        return tokens[::-1]

    def above(self, nodes: Sequence[int], count: int) -> list[int]:
        """Leave out the nodes that ``count`` others surpass: nothing below them is among the best ``count``."""
        if len(self.value) <= count:
            return list(nodes)
        least = sorted(self.value[1:], reverse=True)[count - 1]
        return [node for node in nodes if self.value[node] >= least]

    def add(self, parent: int, alternatives: Sequence[Alternative]) -> list[int]:
        """Add the alternatives of one node; return the new nodes.

        Raises
        ------
        TreeError
            Something is no probability, a token comes twice, or the siblings sum to more than 1.
        """
        first, mass, taken = len(self.tokens), 0.0, set[int]()
        for log_prob, token in alternatives:
            where = f"alternative {token} below node {parent}"
            if not log_prob <= _ROUNDING:
                raise TreeError(f"{where} has log probability {log_prob}, expected at most 0")
            if token in taken:
                raise TreeError(f"{where} comes twice, expected different tokens")
            taken.add(token)
            mass += math.exp(log_prob)
            if mass > 1 + _ROUNDING:
                raise TreeError(f"alternatives below node {parent} have mass {mass:.6f}, expected at most 1")
            self.tokens.append(token)
            self.parent.append(parent)
            self.depth.append(self.depth[parent] + 1)
            self.log_prob.append(min(log_prob, 0.0))
            self.value.append(self.value[parent] + max(self.log_prob[-1], _FLOOR))
        return list(range(first, len(self.tokens)))

    def candidates(self, passes: int) -> Candidates:
        """Give what has grown, all of it: which nodes are verified is decided later, by path value."""
        return Candidates(np.array(self.tokens), np.array(self.parent), np.array(self.log_prob), 0.0, passes)


Grow = Callable[[Trie, Sequence[int]], Sequence[Sequence[Alternative]]]


def expand(root: int, expansion: Expansion, max_depth: int, grow: Grow, wanted: int | None = None) -> Candidates:
    """Grow a trie below ``root``: at each depth the best nodes of the newest level get alternatives.

    Parameters
    ----------
    root
        The pending token.
    expansion
        How far.
    max_depth
        Where to end at the latest.
    grow
        One draft pass: the alternatives of each of the given nodes, in their order. The log probabilities are
        conditional under the parent's prefix and not renormalised: omitted mass is allowed. First it is asked for the
        root alone; every later node's parent was asked for before.
    wanted
        Candidates that will be kept: what cannot be among the best so many is not expanded. By default, everything is.

    Raises
    ------
    TreeError
        What `Trie.add` refuses; ``wanted`` is no count.
    """
    if wanted is not None and (type(wanted) is not int or wanted < 1):
        raise TreeError(f"wanted is {wanted!r}, expected a whole number of at least 1")
    trie, frontier, passes = Trie(root), [0], 0
    for _ in range(min(expansion.depth, max_depth)):
        chosen = trie.best(frontier if wanted is None else trie.above(frontier, wanted), expansion.width)
        if not chosen:
            break
        for node in chosen:
            trie.place[node] = len(trie.place)
        rows = grow(trie, chosen)
        passes += 1
        frontier = [child for node, row in zip(chosen, rows, strict=True) for child in trie.add(node, row)]
    return trie.candidates(passes)


def likeliest(logits: Tensor, count: int, words: Tensor | None = None) -> list[list[Alternative]]:
    """List the ``count`` likeliest tokens of every row of ``logits`` (W, D), with log probabilities in fp32.

    ``words`` (D,) gives the token of each column; by default its number.
    """
    top = logits.float().log_softmax(-1).topk(min(count, logits.shape[-1]), dim=-1)
    tokens = top.indices if words is None else torch.take(words, top.indices)
    return [list(zip(*row, strict=True)) for row in zip(top.values.tolist(), tokens.tolist(), strict=True)]
