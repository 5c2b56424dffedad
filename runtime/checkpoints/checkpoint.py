"""A draft head that came from elsewhere, with everything that it needs of its target."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from runtime.frozen import Frozen
from runtime.heads.block_session import BlockOffer
from runtime.heads.drafter import Head, HeadDrafter
from runtime.heads.trie import Expansion
from runtime.loading import DTYPES
from runtime.states import FeatureAddress
from runtime.target import Target


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A head and what belongs to it.

    Attributes
    ----------
    recipe
        Kind of head: eagle1, eagle3 or glance. EAGLE-2 and HASS have the weights of EAGLE-1.
    head
        Its network, frozen.
    draft_tokens
        (D,) target id of each draft word.
    reads
        Which states of the target it reads.
    source
        Where it came from, for messages.
    embedding, output
        (V, d) and (D, d) weights of its own in place of the target's; ``None`` where they are the target's.
    """

    recipe: str
    head: Head
    draft_tokens: Tensor
    reads: FeatureAddress
    source: str
    embedding: Tensor | None = None
    output: Tensor | None = None

    def frozen(self, target: Target) -> Frozen:
        """Borrow from the target what the head has not of its own, in the target's dtype."""
        dtype = DTYPES[target.dtype]
        frozen = Frozen.of(target, self.draft_tokens, dtype)
        if self.embedding is not None:
            frozen = replace(frozen, embedding=self.embedding.to(dtype))
        return frozen if self.output is None else replace(frozen, head=self.output.to(dtype))

    def drafter(
        self, target: Target, expansion: Expansion | None = None, offer: BlockOffer | None = None
    ) -> HeadDrafter:
        """Draft with it, in the target's dtype and on its device."""
        head = self.head.to(device=target.device, dtype=DTYPES[target.dtype]).eval()
        frozen = self.frozen(target)
        return HeadDrafter(head, frozen, self.reads, expansion or Expansion(), offer or BlockOffer(), name=self.recipe)


def own_rows(found: Tensor | None, target_rows: Tensor) -> Tensor | None:
    """Give a checkpoint's rows where they differ from the target's: a copy of those needs no memory of its own."""
    if found is None or (found.shape == target_rows.shape and torch.equal(found, target_rows.to(found.dtype))):
        return None
    return found
