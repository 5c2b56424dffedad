"""How a feature drafter drafts: from the target's states of the committed rows to a trie of candidates.

The drafter keeps keys of its own, apart from the target's cache: one row for each committed source t, which read the
target's f_t and x_{t+1}. Draft rows are held for one round only, and forgotten with it: whatever was accepted is read
again from the target's states (seed 000, 0x05D).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from policy.candidates import Candidates
from runtime.errors import CommitError
from runtime.frozen import Frozen
from runtime.heads.expanding import Expanding
from runtime.heads.layers import Keys


@dataclass(frozen=True)
class Expansion:
    """How far a drafter expands (EAGLE-2, seed 000, 0x06B).

    Attributes
    ----------
    depth
        Passes; the deepest offset.
    width
        Nodes that are expanded at each depth, those of the highest path value.
    children
        Alternatives of each expanded node.
    """

    depth: int = 5
    width: int = 8
    children: int = 8


class FeatureSession:
    """One request's drafting state.

    Rows are committed in order by `observe`; `propose` leaves no trace.
    """

    def __init__(self, head: Expanding, frozen: Frozen, expansion: Expansion) -> None:
        self.head, self.frozen, self.expansion = head, frozen, expansion
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
            No states, or not one token for each.
        """
        if states is None or len(states) != len(next_tokens):
            found = "no" if states is None else len(states)
            raise CommitError(f"{found} states with {len(next_tokens)} next tokens, expected one of each")
        if not len(states):
            return
        read = self.head.read(states[None].to(self.frozen.embedding.dtype))
        fused = self.head.fuse(read, self.frozen.embed(torch.tensor([list(next_tokens)])).to(read.dtype))
        positions = torch.arange(self.rows, self.rows + len(states))
        own = self.head.keys(fused, positions)
        self.keys = own if self.keys is None else self.keys.join(own)
        mask = torch.ones(1, 1, 1, self.rows, dtype=torch.bool)
        self.last = self.head(fused[:, -1:], positions[-1:], self.keys, mask)

    @torch.inference_mode()
    def propose(self, tokens: Sequence[int], prompt_len: int, max_depth: int) -> Candidates:
        """Expand a trie below the root, the last of ``tokens``, level by level."""
        root = int(tokens[-1])
        depth = min(self.expansion.depth, max_depth)
        if self.keys is None or self.last is None or depth < 1:
            return Candidates.none(root)
        trie = _Trie(root)
        state, frontier, kept = self.last[0], [0], self.keys
        committed = self.rows
        # The draft rows on each node's path, as places behind the committed keys.
        came_from: dict[int, list[int]] = {0: []}
        for level in range(depth):
            children = self._children(trie, frontier, state)
            if level + 1 == depth or not children:
                break
            frontier = sorted(children, key=lambda node: (-trie.value[node], node))[: self.expansion.width]
            parents = [trie.parent[node] for node in frontier]
            source = torch.stack([trie.state[parent] for parent in parents])[None]
            words = torch.tensor([[trie.tokens[node] for node in frontier]])
            fused = self.head.fuse(source, self.frozen.embed(words).to(source.dtype))
            positions = torch.full((len(frontier),), committed + level)
            start = kept.count - committed
            kept = kept.join(self.head.keys(fused, positions))
            mask = torch.zeros(1, 1, len(frontier), kept.count, dtype=torch.bool)
            mask[..., :committed] = True
            for k, (node, parent) in enumerate(zip(frontier, parents, strict=True)):
                came_from[node] = [*came_from[parent], start + k]
                mask[0, 0, k, [committed + row for row in came_from[node]]] = True
            state = self.head(fused, positions, kept, mask)[0]
        return trie.candidates(passes=depth)

    def _children(self, trie: _Trie, frontier: list[int], state: Tensor) -> list[int]:
        """Add the likeliest words below each node of the frontier, whose states are (W, d)."""
        count = min(self.expansion.children, len(self.frozen.draft_tokens))
        weights = self.head.output(self.frozen)
        logits = self.head.readout(state).to(weights.dtype) @ weights.T
        top = logits.float().log_softmax(-1).topk(count, dim=-1)
        tokens = self.frozen.draft_tokens[top.indices]
        added = []
        for k, node in enumerate(frontier):
            trie.state[node] = state[k]
            for log_prob, token in zip(top.values[k].tolist(), tokens[k].tolist(), strict=True):
                added.append(trie.add(node, token, log_prob))
        return added


class _Trie:
    """Candidates under construction: tokens, parents, conditional log probabilities, path values, states."""

    def __init__(self, root: int) -> None:
        self.tokens, self.parent, self.log_prob, self.value = [root], [-1], [0.0], [0.0]
        self.state: dict[int, Tensor] = {}

    def add(self, parent: int, token: int, log_prob: float) -> int:
        self.tokens.append(token)
        self.parent.append(parent)
        self.log_prob.append(min(log_prob, 0.0))
        self.value.append(self.value[parent] + self.log_prob[-1])
        return len(self.tokens) - 1

    def candidates(self, passes: int) -> Candidates:
        return Candidates(np.array(self.tokens), np.array(self.parent), np.array(self.log_prob), 0.0, passes)
