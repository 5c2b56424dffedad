"""How far a request's estimates have come true."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Level:
    """Discounted sums of expected and realised accepted tokens over the rounds that speculated.

    Estimates pooled over requests expect too much of an open text, whose matches rarely run on. The factor corrects
    the level of a request's path values and leaves their order alone; it never promises more than the law.

    Attributes
    ----------
    expected, realised
        Sums over earlier rounds, bonus excluded. A request starts as if as many tokens as the prior's had been expected
        in vain: at half the law's level, which its first good draft restores.
    """

    expected: float = 2.0
    realised: float = 0.0

    @property
    def factor(self) -> float:
        """Realised over expected, shrunk to 1 as by two tokens that came true, and at most 1."""
        return min(1.0, (self.realised + _PRIOR) / (self.expected + _PRIOR))

    def after(self, expected: float, realised: float) -> Level:
        """Add a round that speculated."""
        return Level(_KEEP * self.expected + expected, _KEEP * self.realised + realised)


_PRIOR = 2.0
_KEEP = 0.9
