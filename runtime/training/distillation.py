"""Cross entropy through an output head, in pieces: the largest tensor of training is never held whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from runtime.errors import TrainingError

Teacher = Callable[[slice], Tensor]
"""Gives the target's distribution (r, D) over the draft words of some rows; it need not sum to 1."""

# Rows of one piece: its logits stay in the heap's reused blocks, and in reach of the caches.
_PIECE = 256
_LOWEST = -60.0  # far below, a CPU's exp is many times slower, and the loss says no more
RECALL = 10


@dataclass(frozen=True, eq=False)
class Distilled:
    """A loss, and how well the draft agreed.

    Attributes
    ----------
    loss
        Weighted mean over the rows, nats, fp32.
    accuracy, recall
        (R,) whether the draft's likeliest word is the teacher's, and whether its ten likeliest hold it.
    """

    loss: Tensor
    accuracy: Tensor
    recall: Tensor


def distil(states: Tensor, head: Tensor, teacher: Teacher, weight: Tensor | None = None) -> Distilled:
    r"""Mean cross entropy of rows against a teacher: :math:`-\sum_r w_r \sum_v q_{rv} \log p_{rv} / R`.

    The softmax, its logarithm and the sums are in fp32; the products with ``head`` are in the head's dtype.

    Parameters
    ----------
    states
        (R, d) what the output head reads.
    head
        (D, d) output weights; they get a gradient only where they ask for one.
    teacher
        See `Teacher`: `soft`, `top_k` or `hard`.
    weight
        (R,) weights of the rows; 1 by default.

    Raises
    ------
    TrainingError
        There is no row.
    """
    if not len(states):
        raise TrainingError("no supervised row: skip the step, weight decay included")
    weights = torch.ones(len(states)) if weight is None else weight.float()
    loss, accuracy, recall = _CrossEntropy.apply(states, head, weights / len(states), teacher)
    return Distilled(loss, accuracy, recall)


def soft(wanted: Tensor, head: Tensor) -> Teacher:
    """Distil the whole distribution of the target's features (R, d) over the draft words (EAGLE-1)."""
    return lambda rows: (wanted[rows].to(head.dtype) @ head.T).float().softmax(-1)


def top_k(wanted: Tensor, head: Tensor, k: int) -> Teacher:
    """Distil the target's ``k`` likeliest draft words, their mass not renormalised (HASS; seed 000, 0x07A)."""
    whole = soft(wanted, head)

    def teacher(rows: slice) -> Tensor:
        prob = whole(rows)
        mass, words = prob.topk(min(k, prob.shape[-1]), dim=-1)
        return torch.zeros_like(prob).scatter_(-1, words, mass)

    return teacher


def hard(words: Tensor, count: int) -> Teacher:
    """Distil observed draft words (R,) of ``count``; a word of -1, outside the draft vocabulary, has no mass."""

    def teacher(rows: slice) -> Tensor:
        chosen = words[rows]
        return functional.one_hot(chosen.clamp_min(0), count).float() * (chosen >= 0)[:, None]

    return teacher


class _CrossEntropy(torch.autograd.Function):
    """Loss and gradient in one sweep over pieces of rows."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, head: Tensor, weight: Tensor, teacher: Teacher
    ) -> tuple[Tensor, Tensor, Tensor]:
        loss = torch.zeros((), dtype=torch.float32)
        d_states = torch.empty(states.shape, dtype=torch.float32)
        d_head = torch.zeros(head.shape, dtype=torch.float32) if head.requires_grad else None
        accuracy, recall = torch.empty(2, len(states), dtype=torch.bool)
        for start in range(0, len(states), _PIECE):
            rows = slice(start, start + _PIECE)
            piece = states[rows].to(head.dtype)
            log_prob = (piece @ head.T).float()
            log_prob -= log_prob.amax(dim=-1, keepdim=True)
            log_prob = log_prob.clamp_min_(_LOWEST).log_softmax(-1)
            prob = teacher(rows)
            best = log_prob.gather(-1, prob.argmax(-1, keepdim=True))
            ahead = (log_prob > best).sum(-1)
            accuracy[rows], recall[rows] = ahead == 0, ahead < RECALL
            loss -= (weight[rows] * (prob * log_prob).sum(-1)).sum()
            gradient = log_prob.exp_().mul_(prob.sum(-1, keepdim=True)).sub_(prob).mul_(weight[rows, None])
            narrow = gradient.to(head.dtype)
            d_states[rows] = narrow @ head
            if d_head is not None:
                d_head += narrow.T @ piece
        ctx.save_for_backward(d_states.to(states.dtype), *(() if d_head is None else (d_head.to(head.dtype),)))
        ctx.mark_non_differentiable(accuracy, recall)
        return loss, accuracy, recall

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        d_states, *d_head = ctx.saved_tensors
        return grad_loss * d_states, grad_loss * d_head[0] if d_head else None, None, None
