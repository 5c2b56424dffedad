"""Drafters: who offers candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from policy.candidates import Candidates
from runtime.states import FeatureAddress


class Session(Protocol):
    """A drafter's state for one request: it follows what is committed, and offers candidates behind it."""

    def observe(self, states: Tensor | None, next_tokens: Sequence[int]) -> None:
        """Follow committed rows: the target's states (R, K, d) of each, and the token that came after it (R,).

        States are ``None`` where the drafter reads none.
        """
        ...

    def propose(self, tokens: Sequence[int], prompt_len: int, max_depth: int) -> Candidates:
        """Offer candidates behind ``tokens``, whose last one is the root, at most ``max_depth`` deep.

        The first ``prompt_len`` tokens are the prompt, the others the request's own output. Nothing of an offer
        stays: whatever is accepted of it comes back through `observe`.
        """
        ...

    def fork(self) -> Session:
        """Copy the state, for another way on from here."""
        ...


class Drafter(Protocol):
    """Anything that offers candidates for the tokens after a pending root.

    Attributes
    ----------
    name
        For logs.
    max_nodes
        Most candidate nodes of one offer; sizes the cache.
    reads
        Which states of the target it reads, if any.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def max_nodes(self) -> int: ...  # noqa: D102

    @property
    def reads(self) -> FeatureAddress | None: ...  # noqa: D102

    def start(self) -> Session:
        """Begin a request."""
        ...


class Stateless:
    """A drafter whose offer depends on the tokens alone: it is its own session."""

    reads: FeatureAddress | None = None

    def start(self) -> Session:
        """Begin a request; there is nothing to remember."""
        return self

    def observe(self, states: Tensor | None, next_tokens: Sequence[int]) -> None:
        """Remember nothing."""

    def propose(self, tokens: Sequence[int], prompt_len: int, max_depth: int) -> Candidates:
        """Offer candidates."""
        raise NotImplementedError

    def fork(self) -> Session:
        """Give the drafter itself."""
        return self
