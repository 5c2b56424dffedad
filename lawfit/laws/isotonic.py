"""A hazard that falls with entropy in steps, and is free otherwise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lawfit import least_squares
from lawfit.arrays import Floats
from lawfit.errors import FitError, NotIdentified
from lawfit.laws.base import Estimate, Law, require_hazards, require_horizon
from lawfit.least_squares import LeastSquares
from lawfit.observations import Observations
from lawfit.survival import MeanForm, hazard_of_mean


@dataclass(frozen=True)
class Isotonic(Law):
    r"""Isotonic law: GLANCE Eq. 2 with any non-increasing :math:`p_m(H)` in place of the affine logit.

    The monotone part alone is what GLANCE Proposition 1 (i) derives. Maximum likelihood pools adjacent
    violators among the shares of matches, exactly. It has no standard errors of the usual kind.

    Attributes
    ----------
    edges
        (K - 1,) increasing entropies at which a new step starts.
    hazards
        (K,) non-increasing hazards; ``hazards[k]`` holds for edges[k-1] <= H < edges[k].
    horizon
        Offsets L of a block.
    """

    name: ClassVar[str] = "isotonic"
    needs_entropy: ClassVar[bool] = True

    edges: tuple[float, ...]
    hazards: tuple[float, ...]
    horizon: int = 15

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", tuple(float(edge) for edge in self.edges))
        object.__setattr__(self, "hazards", tuple(float(hazard) for hazard in self.hazards))
        if len(self.hazards) != len(self.edges) + 1:
            raise FitError(f"{len(self.hazards)} hazards, expected {len(self.edges) + 1}: one more than edges")
        if not all(math.isfinite(edge) for edge in self.edges) or (np.diff(self.edges) <= 0).any():
            raise FitError("edges must be finite and increase")
        require_hazards(*self.hazards)
        if (np.diff(self.hazards) > 0).any():
            raise FitError("hazards must not increase with entropy")
        require_horizon(self.horizon)

    @property
    def params(self) -> dict[str, float | list[float]]:
        """Give edges and hazards."""
        return {"edges": list(self.edges), "hazards": list(self.hazards)}

    def _hazards(self, entropy: Floats) -> Floats:
        step = np.searchsorted(np.array(self.edges), entropy, side="right")
        return np.asarray(np.array(self.hazards)[step])[..., None]

    @classmethod
    def _by_likelihood(cls, observations: Observations) -> Estimate:
        entropy, weight = observations.entropy, observations.weight
        if entropy is None or not observations.trials.any():
            raise NotIdentified(f"{observations.source}: no round saw an offset")
        edges, hazards = falling_steps(entropy, weight * observations.accept_len, weight * observations.trials)
        law = cls(tuple(edges), tuple(hazards), observations.longest)
        return Estimate(law, (), None, None, f"pooled into {len(hazards)} steps")

    @classmethod
    def _by_least_squares(cls, observations: Observations, method: LeastSquares, form: MeanForm) -> Estimate:
        """Isotonic regression of a on H; each step's mean then names the hazard that has it."""
        points, horizon = least_squares.mean_points(observations, method)
        edges, means = falling_steps(points.low, points.weight * points.accept_len, points.weight)
        # Rounding of the inverse must not undo the order.
        hazards = np.minimum.accumulate(hazard_of_mean(np.minimum(means, horizon), horizon, form))
        law = cls(tuple(edges), tuple(hazards), horizon)
        return Estimate(law, (), None, None, f"pooled into {len(hazards)} steps")


def falling_steps(x: Floats, total: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Pool adjacent violators: the non-increasing step function of ``x`` nearest to ``total / weight``.

    It minimises the weighted squared error, and equally maximises the binomial likelihood of ``total``
    successes in ``weight`` trials (Barlow et al. 1972). Rows without weight are ignored.

    Returns
    -------
    edges, values
        (K - 1,) the smallest x of each step but the first, and (K,) the steps' ratios, strictly falling.
    """
    known = weight > 0
    start, group = np.unique(x[known], return_inverse=True)
    sums = np.bincount(group, weights=total[known])
    sizes = np.bincount(group, weights=weight[known])
    steps: list[tuple[float, float, float]] = []  # (smallest x, total, weight)
    for first, value, size in zip(start.tolist(), sums.tolist(), sizes.tolist(), strict=True):
        # Compare ratios by cross-multiplication: exact for counts.
        while steps and value * steps[-1][2] >= steps[-1][1] * size:
            first, before, width = steps.pop()
            value, size = value + before, size + width
        steps.append((first, value, size))
    table = np.array(steps)
    # Rounding of the quotients must not undo the order.
    return table[1:, 0], np.minimum.accumulate(table[:, 1] / table[:, 2])
