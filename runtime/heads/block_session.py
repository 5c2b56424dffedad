"""How a block head drafts: one pass for all offsets, and one more past the block where its spine is confident."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from policy.build import best_candidates
from policy.candidates import Candidates, Marginals
from runtime.errors import CommitError
from runtime.frozen import Frozen
from runtime.heads.block import DiffusionBlock, FeatureBlock
from runtime.heads.layers import Keys
from runtime.heads.medusa import MedusaHeads

BlockHead = FeatureBlock | DiffusionBlock | MedusaHeads


@dataclass(frozen=True)
class BlockOffer:
    """How much of a block pass is offered.

    Attributes
    ----------
    nodes
        Prefixes of highest plug-in score (GLANCE Assumption 1).
    words
        Alternatives at each offset.
    """

    nodes: int = 64
    words: int = 16


class BlockSession:
    """One request's drafting state: what the committed rows offer to each layer, and the last context row."""

    def __init__(self, head: BlockHead, frozen: Frozen, offer: BlockOffer) -> None:
        self.head, self.frozen, self.offer = head, frozen, offer
        self.seen: tuple[Keys, ...] = ()
        self.last: Tensor | None = None
        self.rows = 0  # sources committed

    def fork(self) -> BlockSession:
        """Copy the state: another way on from here."""
        twin = BlockSession(self.head, self.frozen, self.offer)
        twin.seen, twin.last, twin.rows = self.seen, self.last, self.rows
        return twin

    @torch.inference_mode()
    def observe(self, states: Tensor | None, next_tokens: Sequence[int]) -> None:
        """Commit sources: the target's states (R, K, d) of rows, and the token that followed each (R,).

        Raises
        ------
        CommitError
            No states, or not one token for each.
        """
        if states is None or len(states) != len(next_tokens):
            found = "no" if states is None else len(states)
            raise CommitError(f"{found} states with {len(next_tokens)} next tokens, expected one of each")
        if not len(states):
            return
        dtype = self.frozen.embedding.dtype
        embedded = self.frozen.embed(torch.tensor([list(next_tokens)])).to(dtype)
        fused = self.head.fuse(states[None].to(dtype), embedded)
        own = self.head.context(fused, torch.arange(self.rows, self.rows + len(states)))
        self.seen = tuple(a.join(b) for a, b in zip(self.seen, own, strict=True)) if self.seen else own
        self.last = fused[:, -1]
        self.rows += len(states)

    @torch.inference_mode()
    def marginals(self, root: int, depth: int) -> Marginals:
        """Run the block pass behind ``root``; give the offsets up to ``depth``."""
        assert self.last is not None
        embedded = self.frozen.embed(torch.tensor([root])).to(self.last.dtype)
        rows = self.head.start(self.last, embedded)
        positions = self.head.positions(torch.tensor([self.rows]))
        mask = torch.ones(1, 1, 1, self.rows + rows.shape[1], dtype=torch.bool)
        out = self.head(rows, positions, self.seen, mask)[0, self.head.rows_before :]
        logits = (out[:depth].to(self.frozen.head.dtype) @ self.head.output(self.frozen).T).float()
        top = logits.log_softmax(-1).topk(min(self.offer.words, logits.shape[-1]), dim=-1)
        tokens = self.frozen.draft_tokens[top.indices]
        return Marginals(root, tokens.numpy(), np.minimum(top.values.double().numpy(), 0.0))

    def propose(self, tokens: Sequence[int], prompt_len: int, max_depth: int) -> Candidates:
        """Offer the best prefixes of one pass behind the root, the last of ``tokens``."""
        root, depth = int(tokens[-1]), min(self.head.config.block, max_depth)
        if self.last is None or depth < 1:
            return Candidates.none(root)
        return best_candidates(self.marginals(root, depth), root, self.offer.nodes, passes=1)
