"""Logistic regression on aggregated Bernoulli trials, by Newton's method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
        (k, k) inverse information, the penalty's included: then the posterior's under the prior that it stands for.
    cluster_covariance
        (k, k) cluster-robust covariance around that inverse; ``None`` where clusters are unknown.
    log_likelihood
        Of the Bernoulli trials, in nats, without the penalty.
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
    pull: Floats | None = None  # (k, k) curvature of the penalty

    def at(self, point: Floats, *, whole: bool = False) -> _Climb:
        """Evaluate slope and curvature at ``point`` (k,), block by block so that all of it stays in the cache.

        ``whole`` adds the residuals and the log-likelihood, which are wanted at the top only.
        """
        size = len(point)
        gradient, information, steepest = np.zeros(size), np.zeros((size, size)), 0.0
        value, residual = 0.0, np.empty(len(self.basis) if whole else 0)
        for rows in _blocks(len(self.basis)):
            columns, hits, trials = self.basis[rows].T, self.successes[rows], self.trials[rows]
            log_odds = point @ columns
            small = np.abs(log_odds)
            steepest = max(steepest, float(small.max()))
            np.exp(np.negative(small, out=small), out=small)  # of what is at most 0: never overflows
            match_prob = np.where(log_odds >= 0, 1.0, small) / (1.0 + small)
            expected = trials * match_prob
            missing = hits - expected
            gradient += columns @ missing
            information += (columns * (expected * (1.0 - match_prob))) @ columns.T
            if whole:
                residual[rows] = missing
                value += float(hits @ log_odds - trials @ (np.maximum(log_odds, 0.0) + np.log1p(small)))
        if self.pull is not None:
            gradient, information = gradient - self.pull @ point, information + self.pull
        return _Climb(point, gradient, information, steepest, value, residual)

    def thinned(self, step: int) -> _Data:
        """Keep every ``step``-th row."""
        basis = np.asfortranarray(self.basis[::step])
        pull = None if self.pull is None else self.pull / step
        return _Data(basis, self.transform, self.successes[::step].copy(), self.trials[::step].copy(), pull)


@dataclass(frozen=True, eq=False)
class _Climb:
    """A point (k,) on the way up: gradient (k,), information (k, k), largest |log odds|.

    At the top also the log-likelihood of the Bernoulli trials, nats, and the (n,) residuals.
    """

    point: Floats
    gradient: Floats
    information: Floats
    steepest: float
    log_likelihood: float
    residual: Floats

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
    penalty: ArrayLike | None = None,
) -> LogisticFit:
    r"""Maximise :math:`\sum_i w_i [s_i z_i - t_i \log(1 + e^{z_i})] - \sum_k \lambda_k \beta_k^2 / 2`, z = X beta.

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
    penalty
        (k,) ridge weights lambda >= 0, by default none: the precisions of normal priors around 0. A coefficient with
        one is finite whatever the outcomes.

    Raises
    ------
    NotIdentified
        No trials, collinear columns, or an estimate at infinity because the outcomes separate.
    FitError
        A number is not finite, or the shapes do not agree.
    """
    x, s, t = _checked(design, successes, trials, weight)
    names = tuple(names or (f"x{k}" for k in range(x.shape[1])))
    seen = t > 0
    if not seen.all():
        x, s, t = x[seen], s[seen], t[seen]
        cluster = None if cluster is None else np.asarray(cluster)[seen]
    if not len(x):
        raise NotIdentified("no trial was seen, so that nothing can be fitted")
    ridge = _checked_penalty(penalty, x.shape[1])
    data = _scaled(x, s, t, names, ridge)
    free = ridge == 0
    if free.all():
        top, iterations, converged = _summit(data, x, names)
    else:  # only what no penalty holds can run away
        top, iterations, converged = _summit(data, x[:, free], [name for name, f in zip(names, free, strict=True) if f])
    bread: Floats = np.asarray(np.linalg.inv(top.information), dtype=np.float64)
    scores = (column * top.residual for column in data.basis.T)
    robust = cluster_covariance(scores, bread, cluster, float(data.trials.sum()))
    back = data.transform
    return LogisticFit(
        coef=back @ top.point,
        covariance=back @ bread @ back.T,
        cluster_covariance=None if robust is None else back @ robust @ back.T,
        log_likelihood=top.log_likelihood,
        iterations=iterations,
        converged=converged,
    )


def _summit(data: _Data, x: Floats, names: Sequence[str]) -> tuple[_Climb, int, bool]:
    """Climb to the top, or say why it is at infinity; ``x`` is the unpenalised part of the design as given."""
    hit, miss = data.successes > 0, data.successes < data.trials
    start = _start(data, names)
    if start is None and (reason := find_separation(x, hit, miss, names)):
        raise _at_infinity(reason)
    top, iterations, converged = _newton(data, np.zeros(len(data.transform)) if start is None else start)
    suspect = x.shape[1] and (not converged or top.steep)
    if suspect and (reason := find_separating_direction(data.basis if data.pull is None else x, hit, miss)):
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
    here, iteration = data.at(start), 0
    unit = float(data.trials.mean())
    while iteration < limit:
        iteration += 1
        try:
            step = np.linalg.solve(here.information, here.gradient)
        except np.linalg.LinAlgError:
            break
        slope = float(here.gradient @ step)
        if slope <= 1e-12 * unit:  # so near that only the point itself still moves, in its last digits
            top = here if len(here.residual) else data.at(here.point, whole=True)
            return replace(top, point=here.point + step), iteration, True
        near = slope <= 1e-2 * unit  # steps square the distance: the next point may well be the top
        for _ in range(40):
            there = data.at(here.point + step, whole=near)
            if abs(float(there.gradient @ step)) <= 0.9 * slope:
                break
            step, slope = step / 2, slope / 2
        else:
            break
        here = there
    return data.at(here.point, whole=True), iteration, False


def _scaled(x: Floats, successes: Floats, trials: Floats, names: Sequence[str], ridge: Floats) -> _Data:
    """Bring the columns to a common scale; where they nearly depend on each other, make them orthonormal as well.

    Columns stand one behind the other, so that every pass over them reads memory in order; what is so already, and of
    a middling scale, is taken as it is.
    """
    if len(x) < np.count_nonzero(ridge == 0):
        raise NotIdentified(f"{len(x)} rows cannot identify {x.shape[1]} coefficients")
    columns = np.asfortranarray(x)
    scale = np.array([max(float(column.max()), -float(column.min())) for column in columns.T])
    safe = np.where((scale < 1e-2) | (scale > 1e2), np.where(scale > 0, scale, 1.0), 1.0)
    if (safe != 1.0).any():
        columns = columns / safe
    gram = sum((columns[rows].T * trials[rows]) @ columns[rows] for rows in _blocks(len(x)))
    roots = np.diag(np.sqrt(ridge) / safe)  # the penalty is a row for each coefficient, of outcome 0
    pull = roots @ roots if ridge.any() else None
    if np.linalg.cond(gram if pull is None else gram + pull) < 1e6:
        return _Data(columns, np.diag(1.0 / safe), successes, trials, pull)
    rows = columns * np.sqrt(trials)[:, None]
    triangle: Floats = np.asarray(np.linalg.qr(rows if pull is None else np.vstack([rows, roots]))[1])
    dependent = np.abs(np.diag(triangle)) <= 1e-12 * np.linalg.norm(triangle, axis=0)
    if dependent.any():
        name = names[int(np.flatnonzero(dependent)[0])]
        raise NotIdentified(f"{name} does not vary apart from the other features, so that it has no coefficient")
    inverse = np.linalg.inv(triangle)
    pull = None if pull is None else inverse.T @ pull @ inverse
    return _Data(np.asfortranarray(columns @ inverse), inverse / safe[:, None], successes, trials, pull)


def _checked(design: ArrayLike, successes: ArrayLike, trials: ArrayLike, weight: ArrayLike | None) -> list[Floats]:
    """Give the design, and successes and trials times the weight."""
    x, s, t = np.asarray(design, dtype=np.float64), np.asarray(successes), np.asarray(trials)
    w = np.ones(()) if weight is None else np.asarray(weight)
    agree = s.shape == t.shape == (len(x),) and (weight is None or w.shape == s.shape)
    if x.ndim != 2 or not x.shape[1] or not agree:
        raise FitError(f"design {x.shape}, successes {s.shape}, trials {t.shape}, weight {w.shape} do not agree")
    with np.errstate(over="ignore", invalid="ignore"):
        # A finite sum has only finite terms; the reverse need not hold.
        finite = all(np.isfinite(values.sum()) or np.isfinite(values).all() for values in (x, s, t, w))
    if not finite:
        raise FitError("design, successes, trials and weight must be finite numbers")
    if (s < 0).any() or (s > t).any() or (w < 0).any():
        raise FitError("expected 0 <= successes <= trials, and weights >= 0")
    return [x, np.multiply(w, s, dtype=np.float64), np.multiply(w, t, dtype=np.float64)]


def _checked_penalty(penalty: ArrayLike | None, size: int) -> Floats:
    ridge = np.zeros(size) if penalty is None else np.asarray(penalty, dtype=np.float64)
    if ridge.shape != (size,) or not (np.isfinite(ridge) & (ridge >= 0)).all():
        raise FitError(f"penalty is {ridge.tolist()}, expected {size} finite numbers >= 0")
    return ridge


def _blocks(rows: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK) for start in range(0, rows, _BLOCK))


def _at_infinity(reason: str) -> NotIdentified:
    return NotIdentified(f"the maximum likelihood estimate is at infinity: {reason}")
