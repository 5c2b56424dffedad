"""How a block head drafts: one pass for all offsets, and one more past the block where its spine is confident."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from policy.build import best_candidates
from policy.candidates import Candidates, Marginals
from policy.errors import TreeError
from policy.extended import Extended, confident_spine
from runtime.frozen import Frozen
from runtime.heads.block import DiffusionBlock, FeatureBlock
from runtime.heads.layers import Keys
from runtime.heads.link import Link
from runtime.heads.linked import LinkedDraft
from runtime.heads.medusa import MedusaHeads
from runtime.heads.trie import Expansion, expand
from runtime.states import paired

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
    extend_above
        Run one more pass past the block where the spine's most probable path has at least this value, with as much of
        it revealed; ``None`` for one pass only.
    width
        Prefixes that are followed at each offset where the offsets are linked.
    """

    nodes: int = 64
    words: int = 16
    extend_above: float | None = None
    width: int = 8

    def __post_init__(self) -> None:
        """Refuse what is no count, or no probability."""
        for name in ("nodes", "words", "width"):
            if type(value := getattr(self, name)) is not int or value < 1:
                raise TreeError(f"offer: {name} is {value!r}, expected a whole number of at least 1")
        if self.extend_above is not None and not self.extend_above > 0:
            raise TreeError(f"offer: extend_above is {self.extend_above!r}, expected a probability above 0")


class BlockSession:
    """One request's drafting state: what the committed rows offer to each layer, and the last context row."""

    def __init__(self, head: BlockHead, frozen: Frozen, offer: BlockOffer) -> None:
        self.head, self.frozen, self.offer = head, frozen, offer
        self.taps, self.width = getattr(head.config, "taps", 1), frozen.embedding.shape[1]
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
            No states, not one token for each, or states of another shape.
        """
        states = paired(states, next_tokens, self.taps, self.width)
        if not len(states):
            return
        dtype = self.frozen.embedding.dtype
        fused = self.head.fuse(states[None].to(dtype), self.frozen.look_up(next_tokens).to(dtype))
        own = self.head.context(fused, self._range(self.rows, len(states)))
        self.seen = tuple(a.join(b) for a, b in zip(self.seen, own, strict=True)) if self.seen else own
        self.last = fused[:, -1]
        self.rows += len(states)

    @torch.inference_mode()
    def marginals(self, root: int, depth: int) -> Marginals:
        """Run the block pass behind ``root``; give the offsets up to ``depth``."""
        return self._read(root, self._block(self.frozen.look_up([root])[:, 0])[:, :depth])

    @torch.inference_mode()
    def propose(self, tokens: Sequence[int], prompt_len: int, max_depth: int) -> Candidates:
        """Offer the best prefixes behind the root, the last of ``tokens``."""
        root, depth = int(tokens[-1]), min(self.head.config.block, max_depth)
        if self.last is None or depth < 1:
            return Candidates.none(root)
        predicted = self._block(self.frozen.look_up([root])[:, 0])
        if (link := getattr(self.head, "link", None)) is not None:
            return self._linked(link, root, predicted, max_depth)
        first = self._read(root, predicted[:, :depth])
        least = self.offer.extend_above
        spine = confident_spine(first, least) if least is not None else 0
        if spine < 1 or spine >= max_depth or isinstance(self.head, MedusaHeads):
            return best_candidates(first, root, self.offer.nodes, passes=1)
        beyond = self._read(root, self._beyond(root, predicted, first.tokens[:spine, 0].tolist()))
        extended = Extended(first, beyond.prefix(max_depth - spine), spine)
        return best_candidates(extended, root, self.offer.nodes, passes=2)

    def _linked(self, link: Link, root: int, predicted: Tensor, max_depth: int) -> Candidates:
        """Follow the best prefixes of linked offsets, behind a confident spine with a second block."""
        draft = partial(LinkedDraft, link, self.frozen, self.head.output(self.frozen))
        depth, blocks, path = min(len(predicted[0]), max_depth), [predicted[0]], list[int]()
        if (least := self.offer.extend_above) is not None:
            chain = expand(root, Expansion(depth, 1, 1), depth, draft(1, blocks))
            path = chain.tokens[1:][np.cumsum(chain.log_prob[1:]) >= np.log(least)].tolist()
            if 0 < len(path) < max_depth:
                blocks.append(self._beyond(root, predicted, path)[0])
                depth = min(len(path) + len(predicted[0]), max_depth)
        shape = Expansion(depth, self.offer.width, self.offer.words)
        grown = expand(root, shape, depth, draft(self.offer.words, blocks, path), self.offer.nodes)
        return best_candidates(grown, root, self.offer.nodes, passes=len(blocks))

    def _range(self, start: int, count: int) -> Tensor:
        return torch.arange(start, start + count, device=self.frozen.device)

    def _block(self, root: Tensor) -> Tensor:
        """Run the first pass behind a root's embedding (1, d): (1, L, d)."""
        assert self.last is not None
        rows = self.head.start(self.last, root)
        positions = self.head.positions(self._range(self.rows, 1))
        mask = self._range(0, self.rows + rows.shape[1])[None, None, None] >= 0
        return self.head(rows, positions, self.seen, mask)[:, self.head.rows_before :]  # type: ignore[no-any-return]

    def _beyond(self, root: int, predicted: Tensor, spine: list[int]) -> Tensor:
        """Run the second pass, with the spine revealed: (1, L, d); nothing of it is kept."""
        start = self.head.extend(
            predicted[:, : len(spine)], self.frozen.look_up(spine), self.frozen.look_up([root])[:, 0]
        )
        seen, count = self.seen, self.rows
        if start.context is not None:
            added = self.head.context(start.context, self._range(count, len(spine)))
            seen = tuple(a.join(b) for a, b in zip(seen, added, strict=True))
            count += len(spine)
        positions = self.head.positions(self._range(self.rows + start.shift, 1), start.rows.shape[1])
        mask = self._range(0, count + start.rows.shape[1])[None, None, None] >= 0
        return self.head(start.rows, positions, seen, mask)[:, self.head.rows_before + start.shown :]  # type: ignore[no-any-return]

    def _read(self, root: int, predicted: Tensor) -> Marginals:
        """Turn predicted rows (1, D, d) into the likeliest words of each offset."""
        logits = (predicted[0].to(self.frozen.head.dtype) @ self.head.output(self.frozen).T).float()
        top = logits.log_softmax(-1).topk(min(self.offer.words, logits.shape[-1]), dim=-1)
        tokens = self.frozen.draft_tokens[top.indices]
        return Marginals(root, tokens.cpu().numpy(), np.minimum(top.values.double().cpu().numpy(), 0.0))
