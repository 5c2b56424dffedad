"""A baseline without training: counts of what followed each three tokens in the training texts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from policy.candidates import Candidates
from runtime.drafters import Stateless
from runtime.drafters.ngram import NgramDrafter


@dataclass(frozen=True, eq=False)
class CountDrafter(Stateless):
    """Drafts the chain of the most frequent continuations, with back-off to shorter contexts.

    Attributes
    ----------
    tables
        For contexts of 3, 2 and 1 tokens: the most frequent next token, and its share.
    depth
        Tokens drafted.
    """

    tables: tuple[dict[tuple[int, ...], tuple[int, float]], ...]
    depth: int = 7
    name: str = "4-gram counts"

    @property
    def max_nodes(self) -> int:
        """Most candidates of one offer."""
        return self.depth

    @classmethod
    def count(cls, texts: Iterable[Sequence[int]], depth: int = 7) -> CountDrafter:
        """Count the continuations of some texts."""
        counts: tuple[defaultdict[tuple[int, ...], Counter[int]], ...] = tuple(defaultdict(Counter) for _ in range(3))
        for text in texts:
            for at in range(1, len(text)):
                for table, order in zip(counts, (3, 2, 1), strict=True):
                    if at >= order:
                        table[tuple(text[at - order : at])][text[at]] += 1
        tables = []
        for table in counts:
            best = {context: found.most_common(1)[0] for context, found in table.items()}
            tables.append({key: (token, n / table[key].total()) for key, (token, n) in best.items()})
        return cls(tuple(tables), depth)

    def propose(self, tokens: Sequence[int], prompt_len: int, max_depth: int) -> Candidates:
        """Offer a chain."""
        text, probs = list(tokens[-3:]), [0.0]
        chain = [int(tokens[-1])]
        for _ in range(min(self.depth, max_depth)):
            found = next(
                (
                    table[key]
                    for table, order in zip(self.tables, (3, 2, 1), strict=True)
                    if len(text) >= order and (key := tuple(text[-order:])) in table
                ),
                None,
            )
            if found is None:
                break
            chain.append(found[0])
            probs.append(float(np.log(found[1])))
            text = [*text, found[0]][-3:]
        return Candidates(np.array(chain), np.arange(-1, len(chain) - 1), np.array(probs))


@dataclass(frozen=True, eq=False)
class LookupElseCounts(Stateless):
    """Prompt lookup where at least three tokens match, counts elsewhere."""

    lookup: NgramDrafter
    counts: CountDrafter
    name: str = "lookup, else counts"

    @property
    def max_nodes(self) -> int:
        """Most candidates of one offer."""
        return max(self.lookup.max_nodes, self.counts.max_nodes)

    def propose(self, tokens: Sequence[int], prompt_len: int, max_depth: int) -> Candidates:
        """Offer whichever applies."""
        found = self.lookup.propose(tokens, prompt_len, max_depth)
        return found if found.confidence >= 3 else self.counts.propose(tokens, prompt_len, max_depth)
