"""Logistic regression on aggregated Bernoulli trials, by Newton's method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lawfit.arrays import Floats, Ints
from lawfit.cluster import cluster_covariance
from lawfit.errors import FitError, NotIdentified
from lawfit.separation import find_separating_direction, find_separation

# Log odds beyond which an estimate may be on its way to infinity.
_STEEP = 15.0
# Rows that are evaluated together: their columns and what is computed of them fit into a core's cache.
_BLOCK = 8192
# Rows from which a thinned sample of half as many gives the start.
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
    """Rows with trials; columns are scaled, and made orthonormal where they nearly depend on each other."""

    basis: Floats  # (n, k) design @ transform, columns contiguous
    transform: Floats  # (k, k)
    successes: Floats  # (n,) weighted
    trials: Floats  # (n,) weighted

    def at(self, point: Floats) -> _Climb:
        """Evaluate slope and curvature at ``point`` (k,), block by block so that all of it stays in the cache."""
        size = len(point)
        residual = np.empty(len(self.basis))
        gradient, information, steepest = np.zeros(size), np.zeros((size, size)), 0.0
        for start in range(0, len(residual), _BLOCK):
            rows = slice(start, start + _BLOCK)
            columns = self.basis[rows].T
            log_odds = point @ columns
            small = np.abs(log_odds)
            steepest = max(steepest, float(small.max()))
            np.exp(np.negative(small, out=small), out=small)  # of what is at most 0: never overflows
            match_prob = np.where(log_odds >= 0, 1.0, small) / (1.0 + small)
            expected = self.trials[rows] * match_prob
            residual[rows] = self.successes[rows] - expected
            gradient += columns @ residual[rows]
            information += (columns * (expected * (1.0 - match_prob))) @ columns.T
        return _Climb(point, residual, gradient, information, steepest)

    def log_likelihood(self, point: Floats) -> float:
        """Sum the Bernoulli log-likelihood at ``point``, nats."""
        log_odds = self.basis @ point
        partition = np.maximum(log_odds, 0.0) + np.log1p(np.exp(-np.abs(log_odds)))
        return float(self.successes @ log_odds - self.trials @ partition)

    def thinned(self, step: int) -> _Data:
        """Keep every ``step``-th row."""
        basis = np.asfortranarray(self.basis[::step])
        return _Data(basis, self.transform, self.successes[::step].copy(), self.trials[::step].copy())


@dataclass(frozen=True, eq=False)
class _Climb:
    """A point (k,) on the way up: (n,) residuals, gradient (k,), information (k, k), largest |log odds|."""

    point: Floats
    residual: Floats
    gradient: Floats
    information: Floats
    steepest: float

    @property
    def steep(self) -> bool:
        """Whether some log odds are so large that the estimate may be on its way to infinity."""
        return self.steepest > _STEEP


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
    data = _scaled(x, w * s, w * t, names)
    top, iterations, converged = _summit(data, x, names)
    bread: Floats = np.asarray(np.linalg.inv(top.information), dtype=np.float64)
    scores = (data.basis.T * top.residual).T
    robust = cluster_covariance(scores, bread, cluster, float(data.trials.sum()))
    back = data.transform
    return LogisticFit(
        coef=back @ top.point,
        covariance=back @ bread @ back.T,
        cluster_covariance=None if robust is None else back @ robust @ back.T,
        log_likelihood=data.log_likelihood(top.point),
        iterations=iterations,
        converged=converged,
    )


def _summit(data: _Data, x: Floats, names: Sequence[str]) -> tuple[_Climb, int, bool]:
    """Climb to the top, or say why it is at infinity; ``x`` is the design as given."""
    hit, miss = data.successes > 0, data.successes < data.trials
    start = _start(data, names)
    if start is None and (reason := find_separation(x, hit, miss, names)):
        raise _at_infinity(reason)
    top, iterations, converged = _newton(data, np.zeros(x.shape[1]) if start is None else start)
    suspect = not converged or top.steep
    if suspect and (reason := find_separating_direction(data.basis, hit, miss)):
        raise _at_infinity(reason)
    return top, iterations, converged


def _start(data: _Data, names: Sequence[str]) -> Floats | None:
    """Give a point to climb from: the top of a thinned sample, which saves most of the steps over all rows.

    ``None`` for few rows, or where the sample has no sound estimate. If it has one, so have all rows: outcomes that
    overlap in a part overlap in the whole.
    """
    if len(data.basis) < _MANY:
        return None
    part = data.thinned(len(data.basis) // (_MANY // 2))
    if find_separation(
        part.basis @ np.linalg.inv(part.transform), part.successes > 0, part.successes < part.trials, names
    ):
        return None
    top, _, converged = _newton(part, np.zeros(data.basis.shape[1]))
    return top.point if converged and not top.steep else None


def _newton(data: _Data, start: Floats, limit: int = 100) -> tuple[_Climb, int, bool]:
    """Climb by Newton's steps until one promises next to nothing; a step that overshoots is halved.

    The objective is concave: along a step it rises until the slope turns, so the slopes at both ends tell whether the
    step went too far, and no value is needed on the way.
    """
    here = data.at(start)
    enough = 1e-9 * float(data.trials.mean())
    for iteration in range(1, limit + 1):
        try:
            step = np.linalg.solve(here.information, here.gradient)
        except np.linalg.LinAlgError:
            return here, iteration, False
        gain = float(here.gradient @ step)
        for _ in range(40):
            there = data.at(here.point + step)
            if abs(float(there.gradient @ step)) <= 0.9 * abs(float(here.gradient @ step)) or gain <= enough:
                break
            step = step / 2
        else:
            return here, iteration, False
        here = there
        if gain <= enough:
            return here, iteration, True
    return here, limit, False


def _scaled(x: Floats, successes: Floats, trials: Floats, names: Sequence[str]) -> _Data:
    """Scale the columns to at most 1; where they nearly depend on each other, make them orthonormal as well.

    Columns stand one behind the other, so that every pass over them reads memory in order.
    """
    columns = np.asfortranarray(x)
    scale = np.array([max(float(column.max()), -float(column.min())) for column in columns.T])
    safe = np.where(scale > 0, scale, 1.0)
    columns = columns / safe
    if len(x) < x.shape[1]:
        raise NotIdentified(f"{len(x)} rows cannot identify {x.shape[1]} coefficients")
    if np.linalg.cond((columns.T * trials) @ columns) < 1e6:
        return _Data(columns, np.diag(1.0 / safe), successes, trials)
    triangle: Floats = np.asarray(np.linalg.qr(columns * np.sqrt(trials)[:, None])[1])
    dependent = np.abs(np.diag(triangle)) <= 1e-12 * np.linalg.norm(triangle, axis=0)
    if dependent.any():
        name = names[int(np.flatnonzero(dependent)[0])]
        raise NotIdentified(f"{name} does not vary apart from the other features, so that it has no coefficient")
    inverse = np.linalg.inv(triangle)
    return _Data(np.asfortranarray(columns @ inverse), inverse / safe[:, None], successes, trials)


def _checked(design: ArrayLike, successes: ArrayLike, trials: ArrayLike, weight: ArrayLike | None) -> list[Floats]:
    x = np.asarray(design, dtype=np.float64)
    s, t = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    w = np.ones_like(t) if weight is None else np.asarray(weight, dtype=np.float64)
    if x.ndim != 2 or not x.shape[1] or not (s.shape == t.shape == w.shape == (len(x),)):
        raise FitError(f"design {x.shape}, successes {s.shape}, trials {t.shape}, weight {w.shape} do not agree")
    with np.errstate(over="ignore", invalid="ignore"):
        # A finite sum has only finite terms; the reverse need not hold.
        finite = all(np.isfinite(values.sum()) or np.isfinite(values).all() for values in (x, s, t, w))
    if not finite:
        raise FitError("design, successes, trials and weight must be finite numbers")
    if (s < 0).any() or (s > t).any() or (w < 0).any():
        raise FitError("expected 0 <= successes <= trials, and weights >= 0")
    return [x, s, t, w]


def _at_infinity(reason: str) -> NotIdentified:
    return NotIdentified(f"the maximum likelihood estimate is at infinity: {reason}")
