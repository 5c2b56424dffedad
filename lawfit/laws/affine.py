"""The entropy law of GLANCE: a match logit affine in the root entropy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lawfit import least_squares
from lawfit.arrays import Floats
from lawfit.errors import FitError, NotIdentified
from lawfit.laws.base import Estimate, Law, require_horizon
from lawfit.least_squares import LeastSquares
from lawfit.logistic import fit_logistic
from lawfit.observations import Observations
from lawfit.survival import MeanForm, expit

NAMES = ("b0", "b1")


@dataclass(frozen=True)
class AffineLogit(Law):
    r"""Affine-logit law, GLANCE Eq. 2.

    .. math:: \operatorname{logit} p_m(H) = b_0 - b_1 H, \qquad
              E[a \mid H] = \sum_{l=1}^{L} p_m^l = \frac{p_m (1 - p_m^L)}{1 - p_m}

    The same hazard p_m holds at every offset; a excludes the bonus, and H is the target's entropy at the root
    in nats. The mean is at most :math:`M(\sigma(b_0), L) \le e^{b_0}` (GLANCE Theorem 2 A).

    Attributes
    ----------
    b0
        Log odds of a match at zero entropy.
    b1
        Fall of the log odds per nat.
    horizon
        Offsets L of a block.
    """

    name: ClassVar[str] = "affine"
    needs_entropy: ClassVar[bool] = True

    b0: float = 0.96
    b1: float = 0.63
    horizon: int = 15

    def __post_init__(self) -> None:
        for name in NAMES:
            if not math.isfinite(getattr(self, name)):
                raise FitError(f"{name} is {getattr(self, name)}, expected a finite number")
        require_horizon(self.horizon)

    @property
    def params(self) -> dict[str, float | list[float]]:
        """Give b0 and b1."""
        return {"b0": self.b0, "b1": self.b1}

    def _hazards(self, entropy: Floats) -> Floats:
        # b1 = 0 means no dependence, at infinite entropy too.
        fall = self.b1 * entropy if self.b1 else np.zeros_like(entropy)
        return np.asarray(expit(self.b0 - fall))[..., None]

    @classmethod
    def _by_likelihood(cls, observations: Observations) -> Estimate:
        """Logistic regression of matches among the offsets seen, on (1, -H)."""
        entropy = observations.entropy
        if entropy is None:
            raise NotIdentified(f"{observations.source}: no row has {observations.signal}")
        fit = fit_logistic(
            np.stack([np.ones_like(entropy), entropy]).T,
            observations.accept_len,
            observations.trials,
            weight=observations.weight,
            cluster=observations.cluster,
            names=("b0", observations.signal),
        )
        if not fit.converged:
            raise FitError(f"{observations.source}: no convergence in {fit.iterations} Newton steps")
        # The regression is on +H; the law is written with -b1.
        flip = np.diag([1.0, -1.0])
        b0, b1 = (float(value) for value in flip @ fit.coef)
        robust = fit.cluster_covariance
        return Estimate(
            cls(b0, b1, observations.longest),
            NAMES,
            flip @ fit.covariance @ flip,
            None if robust is None else flip @ robust @ flip,
            f"converged in {fit.iterations} Newton steps",
        )

    @classmethod
    def _by_least_squares(cls, observations: Observations, method: LeastSquares, form: MeanForm) -> Estimate:
        fit = least_squares.fit_affine(observations, method, form)
        b0, b1 = (float(value) for value in fit.coef)
        law = cls(b0, b1, observations.longest)
        return Estimate(law, NAMES, fit.covariance, fit.cluster_covariance, fit.status)
