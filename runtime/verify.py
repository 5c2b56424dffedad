"""One target pass over a draft tree."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from policy.tree import DraftTree
from runtime.cache import RowCache
from runtime.errors import TargetError
from runtime.pack import pack
from runtime.states import FeatureAddress
from runtime.target import Target


@dataclass(frozen=True, eq=False)
class Verification:
    """The target's rows for one tree.

    Attributes
    ----------
    logits : (N+1, V) float32
        Row i is the next-token row after the path to node i.
    states : (N+1, K, d) or None
        The target's states of the rows, where the drafter reads them.
    choices : list of int, N+1
        Greedy token of every row.
    """

    logits: torch.Tensor
    states: torch.Tensor | None
    choices: list[int]

    def entropy(self, row: int) -> float:
        """Entropy of one row, nats."""
        return entropy(self.logits[row])


def verify(target: Target, cache: RowCache, tree: DraftTree, reads: FeatureAddress | None = None) -> Verification:
    """Feed the tree provisionally behind the committed rows."""
    rows = target.verify(pack(tree, cache.committed, target.device), cache, reads)
    return Verification(rows.logits, rows.states, rows.choices)


def entropy(logits: torch.Tensor) -> float:
    """Entropy of softmax(``logits``) (V,), nats."""
    log_probs = torch.log_softmax(logits.float(), dim=-1)
    # A token of probability 0 adds nothing; 0 * -inf would add NaN.
    total = -float((log_probs.exp() * log_probs.clamp_min(-1e4)).sum())
    if math.isnan(total):
        raise TargetError("a row of the target's logits is not a number, expected finite logits")
    return max(0.0, total)
