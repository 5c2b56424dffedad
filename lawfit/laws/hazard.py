"""A free hazard at each offset, whatever the entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lawfit.arrays import Floats
from lawfit.cluster import cluster_covariance
from lawfit.errors import FitError, NotIdentified
from lawfit.laws.base import Estimate, Law, require_hazards
from lawfit.least_squares import LeastSquares
from lawfit.observations import Observations
from lawfit.risk import RiskTable, counts_by_prompt, risk_table
from lawfit.survival import MeanForm

MOST_ERRORS = 128
"""Most offsets with standard errors: a covariance grows with the square of their number."""


@dataclass(frozen=True)
class FreeHazard(Law):
    r"""Free hazards: GLANCE Eq. 3 with one :math:`p_{m,j}` per offset.

    Maximum likelihood is the share that continues among the rounds at risk at each offset, the product-limit
    estimate. The law ends at the last offset that a round was seen at. Beyond 128 offsets it has no standard errors.

    Attributes
    ----------
    hazards
        (L,) one hazard per offset.
    """

    name: ClassVar[str] = "hazard"
    needs_entropy: ClassVar[bool] = False
    ends: ClassVar[bool] = True

    hazards: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "hazards", tuple(float(hazard) for hazard in self.hazards))
        if not self.hazards:
            raise FitError("hazards is empty, expected one per offset")
        require_hazards(*self.hazards)

    @property
    def horizon(self) -> int:
        """Last offset whose hazard is known."""
        return len(self.hazards)

    @property
    def params(self) -> dict[str, float | list[float]]:
        """Give h1, h2, ..., hL."""
        return dict(zip(_names(self.horizon), self.hazards, strict=True))

    def _hazards(self, entropy: Floats) -> Floats:
        return np.broadcast_to(np.array(self.hazards), (*entropy.shape, self.horizon))

    @classmethod
    def _by_likelihood(cls, observations: Observations) -> Estimate:
        table = risk_table(observations)
        if not len(table.offset):
            raise NotIdentified(f"{observations.source}: no round saw offset 1")
        law = cls(tuple(table.hazard))
        notes = []
        plain = robust = None
        if law.horizon <= MOST_ERRORS:
            plain, robust = _covariances(observations, table)
        else:
            notes.append(f"{law.horizon} offsets: no standard errors, which are given up to {MOST_ERRORS} offsets")
        if law.horizon < observations.longest:
            notes.append(f"no round reached offset {law.horizon + 1} of {observations.longest}: the law ends before it")
        return Estimate(law, _names(law.horizon), plain, robust, "closed form", tuple(notes))

    @classmethod
    def _by_least_squares(cls, observations: Observations, method: LeastSquares, form: MeanForm) -> Estimate:
        raise NotIdentified(f"{observations.source}: means do not determine a hazard per offset; use method mle")


def _covariances(observations: Observations, table: RiskTable) -> tuple[Floats, Floats | None]:
    """Give the inverse information and the cluster covariance (L, L); NaN at hazards of 0 or 1."""
    hazard, robust = table.hazard, None
    if observations.cluster is not None:
        at_risk, matches = counts_by_prompt(observations, observations.cluster, len(hazard))
        sums = matches - hazard * at_risk
        trials = float(table.at_risk.sum())
        robust = cluster_covariance(sums.T, np.diag(1.0 / table.at_risk), np.arange(len(sums)), trials)
        if robust is not None:  # what one prompt alone reaches has no error between prompts
            lonely = (at_risk > 0).sum(axis=0) < 2
            robust[lonely, :] = robust[:, lonely] = np.nan
    plain = np.diag(hazard * (1.0 - hazard) / table.at_risk)
    edge = (hazard == 0.0) | (hazard == 1.0)
    for covariance in (plain, robust):
        if covariance is not None:
            covariance[edge, :] = covariance[:, edge] = np.nan
    return plain, robust


def _names(horizon: int) -> tuple[str, ...]:
    return tuple(f"h{offset}" for offset in range(1, horizon + 1))
