"""Bounds on acceptance from elsewhere, between which a fitted law may be drawn (GLANCE Figure 7)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from lawfit.arrays import Floats
from lawfit.errors import FitError
from lawfit.laws.base import require_horizon


def adaedl_bound(draft_entropy: ArrayLike, gamma: float = 0.2) -> Floats:
    r"""Bound the acceptance probability from below, as AdaEDL does (Agrawal et al. 2024).

    .. math:: P[\mathrm{match}] \ge 1 - \sqrt{\gamma H_{\mathrm{draft}}}

    The entropy is the *draft's*, so the bound is known before verification; drawn against the target's root entropy
    it bounds nothing. It rests on a tuned gamma that stands for an unknown divergence, so that single positions may
    fall below it (on public logs 9.9% do at gamma .2).

    Parameters
    ----------
    draft_entropy
        Any shape, nats.
    gamma
        Tuned constant, above 0.

    Returns
    -------
    Floats
        The shape of ``draft_entropy``; held at 0, where the bound says nothing (from `adaedl_vacuous_from` on).
    """
    entropy = _entropies(draft_entropy)
    _require_gamma(gamma)
    return np.maximum(1.0 - np.sqrt(gamma * entropy), 0.0)


def adaedl_vacuous_from(gamma: float = 0.2) -> float:
    """Draft entropy in nats from which AdaEDL's bound is 0: 1 / gamma."""
    _require_gamma(gamma)
    return 1.0 / gamma


def verification_ceiling(entropy: ArrayLike, budget: int) -> Floats:
    r"""Bound the accepted length of a tree of N nodes at root entropy H from above, as GLANCE Figure 7 does.

    .. math:: E[a \mid H] \le \frac{2 \log N}{H}

    Parameters
    ----------
    entropy
        Any shape, nats; the ceiling is infinite at 0.
    budget
        N, verified draft nodes, root excluded.

    Returns
    -------
    Floats
        Accepted draft tokens, bonus excluded. Below `ceiling_vacuous_below` it exceeds the horizon and says nothing.
    """
    _require_budget(budget)
    with np.errstate(divide="ignore", invalid="ignore"):
        ceiling = 2.0 * math.log(budget) / _entropies(entropy)
    return np.asarray(np.where(np.isnan(ceiling), 0.0, ceiling))  # one node at zero entropy: 0 / 0


def ceiling_vacuous_below(budget: int, horizon: int) -> float:
    """Entropy in nats below which the verification ceiling exceeds the horizon: 2 log N / L."""
    _require_budget(budget)
    require_horizon(horizon)
    return 2.0 * math.log(budget) / horizon


def _entropies(entropy: ArrayLike) -> Floats:
    values = np.asarray(entropy, dtype=np.float64)
    if not (values >= 0).all():
        raise FitError(f"an entropy is {float(values.min())}, expected nats >= 0")
    return values


def _require_gamma(gamma: float) -> None:
    if not (math.isfinite(gamma) and gamma > 0):
        raise FitError(f"gamma is {gamma}, expected a finite number above 0")


def _require_budget(budget: int) -> None:
    if budget < 1:
        raise FitError(f"budget is {budget}, expected at least 1 node")
