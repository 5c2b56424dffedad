"""Two-model drafts: a smaller causal language model of the same vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from policy.candidates import Candidates
from runtime.cache import RowCache
from runtime.errors import CommitError, ManifestMismatch
from runtime.heads.trie import Alternative, Expansion, Trie, expand, likeliest
from runtime.pack import Packed
from runtime.target import Target


@dataclass(frozen=True, eq=False)
class TwoModelDrafter:
    """Drafts with a smaller model, level by level.

    Attributes
    ----------
    model
        The small model, frozen.
    expansion
        How far; width 1 with one alternative is the classic greedy chain.
    name
        For logs.
    """

    model: Target
    expansion: Expansion
    name: str = "two-model"

    @property
    def max_nodes(self) -> int:
        """Most candidates of one offer."""
        return self.expansion.max_nodes

    @property
    def reads(self) -> None:
        """No state of the target."""
        return

    def require(self, target: Target) -> TwoModelDrafter:
        """Check that both models mean the same by a token; return the drafter.

        Where both have a tokenizer, their vocabularies are compared word by word. Chat templates may differ.

        Raises
        ------
        ManifestMismatch
            Vocabularies of different sizes, or different words.
        """
        where = f"{self.model.name} cannot draft for {target.name}"
        if self.model.vocabulary != target.vocabulary:
            sizes = f"{self.model.vocabulary} tokens, expected {target.vocabulary}"
            raise ManifestMismatch(f"{where}: its vocabulary has {sizes}")
        if self.model.tokenizer is None or target.tokenizer is None:
            return self
        own, other = self.model.tokenizer.get_vocab(), target.tokenizer.get_vocab()
        if own != other:
            word = min(word for word in own.keys() | other.keys() if own.get(word) != other.get(word))
            ids = f"{own.get(word, 'absent')}, expected {other.get(word, 'absent')}"
            raise ManifestMismatch(f"{where}: in its vocabulary the token of {word!r:.40} is {ids}")
        return self

    def start(self) -> TwoModelSession:
        """Begin a request."""
        return TwoModelSession(self.model, self.expansion)


class TwoModelSession:
    """One request's rows in the small model's own cache.

    Attributes
    ----------
    followed
        Tokens whose rows are committed.
    cache
        Those rows; draft rows stand behind them while an offer grows, and no longer.
    last
        Logits (1, V) behind the last of them.
    """

    def __init__(self, model: Target, expansion: Expansion) -> None:
        self.model, self.expansion = model, expansion
        self.followed: list[int] = []
        self.cache = model.new_cache(0)
        self.last: Tensor | None = None

    def fork(self) -> TwoModelSession:
        """Copy the state: another way on from here."""
        twin = TwoModelSession(self.model, self.expansion)
        twin.followed, twin.last = list(self.followed), self.last
        twin.cache = self._copied(self.cache.capacity)
        return twin

    def observe(self, states: Tensor | None, next_tokens: Sequence[int]) -> None:
        """Wait: the next `propose` brings all tokens, and feeds in one pass those that came since."""

    def propose(self, tokens: Sequence[int], prompt_len: int, max_depth: int) -> Candidates:
        """Follow ``tokens``, and expand a trie below the root, the last of them.

        Where the text reaches the end of the small model's context, the offer is shallower, then empty.

        Raises
        ------
        CommitError
            ``tokens`` do not continue what was followed before.
        """
        root = int(tokens[-1])
        # A candidate at depth d is read behind position len(tokens) + d - 2.
        depth = min(max_depth, self.model.max_context + 1 - len(tokens))
        if min(depth, self.expansion.depth) < 1:
            return Candidates.none(root)
        try:
            self._follow([int(token) for token in tokens])
            return expand(root, self.expansion, depth, self._grow)
        finally:
            self.cache.commit([])  # forgets the draft rows

    def _follow(self, tokens: list[int]) -> None:
        """Feed and commit the tokens that have no row yet, the root among them: it is output already."""
        done = len(self.followed)
        if tokens[:done] != self.followed:
            at = next((k for k, (a, b) in enumerate(zip(tokens, self.followed, strict=False)) if a != b), len(tokens))
            raise CommitError(f"tokens leave those followed before at place {at}, expected a text that goes on")
        rows = len(tokens) + self.expansion.max_rows
        if rows > self.cache.capacity:
            # Twice as many each time: every row is copied a bounded number of times, however long the text.
            self.cache = self._copied(max(rows, 2 * self.cache.capacity))
        if done < len(tokens):
            self.last = self.model.prefill(tokens[done:], self.cache).logits
            self.followed = tokens

    def _grow(self, trie: Trie, nodes: Sequence[int]) -> list[list[Alternative]]:
        """Run one draft pass: the root's row is committed, all later levels are fed provisionally."""
        first = nodes == [0] and self.last is not None
        logits = self.last if first else self.model.verify(self._packed(trie, nodes), self.cache).logits
        return likeliest(logits, self.expansion.children)

    def _packed(self, trie: Trie, nodes: Sequence[int]) -> Packed:
        """Lay out one level: a row for each node, which sees the text, its ancestors' rows and itself.

        A sliding window counts the draft rows of earlier levels by their place rather than by their depth. Both agree
        that they are near unless the window is shorter than the expansion is deep.
        """
        device, context = self.model.device, self.cache.committed
        drafted = torch.from_numpy(trie.visible(nodes)[:, 1:])
        mask = torch.cat([torch.ones(len(nodes), context, dtype=torch.bool), drafted], dim=1)
        tokens = torch.tensor([[trie.tokens[node] for node in nodes]], device=device)
        positions = torch.tensor([[context - 1 + trie.depth[node] for node in nodes]], device=device)
        return Packed(tokens, positions, mask[None, None].to(device))

    @torch.inference_mode()
    def _copied(self, capacity: int) -> RowCache:
        """Copy the committed rows into a cache of its own."""
        twin, rows = self.model.new_cache(capacity), self.cache.committed
        if rows:
            for layer, source in zip(twin.rows, self.cache.rows, strict=True):
                layer.update(source.keys[:, :, :rows], source.values[:, :, :rows])
            twin.commit(list(range(rows)))
        return twin
