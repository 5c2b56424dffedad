"""The entropy law with coefficients of its own at each offset: where one p_m(H) for all offsets fails."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lawfit.arrays import Floats
from lawfit.cluster import cluster_covariance
from lawfit.errors import FitError, NotIdentified
from lawfit.laws.base import Estimate, Law, require_horizon
from lawfit.least_squares import LeastSquares
from lawfit.logistic import LogisticFit, fit_logistic
from lawfit.observations import Observations
from lawfit.survival import MeanForm, expit

# A fit with what each round (n, 2) adds to the error of its coefficients.
Piece = tuple[LogisticFit, Floats]
# Rounds that must go on, and that must miss, at an offset with coefficients of its own.
_FEWEST = 10
# Prompts that must reach it, where the log has so many.
_PROMPTS = 5


@dataclass(frozen=True)
class AffineByOffset(Law):
    r"""Affine-logit law by offset: GLANCE Eq. 3 with :math:`\operatorname{logit} p_{m,j}(H) = b_{0j} - b_{1j} H`.

    The affine law of Eq. 2 is the case of equal coefficients, so that the two compare by likelihood ratio. H is the
    entropy at the root, in nats, whatever the offset; bonus excluded.

    Attributes
    ----------
    b0, b1
        (J,) log odds at zero entropy, and their fall per nat, at offsets 1..J; the last pair serves the offsets after
        J too, which a fit pools where they do not identify coefficients of their own.
    horizon
        Offsets L of a block, J or more.
    """

    name: ClassVar[str] = "affine-by-offset"
    needs_entropy: ClassVar[bool] = True
    ends: ClassVar[bool] = True

    b0: tuple[float, ...]
    b1: tuple[float, ...]
    horizon: int = 15

    def __post_init__(self) -> None:
        for name in ("b0", "b1"):
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
            if not all(math.isfinite(value) for value in getattr(self, name)):
                raise FitError(f"{name} is {getattr(self, name)}, expected finite numbers")
        require_horizon(self.horizon)
        if not self.b0 or len(self.b0) != len(self.b1) or len(self.b0) > self.horizon:
            raise FitError(
                f"{len(self.b0)} values of b0 and {len(self.b1)} of b1, expected one of each per offset,"
                f" and at most {self.horizon}, the horizon"
            )

    @property
    def params(self) -> dict[str, float | list[float]]:
        """Give b0_1, b1_1, b0_2, ..."""
        pairs = zip(self.b0, self.b1, strict=True)
        return dict(zip(_names(len(self.b0)), (value for pair in pairs for value in pair), strict=True))

    def _hazards(self, entropy: Floats) -> Floats:
        place = np.minimum(np.arange(self.horizon), len(self.b0) - 1)
        b0, b1 = np.array(self.b0)[place], np.array(self.b1)[place]
        # b1 = 0 means no dependence, at infinite entropy too.
        return expit(b0 - b1 * np.where(b1 != 0.0, entropy[..., None], 0.0))

    @classmethod
    def _by_likelihood(cls, observations: Observations) -> Estimate:
        """One logistic regression at each offset, on the rounds at risk there: the likelihood is their product."""
        deepest = int(observations.trials.max(initial=0))
        if not deepest:
            raise NotIdentified(f"{observations.source}: no round saw an offset")
        found = [_between(observations, 1, 1)]
        notes: tuple[str, ...] = ()
        for offset in range(2, deepest + 1):
            reason = _sparse(observations, offset)
            try:
                found += [] if reason else [_between(observations, offset, offset)]
            except NotIdentified as error:
                reason = str(error)
            if reason:
                found, first = _pooled(observations, found, offset, deepest)
                notes = (f"offsets {first} to {deepest} are pooled: at offset {offset}, {reason}",)
                break
        fits = [fit for fit, _ in found]
        b0, b1 = (tuple(sign * float(fit.coef[k]) for fit in fits) for k, sign in ((0, 1.0), (1, -1.0)))
        flip = np.tile([1.0, -1.0], len(fits))
        plain = _block_diagonal([fit.covariance for fit in fits]) * np.outer(flip, flip)
        influence = np.concatenate([score for _, score in found], axis=1) * flip
        trials = float(observations.weight @ observations.trials)
        seen = observations.trials > 0
        cluster = None if observations.cluster is None else observations.cluster[seen]
        robust = cluster_covariance(influence[seen].T, np.eye(len(flip)), cluster, trials)
        law = cls(b0, b1, observations.longest)
        return Estimate(law, _names(len(fits)), plain, robust, "converged at every offset", notes)

    @classmethod
    def _by_least_squares(cls, observations: Observations, method: LeastSquares, form: MeanForm) -> Estimate:
        raise NotIdentified(f"{observations.source}: means do not determine a law per offset; use method mle")


def _sparse(observations: Observations, offset: int) -> str:
    """Say what is too little at an offset for two coefficients of its own: rounds or prompts; else nothing."""
    weight = observations.weight
    went_on = float(weight @ (observations.accept_len >= offset))
    missed = float(weight @ (observations.missed & (observations.accept_len == offset - 1)))
    if min(went_on, missed) < _FEWEST:
        return f"{went_on:.0f} rounds went on and {missed:.0f} missed"
    return _lonely(observations, offset)


def _lonely(observations: Observations, offset: int) -> str:
    """Say how many prompts reach an offset, if too few: what one prompt alone reaches has no error between prompts."""
    if observations.cluster is None:
        return ""
    prompts = np.count_nonzero(np.bincount(observations.cluster[observations.trials >= offset]))
    return f"{prompts} prompts got there" if prompts < min(_PROMPTS, observations.clusters or 0) else ""


def _pooled(observations: Observations, found: list[Piece], offset: int, deepest: int) -> tuple[list[Piece], int]:
    """Give offsets from ``offset`` on one pair of coefficients, with those of the offset before if need be."""
    misses = float(observations.weight @ (observations.missed & (observations.accept_len >= offset - 1)))
    if misses >= _FEWEST and not _lonely(observations, offset):
        try:
            return [*found, _between(observations, offset, deepest)], offset
        except NotIdentified:
            pass  # a part that is identified makes the whole so: with the offset before it is
    return [*found[:-1], _between(observations, offset - 1, deepest)], offset - 1


def _between(observations: Observations, first: int, last: int) -> Piece:
    """Fit the matches at offsets first..last, with what each round (n, 2) adds to the error of the coefficients."""
    entropy = observations.entropy
    if entropy is None:
        raise NotIdentified(f"{observations.source}: no row has {observations.signal}")
    trials = np.clip(observations.trials - (first - 1), 0, last - first + 1)
    hits = np.clip(observations.accept_len - (first - 1), 0, last - first + 1)
    design = np.stack([np.ones_like(entropy), entropy]).T
    weight = observations.weight
    fit = fit_logistic(design, hits, trials, weight=weight, names=("b0", observations.signal))
    if not fit.converged:
        raise FitError(f"{observations.source}: no convergence in {fit.iterations} Newton steps at offset {first}")
    return fit, (design * (weight * (hits - trials * expit(design @ fit.coef)))[:, None]) @ fit.covariance


def _block_diagonal(blocks: list[Floats]) -> Floats:
    whole = np.zeros((2 * len(blocks), 2 * len(blocks)))
    for k, block in enumerate(blocks):
        whole[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = block
    return whole


def _names(horizon: int) -> tuple[str, ...]:
    return tuple(f"{name}_{offset}" for offset in range(1, horizon + 1) for name in ("b0", "b1"))
