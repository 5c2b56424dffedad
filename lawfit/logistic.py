"""Logistic regression on aggregated Bernoulli trials, by Newton's method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from lawfit.arrays import Floats, Ints
from lawfit.cluster import cluster_covariance
from lawfit.errors import FitError, NotIdentified
from lawfit.separation import find_separating_direction, find_separation

# Log odds beyond which an estimate may be on its way to infinity.
_STEEP = 15.0
# Rows from which a thinned sample of a tenth as many gives the start.
_MANY = 10_000


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """A fitted logistic regression.

    Attributes
    ----------
    coef
        (k,) coefficients of the design's columns.
    covariance
        (k, k) inverse information.
    cluster_covariance
        (k, k) cluster-robust covariance; ``None`` where clusters are unknown.
    log_likelihood
        Of the Bernoulli trials, in nats.
    iterations, converged
        Newton steps taken, and whether the last one was negligible.
    """

    coef: Floats
    covariance: Floats
    cluster_covariance: Floats | None
    log_likelihood: float
    iterations: int
    converged: bool


@dataclass(frozen=True, eq=False)
class _Data:
    """Rows with trials, their columns made orthonormal: Newton's method then feels no scaling."""

    basis: Floats  # (n, k) design @ transform
    transform: Floats  # (k, k)
    successes: Floats  # (n,)
    trials: Floats  # (n,)
    weight: Floats  # (n,)

    def at(self, point: Floats) -> _Climb:
        """Evaluate everything at ``point`` (k,) from one exponential."""
        log_odds = self.basis @ point
        # exp never overflows here, and 1 + small is in [1, 2], where log is as good as log1p, and quicker.
        small = np.exp(-np.abs(log_odds))
        whole = 1.0 + small
        match_prob = np.where(log_odds >= 0, 1.0, small) / whole
        partition = np.maximum(log_odds, 0.0) + np.log(whole)
        expected = self.trials * match_prob
        return _Climb(
            point=point,
            value=float((self.weight * self.successes) @ log_odds - (self.weight * self.trials) @ partition),
            residual=self.weight * (self.successes - expected),
            curvature=self.weight * expected * (1.0 - match_prob),
            steepest=max(float(log_odds.max()), -float(log_odds.min())),
        )

    def thinned(self, step: int) -> _Data:
        """Keep every ``step``-th row."""
        rows = slice(None, None, step)
        return replace(
            self,
            basis=self.basis[rows],
            successes=self.successes[rows],
            trials=self.trials[rows],
            weight=self.weight[rows],
        )

    def information(self, here: _Climb) -> Floats:
        columns = self.basis.T
        return np.asarray((columns * here.curvature) @ self.basis, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Climb:
    """A point (k,) on the way up: its value, (n,) residuals and curvatures, and largest |log odds|."""

    point: Floats
    value: float
    residual: Floats
    curvature: Floats
    steepest: float


def fit_logistic(
    design: ArrayLike,
    successes: ArrayLike,
    trials: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    cluster: Ints | None = None,
    names: Sequence[str] | None = None,
) -> LogisticFit:
    r"""Maximise :math:`\sum_i w_i [s_i z_i - t_i \log(1 + e^{z_i})]` with :math:`z = X \beta`.

    The aggregated form of the binomial GLM on expanded trials: the same estimate, log-likelihood and cluster
    covariance.

    Parameters
    ----------
    design
        (n, k); give a column of ones for an intercept.
    successes, trials
        (n,) counts; rows without trials hold no information.
    weight
        (n,) rows that each row stands for; 1 by default.
    cluster
        (n,) cluster numbers, for the robust covariance.
    names
        k names of the columns, for messages.

    Raises
    ------
    NotIdentified
        No trials, collinear columns, or an estimate at infinity because the outcomes separate.
    FitError
        A number is not finite, or the shapes do not agree.
    """
    x, s, t, w = _checked(design, successes, trials, weight)
    names = tuple(names or (f"x{k}" for k in range(x.shape[1])))
    seen = w * t > 0
    if not seen.all():
        x, s, t, w = x[seen], s[seen], t[seen], w[seen]
        cluster = None if cluster is None else np.asarray(cluster)[seen]
    if not len(x):
        raise NotIdentified("no trial was seen, so that nothing can be fitted")
    hit, miss = s > 0, s < t
    data = _orthonormal(x, s, t, w, names)
    if reason := find_separation(x, hit, miss, names):
        raise _at_infinity(reason)
    top, iterations, converged = _newton(data, _start(data))
    suspect = not converged or top.steepest > _STEEP
    if suspect and (reason := find_separating_direction(data.basis, hit, miss)):
        raise _at_infinity(reason)
    bread: Floats = np.asarray(np.linalg.inv(data.information(top)), dtype=np.float64)
    robust = cluster_covariance(
        data.basis * top.residual[:, None],
        bread,
        cluster,
        float(w @ t),
    )
    back = data.transform
    return LogisticFit(
        coef=back @ top.point,
        covariance=back @ bread @ back.T,
        cluster_covariance=None if robust is None else back @ robust @ back.T,
        log_likelihood=top.value,
        iterations=iterations,
        converged=converged,
    )


def _start(data: _Data) -> Floats:
    """Give a point to climb from: the top of a thinned sample saves most of the steps over all rows."""
    origin = np.zeros(data.basis.shape[1])
    if len(data.basis) < _MANY:
        return origin
    top, _, converged = _newton(data.thinned(len(data.basis) // (_MANY // 10)), origin)
    return top.point if converged and top.steepest < _STEEP else origin


def _newton(data: _Data, start: Floats, limit: int = 100) -> tuple[_Climb, int, bool]:
    """Climb by Newton's steps, halved as needed, until one promises less than 1e-12 nats."""
    here = data.at(start)
    enough = 1e-12 * float(data.weight.mean())
    for iteration in range(1, limit + 1):
        gradient = data.basis.T @ here.residual
        try:
            step = np.linalg.solve(data.information(here), gradient)
        except np.linalg.LinAlgError:
            return here, iteration, False
        gain = float(gradient @ step)
        for _ in range(40):
            there = data.at(here.point + step)
            # At the top the values differ by rounding only, which must not stop the last step.
            if there.value >= here.value - 1e-12 * abs(here.value):
                break
            step = step / 2
        else:
            return here, iteration, False
        here = there
        if gain <= enough:
            return here, iteration, True
    return here, limit, False


def _orthonormal(x: Floats, s: Floats, t: Floats, w: Floats, names: Sequence[str]) -> _Data:
    """Make the weighted columns orthonormal, refusing those that depend on others."""
    scale = np.abs(x).max(axis=0)
    safe = np.where(scale > 0, scale, 1.0)
    scaled = x / safe
    if len(x) < x.shape[1]:
        raise NotIdentified(f"{len(x)} rows cannot identify {x.shape[1]} coefficients")
    gram = scaled.T @ (scaled * (w * t)[:, None])
    # The Gram matrix is quicker than a QR of all rows, but squares the condition.
    if np.linalg.cond(gram) < 1e8:
        triangle: Floats = np.asarray(np.linalg.cholesky(gram).T)
    else:
        triangle = np.asarray(np.linalg.qr(scaled * np.sqrt(w * t)[:, None])[1])
    dependent = np.abs(np.diag(triangle)) <= 1e-12 * np.linalg.norm(triangle, axis=0)
    if dependent.any():
        name = names[int(np.flatnonzero(dependent)[0])]
        raise NotIdentified(f"{name} does not vary apart from the other features, so that it has no coefficient")
    inverse = np.linalg.inv(triangle)
    # Columns stand one behind the other: every pass over them reads memory in order.
    return _Data(np.asfortranarray(scaled @ inverse), inverse / safe[:, None], s, t, w)


def _checked(design: ArrayLike, successes: ArrayLike, trials: ArrayLike, weight: ArrayLike | None) -> list[Floats]:
    x = np.asarray(design, dtype=np.float64)
    s, t = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    w = np.ones_like(t) if weight is None else np.asarray(weight, dtype=np.float64)
    if x.ndim != 2 or not x.shape[1] or not (s.shape == t.shape == w.shape == (len(x),)):
        raise FitError(f"design {x.shape}, successes {s.shape}, trials {t.shape}, weight {w.shape} do not agree")
    if not all(np.isfinite(values).all() for values in (x, s, t, w)):
        raise FitError("design, successes, trials and weight must be finite numbers")
    if (s < 0).any() or (s > t).any() or (w < 0).any():
        raise FitError("expected 0 <= successes <= trials, and weights >= 0")
    return [x, s, t, w]


def _at_infinity(reason: str) -> NotIdentified:
    return NotIdentified(f"the maximum likelihood estimate is at infinity: {reason}")
