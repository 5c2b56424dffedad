"""Batches of texts for training, in an order that seed and step alone decide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from runtime.training.features import Features
from runtime.training.rows import compile_soft_rows


@dataclass(frozen=True, eq=False)
class Batch:
    """B texts, padded on the right to S places.

    Attributes
    ----------
    tokens
        (B, S).
    states
        (B, S, K + 1, d), fp32 or bf16: taps, and the final state last.
    supervise
        (B, S) source rows of the soft objective: x_{t+1} is an output token, and f_{t+1} exists.
    """

    tokens: Tensor
    states: Tensor
    supervise: Tensor

    @property
    def final(self) -> Tensor:
        """(B, S, d) states that the output head reads."""
        return self.states[:, :, -1]


def batches(features: Features, rows: int, seed: int, dtype: torch.dtype, start: int = 0) -> Iterator[Batch]:
    """Yield batches of about ``rows`` places without end, from batch ``start`` on.

    Every epoch deals all texts anew; texts of like length share a batch, so that little is padded.
    """
    number = epoch = 0
    while True:
        for chosen in _deal(features, rows, seed, epoch):
            if number >= start:
                yield make_batch(features, chosen, dtype)
            number += 1
        epoch += 1


def make_batch(features: Features, chosen: list[int], dtype: torch.dtype) -> Batch:
    """Pad the chosen texts to one length."""
    parts = [features.text(k) for k in chosen]
    longest = max(len(tokens) for tokens, _, _ in parts)
    tokens = torch.zeros(len(parts), longest, dtype=torch.long)
    states = torch.zeros(len(parts), longest, *parts[0][1].shape[1:], dtype=dtype)
    valid, output = torch.zeros(2, len(parts), longest, dtype=torch.bool)
    for b, (ids, kept, prompt) in enumerate(parts):
        tokens[b, : len(ids)], states[b, : len(ids)] = ids, kept.to(dtype)
        valid[b, : len(ids)] = True
        # The root that a draft starts from, x_{t+1}, is an output token.
        output[b, prompt - 1 : len(ids)] = True
    segment = torch.arange(len(parts))[:, None].expand(-1, longest)
    position = torch.arange(longest)[None].expand(len(parts), -1)
    plan = compile_soft_rows(valid, segment, position, output)
    supervise = torch.zeros_like(valid)
    supervise[plan.batch, plan.source] = plan.supervise
    return Batch(tokens, states, supervise)


def _deal(features: Features, rows: int, seed: int, epoch: int) -> Iterator[list[int]]:
    rng = np.random.default_rng([seed, epoch])
    lengths = np.diff(features.starts)
    # Sorting by a blurred length keeps like lengths together and yet changes the company every epoch.
    order = np.argsort(lengths * rng.uniform(0.8, 1.25, len(lengths)))
    groups, chosen, longest = [], list[int](), 0
    for k in order.tolist():
        longest = max(longest, int(lengths[k]))
        if chosen and longest * (len(chosen) + 1) > rows:
            groups.append(chosen)
            chosen, longest = [], int(lengths[k])
        chosen.append(k)
    groups.append(chosen)
    rng.shuffle(groups)
    return iter(groups)
