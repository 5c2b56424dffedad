"""How a feature drafter drafts: from the target's states of the committed rows to a trie of candidates.

The drafter keeps keys of its own, apart from the target's cache: one row for each committed source t, which read the
target's f_t and x_{t+1}. Draft rows are held for one round only, and forgotten with it: whatever was accepted is read
again from the target's states (seed 000, 0x05D).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from policy.candidates import Candidates
from runtime.frozen import Frozen
from runtime.heads.expanding import Expanding
from runtime.heads.layers import Keys
from runtime.heads.trie import Alternative, Expansion, Trie, expand, likeliest
from runtime.states import paired


class FeatureSession:
    """One request's drafting state.

    Rows are committed in order by `observe`; `propose` leaves no trace.
    """

    def __init__(self, head: Expanding, frozen: Frozen, expansion: Expansion) -> None:
        self.head, self.frozen, self.expansion = head, frozen, expansion
        self.taps = getattr(head.config, "taps", 1)
        self.width = getattr(head.config, "source", 0) or frozen.embedding.shape[1]
        self.keys: Keys | None = None
        self.last: Tensor | None = None

    @property
    def rows(self) -> int:
        """Sources committed."""
        return 0 if self.keys is None else self.keys.count

    def fork(self) -> FeatureSession:
        """Copy the state: another way on from here."""
        twin = FeatureSession(self.head, self.frozen, self.expansion)
        twin.keys, twin.last = self.keys, self.last
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
        read = self.head.read(states[None].to(self.frozen.embedding.dtype))
        fused = self.head.fuse(read, self.frozen.look_up(next_tokens).to(read.dtype))
        positions = torch.arange(self.rows, self.rows + len(states), device=read.device)
        own = self.head.keys(fused, positions)
        self.keys = own if self.keys is None else self.keys.join(own)
        mask = torch.ones(1, 1, 1, self.rows, dtype=torch.bool, device=read.device)
        self.last = self.head(fused[:, -1:], positions[-1:], self.keys, mask)

    @torch.inference_mode()
    def propose(self, tokens: Sequence[int], prompt_len: int, max_depth: int) -> Candidates:
        """Expand a trie below the root, the last of ``tokens``, level by level."""
        root = int(tokens[-1])
        if self.keys is None or self.last is None:
            return Candidates.none(root)
        return expand(root, self.expansion, max_depth, _Draft(self, self.keys, self.last[0]))


class _Draft:
    """The rows of one offer: they are held for it alone."""

    def __init__(self, session: FeatureSession, kept: Keys, state: Tensor) -> None:
        self.head, self.frozen, self.children = session.head, session.frozen, session.expansion.children
        self.committed, self.kept = kept.count, kept
        self.first, self.states = state, dict[int, Tensor]()

    def __call__(self, trie: Trie, nodes: Sequence[int]) -> list[list[Alternative]]:
        """Predict the states behind the nodes (W, d), and the likeliest words of each."""
        state = self.first if nodes == [0] else self._pass(trie, nodes)
        self.states.update(zip(nodes, state, strict=True))
        weights = self.head.output(self.frozen)
        logits = self.head.readout(state).to(weights.dtype) @ weights.T
        return likeliest(logits, self.children, self.frozen.draft_tokens)

    def _pass(self, trie: Trie, nodes: Sequence[int]) -> Tensor:
        """Feed one row for each node: its parent's state and its own word."""
        source = torch.stack([self.states[trie.parent[node]] for node in nodes])[None]
        words = self.frozen.look_up([trie.tokens[node] for node in nodes])
        fused = self.head.fuse(source, words.to(source.dtype))
        device = self.frozen.device
        positions = torch.tensor([self.committed + trie.depth[node] - 1 for node in nodes], device=device)
        self.kept = self.kept.join(self.head.keys(fused, positions))
        # The root has no draft row: its own is the last committed one.
        drafted = torch.from_numpy(trie.visible(nodes)[:, 1:]).to(device)
        before = torch.ones(len(nodes), self.committed, dtype=torch.bool, device=device)
        mask = torch.cat([before, drafted], dim=1)
        return self.head(fused, positions, self.kept, mask[None, None])[0]
