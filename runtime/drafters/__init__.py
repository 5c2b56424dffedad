"""Drafters: who offers candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from policy.candidates import Candidates


class Drafter(Protocol):
    """Anything that offers candidates for the tokens after a pending root.

    Attributes
    ----------
    name
        For logs.
    max_nodes
        Most candidate nodes of one offer; sizes the cache.
    """

    name: str
    max_nodes: int

    def propose(self, tokens: Sequence[int], prompt_len: int, max_depth: int) -> Candidates:
        """Offer candidates behind ``tokens``, whose last one is the root, at most ``max_depth`` deep.

        The first ``prompt_len`` tokens are the prompt, the others the request's own output.
        """
        ...
