"""Maximum likelihood of a survival with two eigenvalues, from counts by offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lawfit.arrays import Floats
from lawfit.cluster import cluster_covariance
from lawfit.errors import NotIdentified
from lawfit.observations import Observations
from lawfit.risk import risk_table

# Nearer to an edge of the parameters than this, the estimate is on it.
_EDGE = 1e-6
# Free parameters stay above this, away from where both states vanish.
_LEAST = 1e-8
# Nearer to each other two eigenvalues are one, with a weight that grows without bound.
_MOST = np.array([1.0, 0.999, 1.0])
# A gain over one hazard below this, in nats, is none: two states cannot be told from one.
_NO_GAIN = 1e-7
# A gain, in nats, that one hazard gives by chance one time in twenty (half of the field note's 5.54).
_LITTLE = 2.77
Start = tuple[float, float, float]
_STARTS: tuple[Start, ...] = ((0.95, 0.5, 0.5), (0.9, 0.9, 0.1), (0.99, 0.7, 0.9), (0.7, 0.2, 0.6), (0.95, 0.8, 0.99))


@dataclass(frozen=True, eq=False)
class TwoStateFit:
    """(w, lam1, lam2) with (3, 3) covariances, ``None`` on an edge; the log-likelihood in nats; how it ended."""

    coef: Floats
    covariance: Floats | None
    cluster_covariance: Floats | None
    log_likelihood: float
    status: str
    notes: tuple[str, ...] = ()


def hazards(coef: Floats, horizon: int) -> Floats:
    """Hazards h_1..h_L of S_l = w lam1^l + (1 - w) lam2^l; ``coef`` (..., 3) gives (..., L)."""
    return _hazards_and_slopes(np.asarray(coef), horizon)[0]


def climb(matches: Floats, misses: Floats, starts: Sequence[Start] = _STARTS) -> tuple[Floats, Floats]:
    """Maximise over (w, lam1, lam2) the likelihood of counts by offset, for B logs at once.

    Damped Fisher scoring from several points, within bounds.

    Parameters
    ----------
    matches, misses
        (B, L) rounds that went on at each offset, and that missed there.
    starts
        Points (lam1, lam2 / lam1, share of the way from lam2 to 1 of the first hazard) to climb from; the single
        hazard is tried as well.

    Returns
    -------
    coef, log_likelihood
        (B, 3) with 0 <= lam2 <= lam1 <= 1 and the first hazard between lam2 and 1; (B,) nats.
    """
    logs = len(matches)
    single = np.clip(matches.sum(axis=1) / (matches + misses).sum(axis=1), _LEAST, 1.0)
    alone = np.stack([single, np.full(logs, 0.999), np.full(logs, _LEAST)], axis=1)
    points = np.concatenate([alone[:, None], np.tile(np.array(starts), (logs, 1, 1))], axis=1)
    tries = points.shape[1]
    hit, miss = np.repeat(matches, tries, axis=0), np.repeat(misses, tries, axis=0)
    free, value = _scored(hit, miss, points.reshape(-1, 3), tries)
    best = value.reshape(logs, tries).argmax(axis=1) + tries * np.arange(logs)
    return _from_free(free[best])[0], value[best]


def _scored(matches: Floats, misses: Floats, free: Floats, tries: int) -> tuple[Floats, Floats]:
    """Climb from (N, 3) points, ``tries`` for each log; steps shorten where they lose, and lengthen where they gain.

    Done when the best try of no log gains any more: some of the others creep along the ridge of one hazard.
    """
    damping = np.full(len(free), 1e-3)
    value, gradient, information = _at(matches, misses, free)
    idle = 0
    for taken in range(400):
        held = ((free <= _LEAST) & (gradient < 0)) | ((free >= _MOST) & (gradient > 0))
        slope = np.where(held, 0.0, gradient)
        both = held[:, :, None] | held[:, None, :]
        curve = np.where(both, 0.0, information)
        diagonal = np.einsum("nii->ni", curve)
        bump = np.where(held, 1.0, damping[:, None] * diagonal + 1e-10)
        step = np.linalg.solve(curve + bump[:, :, None] * np.eye(3), slope[:, :, None])[:, :, 0]
        there = np.clip(free + step, _LEAST, _MOST)
        found = _at(matches, misses, there)
        better = found[0] >= value
        best = value.reshape(-1, tries).max(axis=1)
        free = np.where(better[:, None], there, free)
        value = np.where(better, found[0], value)
        gradient = np.where(better[:, None], found[1], gradient)
        information = np.where(better[:, None, None], found[2], information)
        damping = np.clip(np.where(better, damping / 8.0, damping * 5.0), 1e-12, 1e12)
        gain = float((value.reshape(-1, tries).max(axis=1) - best).max())
        idle = idle + 1 if gain < 1e-10 else 0
        if idle >= 12 and taken > 40:  # by then damping has tried steps of every length
            break
    return free, value


def _at(matches: Floats, misses: Floats, free: Floats) -> tuple[Floats, Floats, Floats]:
    """Give (N,) values, (N, 3) gradients and (N, 3, 3) expected information at (N, 3) points."""
    coef, chain = _from_free(free)
    h, slopes = _hazards_and_slopes(coef, matches.shape[1])
    h = np.clip(h, 1e-12, 1.0 - 1e-12)
    value = (matches * np.log(h) + misses * np.log1p(-h)).sum(axis=1)
    slopes = slopes @ chain
    gradient = ((matches / h - misses / (1.0 - h))[:, None, :] @ slopes)[:, 0]
    weight = (matches + misses) / (h * (1.0 - h))
    return value, gradient, np.swapaxes(slopes * weight[:, :, None], 1, 2) @ slopes


def fit_two_state(observations: Observations) -> TwoStateFit:
    """Fit (w, lam1, lam2) to rounds by maximum likelihood, with errors where the estimate is inside its range.

    Raises
    ------
    NotIdentified
        Fewer than three offsets were seen, or no round missed, or none went on.
    """
    table = risk_table(observations)
    if len(table.offset) < 3:
        raise NotIdentified(f"{observations.source}: {len(table.offset)} offsets were seen, two states need at least 3")
    matches = table.at_risk - table.misses
    if not table.misses.any() or not matches.any():
        what = "missed" if not table.misses.any() else "went on"
        raise NotIdentified(f"{observations.source}: no round {what}, so that two states cannot be told")
    coefs, values = climb(matches[None], table.misses[None])
    coef, value = coefs[0], float(values[0])
    single = matches.sum() / table.at_risk.sum()
    alone = float(matches.sum() * np.log(single) + table.misses.sum() * np.log1p(-single))
    if value <= alone + _NO_GAIN:
        note = "two states gain nothing over one hazard: w and lam2 are not identified"
        return TwoStateFit(np.array([1.0, single, 0.0]), None, None, alone, "one hazard", (note,))
    edges = _edges(coef)
    if edges:
        note = f"on an edge of the parameters ({', '.join(edges)}), where there are no standard errors"
        return TwoStateFit(coef, None, None, value, "converged on an edge", (note,))
    plain, robust = _covariances(coef, observations)
    weak = f"two states gain {value - alone:.2f} nats over one hazard: w and lam2 are hardly identified"
    return TwoStateFit(coef, plain, robust, value, "converged", (weak,) if value - alone < _LITTLE else ())


def _from_free(free: Floats) -> tuple[Floats, Floats]:
    """Map (lam1, lam2 / lam1, (h1 - lam2) / (1 - lam2)) to (w, lam1, lam2), with (..., 3, 3) slopes.

    Each of the three free numbers lies in [0, 1].
    """
    lam1, share, lift = free[..., 0], free[..., 1], free[..., 2]
    lam2 = lam1 * share
    gap = np.maximum(lam1 - lam2, 1e-9)
    w = lift * (1.0 - lam2) / gap
    by_lam2, by_gap, none = -lift / gap, -w / gap, np.zeros_like(lam1)
    rows = [
        [by_lam2 * share + by_gap * (1.0 - share), (by_lam2 - by_gap) * lam1, (1.0 - lam2) / gap],
        [none + 1.0, none, none],
        [share, lam1, none],
    ]
    return np.stack([w, lam1, lam2], axis=-1), np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _hazards_and_slopes(coef: Floats, horizon: int) -> tuple[Floats, Floats]:
    """Give (..., L) hazards and their (..., L, 3) slopes; ratios to lam1^l keep deep offsets from vanishing."""
    w, lam1, lam2 = (coef[..., k, None] for k in range(3))
    safe = np.maximum(lam1, 1e-300)
    ratio, order = lam2 / safe, np.arange(horizon + 1)
    power = ratio**order
    scaled = np.maximum(w + (1.0 - w) * power, 1e-30)  # S_l / lam1^l
    h = lam1 * scaled[..., 1:] / scaled[..., :-1]
    lower = np.concatenate([np.zeros_like(w), order[1:] * power[..., :-1]], axis=-1)  # d power / d ratio
    log_w = np.diff((1.0 - power) / scaled, axis=-1)
    log_ratio = np.diff((1.0 - w) * lower / scaled, axis=-1)
    slopes = [h * log_w, (h - h * log_ratio * ratio) / safe, h * log_ratio / safe]
    return np.minimum(h, 1.0), np.stack(slopes, axis=-1)


def _edges(coef: Floats) -> list[str]:
    w, lam1, lam2 = (float(value) for value in coef)
    first = w * lam1 + (1.0 - w) * lam2
    names = {"lam1 = 1": lam1 > 1.0 - _EDGE, "lam2 = 0": lam2 < _EDGE, "h1 = 1": first > 1.0 - _EDGE}
    names |= {"lam2 = lam1": lam2 > (_MOST[1] - _EDGE) * lam1, "w = 0": w < _EDGE}
    return [name for name, on in names.items() if on]


def _covariances(coef: Floats, observations: Observations) -> tuple[Floats | None, Floats | None]:
    """Give the inverse of the expected information, and the sandwich by prompt; ``None`` where singular."""
    table = risk_table(observations)
    h, slopes = _hazards_and_slopes(coef, len(table.offset))
    information = (slopes.T * (table.at_risk / (h * (1.0 - h)))) @ slopes
    if np.linalg.cond(information) > 1e14:
        return None, None
    bread = np.asarray(np.linalg.inv(information))
    run = np.concatenate([np.zeros((1, 3)), np.cumsum(slopes / h[:, None], axis=0)])
    a, missed = observations.accept_len, observations.missed
    at = np.minimum(a, len(h) - 1)
    scores = run[a] - np.where(missed[:, None], (slopes / (1.0 - h)[:, None])[at], 0.0)
    scores = scores * observations.weight[:, None]
    robust = cluster_covariance(scores.T, bread, observations.cluster, float(table.at_risk.sum()))
    return bread, robust
