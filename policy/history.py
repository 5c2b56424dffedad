"""What a request has shown so far: how far its drafts ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from policy.candidates import Candidates


@dataclass(frozen=True)
class History:
    """Discounted counts of continuations and misses along the drafter's top-1 path, over a request's earlier rounds.

    Attributes
    ----------
    accepted, missed
        Discounted counts; both 0 at the start of a request.
    """

    accepted: float = 0.0
    missed: float = 0.0

    @property
    def run_logit(self) -> float:
        """Log odds of a continuation, shrunk to even odds as by one of each; 0 without a past."""
        return log((self.accepted + 1.0) / (self.missed + 1.0))

    def after(self, accepted: int, missed: bool) -> History:
        """Add a round that offered a draft."""
        return History(KEEP * self.accepted + accepted, KEEP * self.missed + missed)


# A round counts a tenth less with every later one: a request may go over from writing to copying and back.
KEEP = 0.9


def scored(candidates: Candidates, emitted: Sequence[int]) -> tuple[int, bool]:
    """Compare the top-1 path with the tokens that the target emitted; return its run, and whether a miss was seen.

    This needs no verification of the path: the target's own tokens tell, after a round without speculation too.
    """
    key, run = 0, 0
    for token in emitted:
        row = candidates.row(key)
        if not row:
            break
        if row[0].token != token:
            return run, True
        key, run = row[0].key, run + 1
    return run, False
