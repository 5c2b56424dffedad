"""How far a drafter's trees run along texts that are known: no target pass is needed where states are cached."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lawfit.arrays import Floats
from lawfit.bootstrap import Interval, bootstrap
from policy.candidates import Candidates
from policy.tree import DraftTree
from runtime.drafters import Drafter
from runtime.errors import TrainingError
from runtime.training.features import Features

Build = Callable[[Candidates], DraftTree]
"""Makes the tree of a round."""


@dataclass(frozen=True)
class Walked:
    """One text walked in rounds.

    Attributes
    ----------
    text
        Its number among the features.
    accept_len
        Accepted tokens of every round, bonus excluded.
    tokens
        Output tokens that the rounds gave, bonus included; the last round is cut where the text ends.
    """

    text: int
    accept_len: tuple[int, ...]
    tokens: int


def walk_text(drafter: Drafter, features: Features, text: int, build: Build) -> Walked:
    """Draft round after round along a text, as an engine would whose target writes it.

    The first output token is the first root, as after a prefill.
    """
    tokens, states, prompt = features.text(text)
    ids = tokens.tolist()
    session = drafter.start()
    root, lengths = prompt, list[int]()
    reads = drafter.reads is not None
    session.observe(states[:root].float() if reads else None, ids[1 : root + 1])
    while root < len(ids) - 1:
        candidates = session.propose(ids[: root + 1], prompt, len(ids) - 1 - root)
        tree = build(candidates)
        node = accepted = 0
        while root + 1 + accepted < len(ids):
            child = tree.children[node].get(ids[root + 1 + accepted])
            if child is None:
                break
            node, accepted = child, accepted + 1
        new = min(root + accepted + 1, len(ids) - 1)
        session.observe(states[root:new].float() if reads else None, ids[root + 1 : new + 1])
        lengths.append(accepted)
        root = new
    return Walked(text, tuple(lengths), len(ids) - 1 - prompt)


def walk_texts(drafter: Drafter, features: Features, texts: Sequence[int], build: Build) -> Iterator[Walked]:
    """Walk several texts that have at least one token behind their first root."""
    for text in texts:
        if int(features.starts[text + 1] - features.starts[text]) - int(features.prompts[text]) > 1:
            yield walk_text(drafter, features, text, build)


def tau(walked: Sequence[Walked]) -> Interval:
    r"""Tokens per target pass, :math:`\tau = E[a] + 1`, with a prompt-cluster bootstrap interval."""
    if not walked:
        raise TrainingError("no text has a token behind its first root, so there is nothing to walk")
    sums: Floats = np.array([[one.tokens, len(one.accept_len)] for one in walked], dtype=np.float64)
    return bootstrap(sums, lambda total: total[..., 0] / total[..., 1])
