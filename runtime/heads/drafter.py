"""A trained head as a drafter."""

from __future__ import annotations

from dataclasses import dataclass, field

from runtime.drafters import Session
from runtime.errors import TrainingError
from runtime.frozen import Frozen
from runtime.heads.block import DiffusionBlock, FeatureBlock
from runtime.heads.block_session import BlockOffer, BlockSession
from runtime.heads.drafting import Expansion, FeatureSession
from runtime.heads.eagle import EagleHead
from runtime.heads.eagle3 import Eagle3Head
from runtime.heads.medusa import MedusaHeads
from runtime.states import FeatureAddress

Head = EagleHead | Eagle3Head | FeatureBlock | DiffusionBlock | MedusaHeads


@dataclass(frozen=True, eq=False)
class HeadDrafter:
    """Drafts with a head on the target's states.

    Attributes
    ----------
    head, frozen
        The head, and what it borrows from its target; both in the dtype that drafting runs in.
    reads
        The states that it was trained on.
    expansion
        How far a head that drafts one token a pass expands.
    offer
        How much of a block pass is offered.
    """

    head: Head
    frozen: Frozen
    reads: FeatureAddress
    expansion: Expansion = field(default_factory=Expansion)
    offer: BlockOffer = field(default_factory=BlockOffer)
    name: str = "head"

    @property
    def one_pass(self) -> bool:
        """Whether one pass drafts every offset."""
        return isinstance(self.head, FeatureBlock | DiffusionBlock | MedusaHeads)

    @property
    def max_nodes(self) -> int:
        """Most candidates of one offer."""
        return self.offer.nodes if self.one_pass else self.expansion.max_nodes

    def start(self) -> Session:
        """Begin a request."""
        if isinstance(self.head, FeatureBlock | DiffusionBlock | MedusaHeads):
            return BlockSession(self.head, self.frozen, self.offer)
        return FeatureSession(self.head, self.frozen, self.expansion)


def require_reads(head: Head, reads: FeatureAddress, source: str) -> None:
    """Check that a head finds the states it reads among those of an address.

    Raises
    ------
    TrainingError
        Another number of taps, or no final state where one is read.
    """
    taps = getattr(head.config, "taps", None)
    if taps is not None and taps != len(reads.layers):
        raise TrainingError(f"{source}: {len(reads.layers)} taps, the head fuses {taps}")
    if isinstance(head, EagleHead | FeatureBlock | MedusaHeads) and reads.final != "post-norm":
        raise TrainingError(f"{source}: final is {reads.final!r}, the head reads the post-norm state")
