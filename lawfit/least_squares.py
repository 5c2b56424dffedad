"""Least squares on the mean accepted length: on rounds, as in GLANCE's public code, and on decile means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lawfit import survival
from lawfit.arrays import Floats
from lawfit.cluster import cluster_covariance
from lawfit.curve import Curve, entropy_curve
from lawfit.errors import FitError, NotIdentified
from lawfit.observations import Observations
from lawfit.survival import MeanForm

LeastSquares = Literal["ls-rounds", "ls-deciles"]
FEWEST_ROUNDS = 30
STEEPEST = 25.0


@dataclass(frozen=True, eq=False)
class LeastSquaresFit:
    """Coefficients (k,) with their covariances (k, k), and how the optimiser ended."""

    coef: Floats
    covariance: Floats | None
    cluster_covariance: Floats | None
    status: str


@dataclass(frozen=True, eq=False)
class MeanPoints:
    """What is fitted, rounds or bins of rounds: (m,) means, rounds behind each, and its least entropy."""

    accept_len: Floats
    weight: Floats
    low: Floats


def fit_affine(observations: Observations, method: LeastSquares, form: MeanForm) -> LeastSquaresFit:
    r"""Fit (b0, b1) of GLANCE Eq. 2 to the mean accepted length, by Levenberg-Marquardt.

    .. math:: \min_{b_0, b_1} \sum_i \big(a_i - m(\sigma(b_0 - b_1 H_i), L_i)\big)^2

    over rounds (``ls-rounds``) or ten decile means (``ls-deciles``), with m the ``truncated`` sum of Eq. 2 or
    the ``capped`` form of GLANCE's public code, from b0 the log of the mean accepted length and b1 = 1. The
    covariances are Gauss-Newton's; the cluster-robust one takes a round for its decile's mean entropy where
    deciles are fitted. A censored round enters with the length it has, so drop the last rounds.

    Raises
    ------
    FitError
        Fewer than 30 rounds, or the optimiser failed.
    NotIdentified
        Entropy or accepted length do not vary, or the slope ran beyond 25.
    """
    from scipy.optimize import least_squares

    entropy = _checked(observations)
    curve = entropy_curve(observations) if method == "ls-deciles" else None
    if curve and len(curve.rounds) < 3:
        raise NotIdentified(f"{observations.source}: {len(curve.rounds)} bins of entropy, expected at least 3")
    residual = _decile_residual(curve, form) if curve else _round_residual(observations, entropy, form)
    start = np.array([np.log(max(observations.mean_accept_len, 0.05)), 1.0])
    found = least_squares(residual, start, method="lm", max_nfev=20000)
    if found.status <= 0:
        raise FitError(f"{observations.source}: least squares did not converge ({found.message})")
    _require_slope(float(found.x[1]), observations.source)
    return _with_errors(found, observations, curve)


def mean_points(observations: Observations, method: LeastSquares) -> tuple[MeanPoints, int]:
    """Give the points of a fit that has no formula in entropy, and their one horizon.

    Raises
    ------
    FitError
        Fewer than 30 rounds, or several horizons.
    """
    _require_rounds(observations)
    horizon = one_horizon(observations)
    if method == "ls-deciles":
        curve = entropy_curve(observations)
        return MeanPoints(curve.accept_len, curve.rounds, curve.low), horizon
    entropy = np.zeros(len(observations)) if observations.entropy is None else observations.entropy
    return MeanPoints(observations.accept_len.astype(np.float64), observations.weight, entropy), horizon


def fit_constant(observations: Observations, method: LeastSquares, form: MeanForm) -> LeastSquaresFit:
    """Fit one hazard: the mean of a over rounds, or of the ten decile means, inverted by the delta method.

    Raises
    ------
    FitError
        Fewer than 30 rounds, or several horizons.
    """
    _require_rounds(observations)
    horizon = one_horizon(observations)
    share = np.full(len(observations), 1.0 / observations.rounds)
    if method == "ls-deciles":
        curve = entropy_curve(observations)
        share = 1.0 / (len(curve.rounds) * curve.rounds[curve.bin])
    target = float((observations.weight * share) @ observations.accept_len)
    influence = observations.weight * share * (observations.accept_len - target)
    hazard = float(survival.hazard_of_mean(target, horizon, form))
    slope = _mean_slope(hazard, horizon, form)
    if not 0.0 < hazard < 1.0:
        return LeastSquaresFit(np.array([hazard]), None, None, "closed form, at the boundary")
    plain = np.array([[float((influence**2 / observations.weight).sum())]])
    robust = cluster_covariance([influence], np.eye(1), observations.cluster, observations.rounds)
    return LeastSquaresFit(
        np.array([hazard]), plain / slope**2, None if robust is None else robust / slope**2, "closed form"
    )


def one_horizon(observations: Observations) -> int:
    """Give the horizon that all rounds share, or raise `FitError`."""
    low, high = int(observations.horizon.min()), int(observations.horizon.max())
    if low != high:
        raise FitError(
            f"{observations.source}: horizons run from {low} to {high}, so that a mean names no one hazard;"
            " use method mle"
        )
    return high


def _checked(observations: Observations) -> Floats:
    _require_rounds(observations)
    entropy = observations.entropy
    if entropy is None or np.ptp(entropy) == 0:
        raise NotIdentified(f"{observations.source}: {observations.signal} does not vary: it has no slope")
    if np.ptp(observations.accept_len) == 0:
        raise NotIdentified(
            f"{observations.source}: accept_len is {observations.accept_len[0]} in every round, so that least"
            " squares puts the law at infinity"
        )
    return entropy


def _require_rounds(observations: Observations) -> None:
    if observations.rounds < FEWEST_ROUNDS:
        raise FitError(f"{observations.source}: {observations.rounds:.0f} rounds, least squares needs {FEWEST_ROUNDS}")


def _require_slope(slope: float, source: str) -> None:
    if not abs(slope) <= STEEPEST:
        raise NotIdentified(
            f"{source}: least squares ran to a slope of {slope:.4g} per nat, beyond {STEEPEST:g}:"
            " acceptance steps with entropy, or hardly depends on it; look at the curve"
        )


def _round_residual(observations: Observations, entropy: Floats, form: MeanForm) -> Callable[[Floats], Floats]:
    root = np.sqrt(observations.weight)

    def residual(coef: Floats) -> Floats:
        fitted = survival.mean(_hazard(coef, entropy), observations.horizon, form)
        return np.asarray(root * (fitted - observations.accept_len))

    return residual


def _decile_residual(curve: Curve, form: MeanForm) -> Callable[[Floats], Floats]:
    def residual(coef: Floats) -> Floats:
        hazard = _hazard(coef, curve.entropy)
        return curve.expected(lambda cap: survival.mean(hazard, cap, form)) - curve.accept_len

    return residual


def _hazard(coef: Floats, entropy: Floats) -> Floats:
    """Give (m, 1) hazards, their log odds held within 60 of zero."""
    return survival.expit(np.clip(coef[0] - coef[1] * entropy, -60.0, 60.0))[:, None]


def _with_errors(found: Any, observations: Observations, curve: Curve | None) -> LeastSquaresFit:
    jacobian, residual = np.asarray(found.jac), np.asarray(found.fun)
    normal = jacobian.T @ jacobian
    if np.linalg.matrix_rank(normal, hermitian=True) < 2:
        raise NotIdentified(f"{observations.source}: the mean does not respond to one of b0 and b1")
    bread = np.linalg.inv(normal)
    if curve is None:
        freedom, trials = observations.rounds - 2, observations.rounds
        # Residuals and Jacobian both carry the root of the weight.
        scores = -jacobian * residual[:, None]
    else:
        freedom, trials = len(residual) - 2, observations.rounds
        # The residual of a round from its decile's fitted mean: lack of fit counts, as it does on rounds.
        error = observations.accept_len - (curve.accept_len + residual)[curve.bin]
        scores = jacobian[curve.bin] * (observations.weight * error / curve.rounds[curve.bin])[:, None]
    plain = bread * float(residual @ residual) / freedom if freedom > 0 else None
    robust = cluster_covariance(scores.T, bread, observations.cluster, trials)
    return LeastSquaresFit(np.asarray(found.x), plain, robust, f"converged in {found.nfev} evaluations")


def _mean_slope(hazard: float, horizon: int, form: MeanForm) -> float:
    """Differentiate the mean by the hazard."""
    if form == "capped":
        return 1.0 / (1.0 - hazard) ** 2 if hazard < 1.0 else np.inf
    offsets = np.arange(1, horizon + 1)
    return float((offsets * hazard ** (offsets - 1)).sum())
