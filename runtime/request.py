"""The state of one request between rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from runtime.cache import RowCache
from runtime.drafters import Session


@dataclass
class Request:
    """Tokens, cache and the pending root of one request.

    Attributes
    ----------
    tokens
        Prompt and output; the last one is the root: emitted, but not in the target's cache (append-required).
    prompt_len
        Tokens of the prompt.
    max_new_tokens
        Most tokens to emit.
    cache
        Holds every token but the root.
    session
        The drafter's state; it has followed the rows of the cache.
    prev_entropy
        Entropy of the row that produced the root, nats.
    ended
        Whether an end token was emitted.
    """

    tokens: list[int]
    prompt_len: int
    max_new_tokens: int
    cache: RowCache
    session: Session
    prev_entropy: float
    ended: bool = False

    @property
    def root(self) -> int:
        """The pending token."""
        return self.tokens[-1]

    @property
    def output(self) -> list[int]:
        """Emitted tokens."""
        return self.tokens[self.prompt_len :]

    @property
    def remaining(self) -> int:
        """Tokens that may still be emitted."""
        return self.max_new_tokens - (len(self.tokens) - self.prompt_len)

    @property
    def done(self) -> bool:
        """Whether the request has ended, by an end token or by its limit."""
        return self.ended or self.remaining <= 0

    def fork(self) -> Request:
        """Copy the request, for another way on from the same state."""
        return replace(self, tokens=list(self.tokens), cache=self.cache.fork(), session=self.session.fork())
