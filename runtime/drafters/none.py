"""No drafter: plain decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from policy.candidates import Candidates
from runtime.drafters import Stateless


@dataclass(frozen=True)
class NoDrafter(Stateless):
    """Offers nothing."""

    name: str = "none"
    max_nodes: int = 0

    def propose(self, tokens: Sequence[int], prompt_len: int, max_depth: int) -> Candidates:
        """Offer the root alone."""
        return Candidates.none(int(tokens[-1]))
