"""A penalised logistic hazard: conditional acceptance from what is known before verification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from lawfit.arrays import Flags, Floats
from lawfit.calibration.features import FEATURES, columns, usable
from lawfit.calibration.nodes import NodeTable
from lawfit.errors import FitError, NotIdentified
from lawfit.folds import prompt_folds
from lawfit.logistic import fit_logistic
from lawfit.survival import expit

PENALTIES: tuple[float, ...] = tuple(float(value) for value in np.geomspace(1e-2, 1e4, 7))
"""Ridge weights that cross-validation chooses from."""


# No fit comes near these, and products of what lies within do not overflow.
_TINY, _HUGE = 1e-100, 1e12


@dataclass(frozen=True)
class LogisticHazard:
    r"""Ridge logistic hazard on standardised features.

    .. math:: \operatorname{logit} h = \beta_0 + \sum_k \beta_k (x_k - m_k) / s_k, \qquad
              \hat\beta = \arg\max \log L - \tfrac{\lambda}{2} \sum_{k \ge 1} \beta_k^2

    Attributes
    ----------
    features
        k names of `lawfit.calibration.features.FEATURES`.
    centre, scale
        (k,) weighted mean and standard deviation that standardise them.
    coef
        (k + 1,) intercept, then log odds per standard deviation.
    penalty
        lambda; the intercept is free.
    """

    name: ClassVar[str] = "logistic"

    features: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    coef: tuple[float, ...]
    penalty: float

    def __post_init__(self) -> None:
        """Refuse what no fit can give."""
        unknown = [name for name in self.features if name not in FEATURES]
        if unknown or len(set(self.features)) < len(self.features):
            raise FitError(f"features are {self.features}, expected different ones of {', '.join(FEATURES)}")
        sizes = (len(self.centre), len(self.scale), len(self.coef) - 1)
        if sizes != (len(self.features),) * 3:
            raise FitError(f"{len(self.features)} features with {sizes} centres, scales and slopes, expected one each")
        if not np.isfinite([*self.centre, *self.scale, *self.coef, self.penalty]).all():
            raise FitError("centre, scale, coef and penalty must be finite numbers")
        if min(self.scale, default=1.0) < _TINY or self.penalty < 0:
            raise FitError("expected scales above 0 and a penalty of at least 0")
        if max(map(abs, (*self.centre, *self.coef))) > _HUGE:
            raise FitError(f"expected centres and coef within +-{_HUGE:g}, larger ones overflow")

    def logit(self, nodes: NodeTable) -> Floats:
        """Log odds (n,) of acceptance, given that the parent is accepted."""
        return np.asarray(self._design(nodes) @ np.array(self.coef))

    def probability(self, nodes: NodeTable) -> Floats:
        """Probability (n,) of acceptance, each node by itself; see `lawfit.calibration.coherence` for siblings."""
        return expit(self.logit(nodes))

    @classmethod
    def fit(cls, nodes: NodeTable, *, features: Sequence[str] | None = None, penalty: float | None = None) -> Self:
        """Fit on the nodes that were reached.

        Parameters
        ----------
        nodes
            Any nodes; the others are left out.
        features
            By default all that are known at every node and vary.
        penalty
            lambda; by default the one of `PENALTIES` with the best log score over five prompt-disjoint folds. (The
            marginal likelihood would take rows for independent, and penalise too little.) With fewer than five prompts,
            or none named, it is 1: a prior of one standard deviation.

        Raises
        ------
        NotIdentified
            No node was reached, every one had the same outcome, or a feature is not known everywhere.
        """
        seen = nodes.at_risk()
        names = usable(seen) if features is None else tuple(features)
        if penalty is None:
            penalty = _choose_penalty(cls, seen, names)
        return cls._fit(seen, names, penalty)

    @classmethod
    def _fit(cls, seen: NodeTable, names: tuple[str, ...], penalty: float) -> Self:
        unknown = [name for name in names if name not in FEATURES]
        if unknown:
            raise FitError(f"feature {unknown[0]!r}, expected one of {', '.join(FEATURES)}")
        x, weight = columns(seen, names), seen.weight
        centre = np.average(x, axis=0, weights=weight)
        spread = np.sqrt(np.average((x - centre) ** 2, axis=0, weights=weight))
        scale = np.where(spread > 1e-12, spread, 1.0)
        design = np.column_stack([np.ones(len(x)), (x - centre) / scale])
        ridge = [0.0, *[penalty] * len(names)]
        labels = ("intercept", *names)
        fit = fit_logistic(design, seen.accepted, np.ones(len(x)), weight=weight, names=labels, penalty=ridge)
        if not fit.converged:
            raise FitError(f"{seen.source}: no convergence in {fit.iterations} Newton steps")
        coef = tuple(float(value) for value in fit.coef)
        return cls(names, tuple(centre.tolist()), tuple(scale.tolist()), coef, float(penalty))

    def _design(self, nodes: NodeTable) -> Floats:
        x = (columns(nodes, self.features) - np.array(self.centre)) / np.array(self.scale)
        return np.column_stack([np.ones(len(x)), x])


def _choose_penalty(kind: type[LogisticHazard], seen: NodeTable, names: tuple[str, ...]) -> float:
    """Take the penalty with the best held-out log score."""
    try:
        fold = prompt_folds(seen.cluster)
    except NotIdentified:
        return 1.0
    losses = [_held_out_loss(kind, seen, names, fold == part) for part in np.unique(fold)]
    return PENALTIES[int(np.argmin(np.sum(losses, axis=0)))]


def _held_out_loss(kind: type[LogisticHazard], seen: NodeTable, names: tuple[str, ...], held: Flags) -> Floats:
    """Negative log score (nats, weighted sum) on the rows flagged in ``held``, for each penalty."""
    train, test = seen.take(~held), seen.take(held)
    losses = []
    for penalty in PENALTIES:
        logit = kind._fit(train, names, penalty).logit(test)
        losses.append(test.weight @ np.logaddexp(0.0, np.where(test.accepted > 0, -logit, logit)))
    return np.array(losses)
