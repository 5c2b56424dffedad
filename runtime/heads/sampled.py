"""A feature drafter that draws its chain, for rejection sampling: with the distribution of every token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from lawfit.arrays import Floats
from policy.candidates import Candidates
from runtime.frozen import Frozen
from runtime.heads.drafting import FeatureSession
from runtime.heads.expanding import Expanding
from runtime.heads.trie import Expansion
from runtime.rejection import SampledChain
from runtime.sampling import Sampling, draw
from runtime.states import FeatureAddress


@dataclass(frozen=True, eq=False)
class SampledDrafter:
    """Draws chains from a head that drafts one token a pass.

    Attributes
    ----------
    head, frozen, reads
        The head, what it borrows from the target, and which states it reads.
    sampling
        How the draft is drawn. Any is exact; the target's own temperature and filters keep most tokens.
    expansion
        Depth of a chain, and how the session expands trees where it is asked for one.
    name
        For logs.
    """

    head: Expanding
    frozen: Frozen
    reads: FeatureAddress
    sampling: Sampling
    expansion: Expansion = field(default_factory=Expansion)
    name: str = "sampled"

    @property
    def max_nodes(self) -> int:
        """Tokens of the longest chain."""
        return self.expansion.depth

    def start(self) -> SampledSession:
        """Begin a request."""
        return SampledSession(FeatureSession(self.head, self.frozen, self.expansion), self.sampling)


@dataclass(frozen=True, eq=False)
class SampledSession:
    """A `FeatureSession` that can also draw a chain."""

    session: FeatureSession
    sampling: Sampling

    def observe(self, states: Tensor | None, next_tokens: Sequence[int]) -> None:
        """Commit sources."""
        self.session.observe(states, next_tokens)

    def propose(self, tokens: Sequence[int], prompt_len: int, max_depth: int) -> Candidates:
        """Expand a trie below the root."""
        return self.session.propose(tokens, prompt_len, max_depth)

    def fork(self) -> SampledSession:
        """Copy the state."""
        return SampledSession(self.session.fork(), self.sampling)

    @torch.inference_mode()
    def draft(self, tokens: Sequence[int], prompt_len: int, max_depth: int, rng: np.random.Generator) -> SampledChain:
        """Draw a chain behind the root, the last of ``tokens``: one pass for each token."""
        head, frozen, keys, state = self.session.head, self.session.frozen, self.session.keys, self.session.last
        depth = min(self.session.expansion.depth, max_depth)
        drawn, rows = list[int](), np.zeros((depth, len(frozen.embedding)))
        if keys is None or state is None:
            return SampledChain.of(int(tokens[-1]), drawn, rows[:0])
        for level in range(depth):
            if level:
                fused = head.fuse(state, frozen.look_up(drawn[-1:]).to(state.dtype))
                positions = torch.tensor([keys.count], device=frozen.device)
                keys = keys.join(head.keys(fused, positions))
                mask = torch.ones(1, 1, 1, keys.count, dtype=torch.bool, device=frozen.device)
                state = head(fused, positions, keys, mask)
            rows[level] = self._probs(state[0, -1])
            drawn.append(draw(rows[level], rng.random()))
        return SampledChain.of(int(tokens[-1]), drawn, rows, passes=len(drawn))

    def _probs(self, state: Tensor) -> Floats:
        """Give the draft distribution (V,) behind a state (d,): 0 outside the draft vocabulary."""
        frozen = self.session.frozen
        weights = self.session.head.output(frozen)
        probs = np.zeros(len(frozen.embedding))
        logits = weights @ self.session.head.readout(state).to(weights.dtype)
        probs[frozen.draft_tokens.cpu().numpy()] = self.sampling.probs(logits)
        return probs
