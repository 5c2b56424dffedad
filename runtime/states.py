"""Which of the target's states a drafter reads, and how they are taken from a pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from runtime.errors import CommitError, TargetError


@dataclass(frozen=True)
class FeatureAddress:
    """Which states of the target a drafter reads.

    Attributes
    ----------
    layers
        Taps, as counts of decoder layers passed: the state behind layer k of L is k; 0 is the embedding.
    final
        Whether the state behind the last layer is read as well, and whether after the final norm.
    """

    layers: tuple[int, ...]
    final: str = "post-norm"  # or "none"

    def check(self, layers: int, source: str) -> None:
        """Check that a target of so many layers has these states.

        Raises
        ------
        TargetError
            It has not, or gives them in another form.
        """
        if self.final not in ("post-norm", "none"):
            raise TargetError(f"{source}: final is {self.final!r}, expected post-norm or none: it gives no other state")
        if any(not 0 <= layer < layers for layer in self.layers):
            raise TargetError(f"{source}: taps {list(self.layers)}, expected counts of layers below {layers}")

    def take(self, hidden_states: Sequence[torch.Tensor]) -> torch.Tensor:
        """Stack the addressed states (B, R, d) of one pass: (B, R, K, d), taps first and the final one last."""
        final = [-1] if self.final == "post-norm" else []
        return torch.stack([hidden_states[k] for k in (*self.layers, *final)], dim=2)


@dataclass(frozen=True, eq=False)
class TargetRows:
    """What one target pass gives.

    Attributes
    ----------
    logits
        (R, V) fp32.
    states
        (R, K, d) where a drafter reads them; of a prefill for every row, though its logits are of the last one only.
    """

    logits: torch.Tensor
    states: torch.Tensor | None = None

    @property
    def choices(self) -> list[int]:
        """Greedy token of every row."""
        return [int(token) for token in self.logits.argmax(-1).tolist()]


def paired(states: torch.Tensor | None, next_tokens: Sequence[int], taps: int, width: int) -> torch.Tensor:
    """Give the states (R, K, d) of committed rows, if there is one for each token that came after them.

    Parameters
    ----------
    states, next_tokens
        Of the rows.
    taps, width
        Least K, and d, that the drafter reads.

    Raises
    ------
    CommitError
        There are none, not as many as tokens, or of another shape.
    """
    if states is None or len(states) != len(next_tokens):
        found = "no" if states is None else len(states)
        raise CommitError(f"{found} states with {len(next_tokens)} next tokens, expected one of each")
    if states.ndim != 3 or states.shape[1] < taps or states.shape[2] != width:
        raise CommitError(f"states of shape {tuple(states.shape)}, expected (rows, {taps} or more, {width})")
    return states
