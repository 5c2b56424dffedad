"""One hazard, whatever the entropy and the offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lawfit import least_squares
from lawfit.arrays import Floats
from lawfit.cluster import cluster_covariance
from lawfit.errors import NotIdentified
from lawfit.laws.base import Estimate, Law, require_hazards, require_horizon
from lawfit.least_squares import LeastSquares
from lawfit.observations import Observations
from lawfit.survival import MeanForm

NAMES = ("match_prob",)
BOUNDARY = "match_prob is at the boundary of [0, 1], where it has no standard error"


@dataclass(frozen=True)
class Geometric(Law):
    r"""Geometric law: GLANCE Eq. 3 with :math:`p_{m,j} = p`, so that :math:`P[a \ge l] = p^l`.

    Maximum likelihood is the share of matches among the offsets seen, sum(a) / sum(trials).

    Attributes
    ----------
    match_prob
        The hazard p.
    horizon
        Offsets L of a block.
    """

    name: ClassVar[str] = "geometric"
    needs_entropy: ClassVar[bool] = False

    match_prob: float
    horizon: int = 15

    def __post_init__(self) -> None:
        require_hazards(self.match_prob)
        require_horizon(self.horizon)

    @property
    def params(self) -> dict[str, float | list[float]]:
        """Give match_prob."""
        return {"match_prob": self.match_prob}

    def _hazards(self, entropy: Floats) -> Floats:
        return np.full((*entropy.shape, 1), self.match_prob)

    @classmethod
    def _by_likelihood(cls, observations: Observations) -> Estimate:
        a, trials, weight = observations.accept_len, observations.trials, observations.weight
        total = float(weight @ trials)
        if total == 0:
            raise NotIdentified(f"{observations.source}: every round was cut before its first offset")
        match_prob = float(weight @ a) / total
        law = cls(match_prob, observations.longest)
        if match_prob in (0.0, 1.0):
            return Estimate(law, NAMES, None, None, "closed form", (BOUNDARY,))
        seen = trials > 0
        scores = [(weight * (a - match_prob * trials))[seen]]
        cluster = None if observations.cluster is None else observations.cluster[seen]
        robust = cluster_covariance(scores, np.array([[1.0 / total]]), cluster, total)
        plain = np.array([[match_prob * (1.0 - match_prob) / total]])
        return Estimate(law, NAMES, plain, robust, "closed form")

    @classmethod
    def _by_least_squares(cls, observations: Observations, method: LeastSquares, form: MeanForm) -> Estimate:
        fit = least_squares.fit_constant(observations, method, form)
        law = cls(float(fit.coef[0]), observations.longest)
        notes = () if fit.covariance is not None else (BOUNDARY,)
        return Estimate(law, NAMES, fit.covariance, fit.cluster_covariance, fit.status, notes)
