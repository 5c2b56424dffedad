"""The walk: the longest path of a verified tree that the target would have written itself."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

from policy.tree import DraftTree

Choose = Callable[[int], int]


@dataclass(frozen=True)
class Walk:
    """Outcome of one round.

    Attributes
    ----------
    rows
        Verifier rows of the accepted path, the root's row 0 first: these are committed.
    tokens
        Accepted draft tokens (bonus excluded).
    frontier
        The target's next token after the path, the next root; ``None`` where the request ended on an accepted token.
    truncated
        Whether the end of the request cut the run, so that no miss was seen.
    """

    rows: tuple[int, ...]
    tokens: tuple[int, ...]
    frontier: int | None
    truncated: bool

    @property
    def accept_len(self) -> int:
        """Accepted draft tokens, bonus excluded."""
        return len(self.tokens)

    @property
    def emitted(self) -> tuple[int, ...]:
        """All tokens of the round, the frontier token included."""
        return self.tokens if self.frontier is None else (*self.tokens, self.frontier)


def walk(tree: DraftTree, choose: Choose, limit: int, eos: Set[int]) -> Walk:
    """Follow the target's own choice at every row (GLANCE Definition 1, Algorithm 1 lines 6 to 14).

    Parameters
    ----------
    tree
        The verified tree.
    choose
        Gives the target's token at a row: its greedy one, or a draw. It is asked once for each row of the path, in
        order, and for no other row.
    limit
        Most tokens that the request may still emit, at least 1.
    eos
        Tokens that end the request; one that is accepted ends the walk.
    """
    rows, tokens = [0], list[int]()
    while True:
        token = choose(rows[-1])
        child = tree.children[rows[-1]].get(token)
        if child is None:
            return Walk(tuple(rows), tuple(tokens), token, truncated=False)
        rows.append(child)
        tokens.append(token)
        if token in eos or len(tokens) == limit:
            return Walk(tuple(rows), tuple(tokens), None, truncated=True)
