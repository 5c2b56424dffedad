"""Which way the hazard goes with the offset: a copy state would make it rise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lawfit.curve import Z95
from lawfit.errors import NotIdentified
from lawfit.logistic import fit_logistic
from lawfit.observations import Observations


@dataclass(frozen=True)
class HazardTrend:
    """Change of the log odds of going on, per offset.

    Attributes
    ----------
    slope, se
        Per offset, with its standard error by prompt (as if rounds were independent where prompts are not known).
    first, last
        Fitted hazards at offset 1 and at the last offset seen.
    clustered
        Whether the error allows for dependence within prompts.
    """

    slope: float
    se: float
    first: float
    last: float
    clustered: bool

    @property
    def direction(self) -> str:
        """``rises``, ``falls``, or ``shows no trend`` where the 95% interval of the slope holds 0."""
        if abs(self.slope) <= Z95 * self.se:
            return "shows no trend"
        return "rises" if self.slope > 0 else "falls"


def hazard_trend(observations: Observations) -> HazardTrend:
    r"""Fit :math:`\operatorname{logit} h_j = c + s j` to the offsets seen, entropy apart.

    A likelihood ratio says that hazards differ, not how. Over rounds of all entropies they rise where easy text lasts,
    whatever the drafter does: look within a narrow band of entropy.

    Raises
    ------
    NotIdentified
        One offset only, or outcomes separate.
    """
    last = int(observations.trials.max(initial=0))
    if last < 2:
        raise NotIdentified(f"{observations.source}: {last} offsets were seen, a trend needs two")
    row = np.repeat(np.arange(len(observations)), observations.trials)
    first = np.concatenate([[0], np.cumsum(observations.trials)[:-1]])
    offset = np.arange(len(row)) - first[row] + 1
    fit = fit_logistic(
        np.stack([np.ones(len(row)), offset]).T,
        offset <= observations.accept_len[row],
        np.ones(len(row)),
        weight=observations.weight[row],
        cluster=None if observations.cluster is None else observations.cluster[row],
        names=("level", "offset"),
    )
    covariance = fit.covariance if fit.cluster_covariance is None else fit.cluster_covariance
    level, slope = (float(value) for value in fit.coef)
    ends = 1.0 / (1.0 + np.exp(-(level + slope * np.array([1.0, last]))))
    clustered = fit.cluster_covariance is not None
    return HazardTrend(slope, float(np.sqrt(covariance[1, 1])), float(ends[0]), float(ends[1]), clustered)
