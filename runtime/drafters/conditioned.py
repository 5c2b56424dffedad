"""What a drafter owes to the target's states: the paper's ablation of its conditioning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lawfit.errors import LawfitError
from policy.candidates import Candidates
from runtime.drafters import Drafter, Session
from runtime.errors import CommitError
from runtime.states import FeatureAddress
from runtime.target import Target


@dataclass(frozen=True, eq=False)
class Conditioned:
    """A drafter that reads other states than its request's own.

    Attributes
    ----------
    drafter
        Any drafter that reads states.
    how
        "zeroed": zeros in place of every state. "swapped": row t reads row t modulo R of another request.
    bank
        (R, K, d) states of that request, as `bank_of` takes them; for "swapped" alone.
    """

    drafter: Drafter
    how: str
    bank: Tensor | None = None

    def __post_init__(self) -> None:
        """Refuse an ablation of nothing, or by nothing."""
        if self.drafter.reads is None:
            raise LawfitError(f"{self.drafter.name} reads no states of the target, so there is nothing to change")
        if self.how not in ("zeroed", "swapped"):
            raise LawfitError(f"conditioning is {self.how!r}, expected zeroed or swapped")
        swapped = self.how == "swapped"
        if swapped != (self.bank is not None):
            raise LawfitError(f"conditioning {self.how} {'without' if swapped else 'with'} a bank of other states")
        if self.bank is not None and (self.bank.ndim != 3 or not len(self.bank)):
            raise LawfitError(f"the bank has shape {tuple(self.bank.shape)}, expected (R, K, d) with rows")

    @property
    def name(self) -> str:
        """The drafter's, and what was done to it."""
        return f"{self.drafter.name}@{self.how}"

    @property
    def max_nodes(self) -> int:
        """The drafter's own."""
        return self.drafter.max_nodes

    @property
    def reads(self) -> FeatureAddress | None:
        """The drafter's own."""
        return self.drafter.reads

    def start(self) -> ConditionedSession:
        """Begin a request."""
        return ConditionedSession(self.drafter.start(), self.bank)


class ConditionedSession:
    """Passes everything on but the states. ``rows`` counts those that were replaced."""

    def __init__(self, session: Session, bank: Tensor | None, rows: int = 0) -> None:
        self.session, self.bank, self.rows = session, bank, rows

    def observe(self, states: Tensor | None, next_tokens: Sequence[int]) -> None:
        """Follow committed rows with other states than theirs.

        Raises
        ------
        CommitError
            The bank's states are of another shape.
        """
        self.session.observe(None if states is None else self._replaced(states), next_tokens)

    def propose(self, tokens: Sequence[int], prompt_len: int, max_depth: int) -> Candidates:
        """Offer what the drafter offers."""
        return self.session.propose(tokens, prompt_len, max_depth)

    def fork(self) -> ConditionedSession:
        """Copy the state."""
        return ConditionedSession(self.session.fork(), self.bank, self.rows)

    def _replaced(self, states: Tensor) -> Tensor:
        if self.bank is None:
            return torch.zeros_like(states)
        if states.shape[1:] != self.bank.shape[1:]:
            found, wanted = tuple(self.bank.shape[1:]), tuple(states.shape[1:])
            raise CommitError(f"the bank's states have shape {found}, expected the target's {wanted}")
        places = torch.arange(self.rows, self.rows + len(states)) % len(self.bank)
        self.rows += len(states)
        return self.bank[places.to(self.bank.device)].to(states)


def bank_of(target: Target, tokens: Sequence[int], drafter: Drafter) -> Tensor:
    """Take the states (R, K, d) of another text that ``drafter`` would read.

    Raises
    ------
    LawfitError
        It reads none.
    """
    states = target.prefill(list(tokens), target.new_cache(len(tokens)), drafter.reads).states
    if states is None:
        raise LawfitError(f"{drafter.name} reads no states of the target, so there is no bank of them")
    return states
