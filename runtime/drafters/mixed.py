"""A lookup and a head as one drafter: their offers are mixed by the length of the lookup's match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from policy.candidates import Candidates
from policy.match_weights import MatchWeights
from policy.mixture import evidence, mix
from runtime.drafters import Drafter, Session
from runtime.states import FeatureAddress


@dataclass(frozen=True, eq=False)
class MixedDrafter:
    """Mixes two drafters' path values (`policy.mixture.mix`).

    A lookup that overrides the head wherever it matches loses where the head knew better, and one that only fills in
    loses what it copies. Its match length tells which of the two is likelier right.

    Attributes
    ----------
    lookup
        Its offers' confidence is the length of its match, 0 without one: `NgramDrafter`.
    head
        Any drafter.
    weights
        Weight of the lookup by that length.
    """

    lookup: Drafter
    head: Drafter
    weights: MatchWeights

    @property
    def name(self) -> str:
        """Both names, for logs."""
        return f"{self.head.name}+{self.lookup.name}"

    @property
    def max_nodes(self) -> int:
        """Most candidates of one offer: those of both, where they share none."""
        return self.lookup.max_nodes + self.head.max_nodes

    @property
    def reads(self) -> FeatureAddress | None:
        """What the head reads."""
        return self.head.reads

    def start(self) -> MixedSession:
        """Begin a request."""
        return MixedSession(self.lookup.start(), self.head.start(), self.weights)


@dataclass(frozen=True, eq=False)
class MixedSession:
    """Both sessions of one request."""

    lookup: Session
    head: Session
    weights: MatchWeights

    def observe(self, states: Tensor | None, next_tokens: Sequence[int]) -> None:
        """Let both follow; the lookup reads tokens alone."""
        self.lookup.observe(None, next_tokens)
        self.head.observe(states, next_tokens)

    def propose(self, tokens: Sequence[int], prompt_len: int, max_depth: int) -> Candidates:
        """Mix both offers. The head's stands alone where the lookup has none, and is not asked for at weight 1."""
        found = self.lookup.propose(tokens, prompt_len, max_depth)
        weight = self.weights.of(found.confidence)
        if found.count and weight == 1:
            return found
        drafted = self.head.propose(tokens, prompt_len, max_depth)
        return mix(found, drafted, weight) if found.count else drafted

    def fork(self) -> MixedSession:
        """Copy both states."""
        return MixedSession(self.lookup.fork(), self.head.fork(), self.weights)


def match_rows(
    drafter: MixedDrafter, tokens: Sequence[int], prompt_len: int, states: Tensor | None = None
) -> list[tuple[float, float, float]]:
    """Let both drafters draft behind every output token of a known text: the rows for `MatchWeights.fit`.

    Parameters
    ----------
    drafter
        Its weights are not used.
    tokens, prompt_len
        The text, and how much of it is the prompt.
    states
        (R, K, d) of the target for each token but the last, at least, where the head reads them.

    Returns
    -------
    list of tuple
        Of each position where the lookup has a match: its length, and the evidence for lookup and head.
    """
    lookup, head = drafter.lookup.start(), drafter.head.start()
    rows, done = [], 0
    for root in range(prompt_len, len(tokens) - 1):
        head.observe(None if states is None else states[done:root], tokens[done + 1 : root + 1])
        done, text, left = root, tokens[: root + 1], len(tokens) - 1 - root
        found = lookup.propose(text, prompt_len, left)
        if found.count:
            offers = found, head.propose(text, prompt_len, left)
            rows.append((found.confidence, *evidence(*offers, tokens[root + 1 :])))
    return rows
