"""What a head borrows from its target, frozen: the embedding and the output head, and the words it drafts from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from runtime.errors import TrainingError
from runtime.target import Target


@dataclass(frozen=True, eq=False)
class Frozen:
    """Embedding and output weights of a target, without gradient.

    Attributes
    ----------
    embedding
        (V, d).
    head
        (D, d) output weights of the draft vocabulary.
    draft_tokens
        (D,) target id of each draft word: d2t. All ids in order where the draft vocabulary is the target's own.
    """

    embedding: Tensor
    head: Tensor
    draft_tokens: Tensor

    @classmethod
    def of(cls, target: Target, draft_tokens: Tensor | None = None, dtype: torch.dtype = torch.float32) -> Frozen:
        """Borrow from a loaded target; products with the head are in ``dtype``."""
        embedding = target.model.get_input_embeddings().weight.detach().to(dtype)
        head = target.model.get_output_embeddings().weight.detach().to(dtype)
        tokens = torch.arange(len(head)) if draft_tokens is None else draft_tokens
        tokens = tokens.to(head.device)
        if tokens.unique().numel() != len(tokens) or int(tokens.max()) >= len(head):
            raise TrainingError(f"{len(tokens)} draft words, expected different token ids below {len(head)}")
        return cls(embedding, head[tokens].contiguous(), tokens)

    @property
    def whole(self) -> bool:
        """Whether every token of the target can be drafted."""
        return len(self.draft_tokens) == len(self.embedding)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embedding.device

    def look_up(self, tokens: Sequence[int]) -> Tensor:
        """Look up (1, R, d) embeddings of a list of token ids."""
        return self.embed(torch.tensor([list(tokens)], device=self.device))

    def embed(self, tokens: Tensor) -> Tensor:
        """Look up (..., d) embeddings of token ids (...)."""
        return functional.embedding(tokens, self.embedding)

    def logits(self, feature: Tensor) -> Tensor:
        """Map features (..., d) to logits (..., D) of the draft words."""
        return feature.to(self.head.dtype) @ self.head.T

    def draft_ids(self) -> Tensor:
        """Give t2d, (V,): the draft word of each target token, -1 where there is none."""
        ids = torch.full((len(self.embedding),), -1, device=self.device)
        ids[self.draft_tokens] = torch.arange(len(self.draft_tokens), device=self.device)
        return ids


def draft_vocabulary(outputs: Iterable[Iterable[int]], size: int, vocabulary: int) -> Tensor:
    """Choose the ``size`` most frequent tokens of some outputs, in the order of their ids; the rest is filled by id."""
    counts = Counter(token for output in outputs for token in output)
    common = [token for token, _ in counts.most_common(size)]
    chosen = set(common)
    common += [token for token in range(vocabulary) if token not in chosen][: size - len(common)]
    return torch.tensor(sorted(common), dtype=torch.long)
