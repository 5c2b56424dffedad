"""One target pass over a draft tree."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from policy.tree import DraftTree
from runtime.cache import RowCache
from runtime.errors import TargetError
from runtime.pack import pack
from runtime.sampling import Sampling
from runtime.states import FeatureAddress
from runtime.target import Target
from runtime.walk import Choose


@dataclass(frozen=True, eq=False)
class Verification:
    """The target's rows for one tree.

    Attributes
    ----------
    tree
        What was verified.
    logits : (N+1, V) float32
        Row i is the next-token row after the path to node i.
    states : (N+1, K, d) or None
        The target's states of the rows, where the drafter reads them.
    choices : list of int, N+1
        Greedy token of every row. Taken with the pass, so that the time of the pass holds the wait for the device.
    """

    tree: DraftTree
    logits: torch.Tensor
    states: torch.Tensor | None
    choices: list[int]

    def chooser(self, sampling: Sampling, position: int) -> Choose:
        """Give the target's token at any row; ``position`` is the output position of the root's next token."""
        if sampling.greedy:
            return self.choices.__getitem__
        return lambda row: sampling.token(self.logits[row], position + int(self.tree.depth[row]))

    def entropy(self, row: int) -> float:
        """Entropy of one row as the target gives it, nats: at temperature 1 and unfiltered, however it is sampled."""
        return entropy(self.logits[row])


def verify(target: Target, cache: RowCache, tree: DraftTree, reads: FeatureAddress | None = None) -> Verification:
    """Feed the tree provisionally behind the committed rows."""
    rows = target.verify(pack(tree, cache.committed, target.device), cache, reads)
    return Verification(tree, rows.logits, rows.states, rows.choices)


def entropy(logits: torch.Tensor) -> float:
    """Entropy of softmax(``logits``) (V,), nats."""
    log_probs = torch.log_softmax(logits.float(), dim=-1)
    # A token of probability 0 adds nothing; 0 * -inf would add NaN.
    total = -float((log_probs.exp() * log_probs.clamp_min(-1e4)).sum())
    if math.isnan(total):
        raise TargetError("a row of the target's logits is not a number, expected finite logits")
    return max(0.0, total)
