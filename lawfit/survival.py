"""The one likelihood, survival and mean that every law shares; a law supplies hazards only.

A hazard is the probability to *continue*: h_j = P[match at offset j | matches before j]. Hazard arrays have
shape (..., 1) where one hazard holds at every offset, or (..., L) with one per offset.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from lawfit.arrays import Floats
from lawfit.errors import NotIdentified
from lawfit.observations import Observations

MeanForm = Literal["truncated", "capped"]


def log_likelihood(hazard: ArrayLike, observations: Observations) -> float:
    r"""Weighted, right-censored log-likelihood of discrete survival.

    .. math:: \log L = \sum_i w_i \Big[\sum_{j \le a_i} \log h_{ij}
              + \mathrm{missed}_i \log(1 - h_{i, a_i + 1})\Big]

    The survival of GLANCE Eq. 3 with each round's own censoring.

    Parameters
    ----------
    hazard
        (n, 1) or (n, L), or with 1 row for all rounds.
    observations
        n rounds; accepted lengths exclude the bonus.

    Returns
    -------
    float
        In nats; ``-inf`` where a hazard of 0 or 1 rules out what was seen.
    """
    return float(observations.weight @ round_log_likelihood(hazard, observations))


def round_log_likelihood(hazard: ArrayLike, observations: Observations) -> Floats:
    """Log-likelihood of each round, nats, without its weight; (n,). See `log_likelihood`."""
    h = np.asarray(hazard, dtype=np.float64)
    a, missed = observations.accept_len, observations.missed
    with np.errstate(divide="ignore"):
        log_match, log_miss = np.log(h), np.log1p(-h)
    if h.shape[-1] == 1:
        matches = np.where(a > 0, a * log_match[:, 0], 0.0) if np.all(h > 0) else _matches(log_match[:, 0], a)
        misses = np.where(missed, log_miss[:, 0], 0.0)
    else:
        _require_offsets(h, int(observations.trials.max()))
        rows = np.arange(len(h)) if len(h) > 1 else np.zeros(len(a), dtype=np.int64)
        run = np.concatenate([np.zeros((len(h), 1)), np.cumsum(log_match, axis=1)], axis=1)
        matches = run[rows, a]
        misses = np.where(missed, log_miss[rows, np.minimum(a, h.shape[-1] - 1)], 0.0)
    return np.asarray(matches + misses)


def survival(hazard: ArrayLike, horizon: int) -> Floats:
    r"""P[a >= l] = \prod_{j \le l} h_j for l = 1..horizon (GLANCE Eq. 3); shape (..., horizon)."""
    h = np.asarray(hazard, dtype=np.float64)
    if h.shape[-1] == 1:
        return np.asarray(h ** np.arange(1, horizon + 1))
    _require_offsets(h, horizon)
    return np.asarray(np.cumprod(h[..., :horizon], axis=-1))


def mean(hazard: ArrayLike, horizon: ArrayLike, form: MeanForm = "truncated") -> Floats:
    r"""E[a], bonus excluded, within each round's own horizon.

    ``truncated`` is :math:`\sum_{l \le L} \prod_{j \le l} h_j` (GLANCE Eq. 3; Eq. 2 for one hazard).
    ``capped`` is :math:`\min(h / (1 - h), L)` with h held in [1e-6, 1 - 1e-9], the form of GLANCE's public
    code; it exists for one hazard only.

    Parameters
    ----------
    hazard
        (..., 1) or (..., L).
    horizon
        One horizon, or an array that broadcasts against the leading shape of ``hazard``.
    form
        Which mean.

    Returns
    -------
    Floats
        The leading shape of ``hazard``, broadcast with ``horizon``.
    """
    h, cap = np.asarray(hazard, dtype=np.float64), np.asarray(horizon)
    if h.shape[-1] == 1:
        return _capped(h[..., 0], cap) if form == "capped" else _geometric_sum(h[..., 0], cap)
    if form == "capped":
        raise NotIdentified("the capped mean min(p/(1-p), L) needs one hazard for all offsets")
    _require_offsets(h, int(cap.max()))
    sums = np.cumsum(np.cumprod(h, axis=-1), axis=-1)
    sums = np.concatenate([np.zeros((*h.shape[:-1], 1)), sums], axis=-1)
    lead = np.broadcast_shapes(h.shape[:-1], cap.shape)
    sums = np.broadcast_to(sums, (*lead, sums.shape[-1]))
    return np.take_along_axis(sums, np.broadcast_to(cap, lead)[..., None], axis=-1)[..., 0]


def hazard_of_mean(target: ArrayLike, horizon: int, form: MeanForm = "truncated") -> Floats:
    """Invert the mean of one hazard: h in [0, 1] with E[a] = ``target``, where 0 <= target <= horizon."""
    m = np.asarray(target, dtype=np.float64)
    if form == "capped":
        return np.asarray(m / (1.0 + m))
    low, high = np.zeros_like(m), np.ones_like(m)
    for _ in range(60):  # each halving gains one bit, and a double holds 53
        middle = 0.5 * (low + high)
        below = _geometric_sum(middle, np.asarray(horizon)) < m
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(m >= horizon, 1.0, 0.5 * (low + high))


def expit(log_odds: ArrayLike) -> Floats:
    """Logistic function, without overflow at either end."""
    z = np.asarray(log_odds, dtype=np.float64)
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1.0, small) / (1.0 + small))


def _geometric_sum(h: Floats, horizon: Floats) -> Floats:
    """Sum h + h^2 + ... + h^L as h (1 - h^L) / (1 - h), exact to rounding as h tends to 1."""
    miss = 1.0 - h
    safe = np.where(miss > 0, miss, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = -np.expm1(horizon * np.log1p(-safe))
    return np.where(miss > 0, np.where(horizon > 0, h * tail / safe, 0.0), horizon)


def _capped(h: Floats, horizon: Floats) -> Floats:
    held = np.clip(h, 1e-6, 1 - 1e-9)
    return np.asarray(np.minimum(held / (1.0 - held), horizon))


def _matches(log_match: Floats, accept_len: ArrayLike) -> Floats:
    """Give a * log h with 0 * log 0 = 0."""
    a = np.asarray(accept_len)
    seen = np.broadcast_to(log_match, a.shape)
    return np.where(a > 0, a * np.where(a > 0, seen, 0.0), 0.0)


def _require_offsets(hazard: Floats, horizon: int) -> None:
    if horizon > hazard.shape[-1]:
        raise NotIdentified(f"offset {horizon} was asked for, the hazards end at offset {hazard.shape[-1]}")
