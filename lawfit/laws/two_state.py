"""The copy regime: a two-state survival law in its three identifiable parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from lawfit import two_state_fit
from lawfit.arrays import Floats
from lawfit.errors import FitError, NotIdentified
from lawfit.laws.base import Estimate, Law, require_hazards, require_horizon
from lawfit.least_squares import LeastSquares
from lawfit.observations import Observations, require
from lawfit.survival import MeanForm

NAMES = ("w", "lam1", "lam2")
Restriction = Literal["mixture", "verbatim"]


@dataclass(frozen=True)
class Regimes:
    """The hidden chain of GLANCE Assumption 3 under a stated restriction.

    Attributes
    ----------
    restriction
        Which one: without it the chain's five parameters are not identified.
    pi
        Probability that a round starts in the copy state D.
    rho_copy, rho_ordinary
        Match probability in D and in the ordinary state U.
    stay_copy, stay_ordinary
        Probabilities t_DD and t_UU of staying, upon a match.
    """

    restriction: Restriction
    pi: float
    rho_copy: float
    rho_ordinary: float
    stay_copy: float
    stay_ordinary: float


@dataclass(frozen=True)
class TwoState(Law):
    r"""Two-state copy or ordinary law: GLANCE Eq. 4, reduced to what rounds can tell.

    .. math:: P[a \ge l] = v (D_\rho T)^l \mathbf{1} = w \lambda_1^l + (1 - w) \lambda_2^l

    T is row-stochastic, so that the survival has the eigenvalues of :math:`K = T D_\rho` and one weight, and no log of
    accepted lengths holds more: :math:`(\pi, \rho_D, \rho_U, T)` need a restriction (`regimes`). States persist
    (:math:`\det K \ge 0`), hence :math:`0 \le \lambda_2 \le \lambda_1 \le 1`; w may exceed 1, where the hazard falls
    with the offset instead of rising. Bonus excluded; entropy plays no part, so fit it in a regime, for example in
    the lowest decile of entropy.

    Attributes
    ----------
    weight
        w; the first hazard is w lam1 + (1 - w) lam2.
    lam1, lam2
        Eigenvalues; the hazard tends to lam1.
    horizon
        Offsets L of a block.
    """

    name: ClassVar[str] = "two-state"
    needs_entropy: ClassVar[bool] = False
    ends: ClassVar[bool] = True

    weight: float
    lam1: float
    lam2: float
    horizon: int = 15

    def __post_init__(self) -> None:
        require_horizon(self.horizon)
        require_hazards(self.lam1, self.lam2)
        if self.lam2 > self.lam1:
            raise FitError(f"lam2 {self.lam2} is above lam1 {self.lam1}, expected the smaller second")
        first = self.weight * self.lam1 + (1.0 - self.weight) * self.lam2
        if not (math.isfinite(self.weight) and self.weight >= 0.0 and first <= 1.0 + 1e-12):
            raise FitError(f"weight {self.weight} makes the first hazard {first}, expected lam2 {self.lam2} to 1")

    @property
    def params(self) -> dict[str, float | list[float]]:
        """Give w, lam1 and lam2."""
        return {"w": self.weight, "lam1": self.lam1, "lam2": self.lam2}

    def _hazards(self, entropy: Floats) -> Floats:
        hazards = two_state_fit.hazards(np.array([self.weight, self.lam1, self.lam2]), self.horizon)
        return np.broadcast_to(hazards, (*entropy.shape, self.horizon))

    def regimes(self, restriction: Restriction) -> Regimes:
        """Name the states under a restriction.

        ``mixture``: no change of state (T is the identity), so that a round is copying or not from its start.
        ``verbatim``: copying never misses (rho_D = 1), and once left it is not entered again (t_UD = 0).

        Raises
        ------
        NotIdentified
            The restriction contradicts the fit: a mixture needs w in [0, 1].
        """
        require(restriction, Restriction, "restriction")
        if restriction == "mixture":
            if self.weight > 1.0:
                raise NotIdentified(f"w is {self.weight:.4g}, expected at most 1: no mixture has this survival")
            return Regimes(restriction, self.weight, self.lam1, self.lam2, 1.0, 1.0)
        first = self.weight * self.lam1 + (1.0 - self.weight) * self.lam2
        pi = 1.0 if self.lam2 == 1.0 else (first - self.lam2) / (1.0 - self.lam2)
        return Regimes(restriction, pi, 1.0, self.lam2, self.lam1, 1.0)

    @classmethod
    def _by_likelihood(cls, observations: Observations) -> Estimate:
        fit = two_state_fit.fit_two_state(observations)
        weight, lam1, lam2 = (float(value) for value in fit.coef)
        law = cls(weight, lam1, lam2, observations.longest)
        return Estimate(law, NAMES, fit.covariance, fit.cluster_covariance, fit.status, fit.notes)

    @classmethod
    def _by_least_squares(cls, observations: Observations, method: LeastSquares, form: MeanForm) -> Estimate:
        raise NotIdentified(f"{observations.source}: means do not determine two states; use method mle")
