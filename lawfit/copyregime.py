"""The cap of the entropy law at zero entropy, and what a copy state must do to break it (GLANCE Theorem 2)."""

from __future__ import annotations

import math

import numpy as np

from lawfit.errors import FitError
from lawfit.laws.base import require_horizon
from lawfit.survival import expit, mean


def cap(b0: float, horizon: int | None = None) -> float:
    r"""Greatest mean that the entropy law allows, reached as H falls to 0 (GLANCE Theorem 2 A).

    .. math:: \sup_H E[a \mid H] = M(\sigma(b_0), L) \le e^{b_0}, \qquad M(p, L) = \sum_{l=1}^{L} p^l

    Parameters
    ----------
    b0
        Log odds of a match at zero entropy.
    horizon
        L; without it the cap of every horizon, e^b0.

    Returns
    -------
    float
        Accepted draft tokens, bonus excluded.
    """
    if not math.isfinite(b0):
        raise FitError(f"b0 is {b0}, expected a finite number")
    return math.exp(b0) if horizon is None else ordinary_mean(float(expit(b0)), horizon)


def ordinary_mean(match_prob: float, horizon: int) -> float:
    """M(p, L): the mean accepted length, bonus excluded, of a state with one match probability at every offset."""
    require_horizon(horizon)
    _require_share("match_prob", match_prob)
    return float(mean(np.array([match_prob]), horizon))


def copy_floor(pi: float, rho_ordinary: float, horizon: int) -> float:
    r"""Mean at zero entropy where a share of the rounds copies to the end (GLANCE Theorem 2 B).

    .. math:: \pi L + (1 - \pi)\, M(\rho_U, L)

    It is the limit of the two-state chain only if the ordinary state never turns into the copy state (t_UD = 0), a
    condition that the paper does not state. If it may, rounds that enter later add to the mean: then this is a lower
    bound.

    Parameters
    ----------
    pi
        Probability that a round starts in the copy state, which matches every offset and never ends.
    rho_ordinary
        Match probability of the ordinary state.
    horizon
        L.
    """
    _require_share("pi", pi)
    return pi * horizon + (1.0 - pi) * ordinary_mean(rho_ordinary, horizon)


def copy_threshold(bound: float, ordinary: float, horizon: int) -> float:
    r"""Share of copying rounds at which the floor reaches a cap (GLANCE Theorem 2 B).

    .. math:: \pi^\star = \frac{\mathrm{bound} - M(\rho_U)}{L - M(\rho_U)}

    Parameters
    ----------
    bound
        The cap to reach: e^b0 in the paper, `cap` with a horizon for the sharp one.
    ordinary
        M(rho_U), the mean of the ordinary state.
    horizon
        L.

    Raises
    ------
    FitError
        Not 0 <= ordinary <= bound <= L with ordinary < L: then no share, or any, reaches the cap.
    """
    require_horizon(horizon)
    if not 0.0 <= ordinary <= bound <= horizon or ordinary == horizon:
        raise FitError(f"ordinary {ordinary}, bound {bound}, horizon {horizon}, expected 0 <= ordinary <= bound <= L")
    return (bound - ordinary) / (horizon - ordinary)


def _require_share(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise FitError(f"{name} is {value}, expected a number from 0 to 1")
