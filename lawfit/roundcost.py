"""What a round costs: a fixed part, and a part for every sequential pass of the drafter."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from lawfit.arrays import Floats, Ints
from lawfit.cluster import cluster_covariance
from lawfit.errors import FitError, NotIdentified
from lawfit.keys import PROMPT
from lawfit.log import RoundLog


@dataclass(frozen=True, eq=False)
class RoundCost:
    r"""Line of round time on draft passes (GLANCE Appendix E).

    .. math:: \mathrm{ms} = c_0 + c_1 \cdot \mathrm{passes}

    Attributes
    ----------
    base_ms, pass_ms
        c0, ms of a round beside its draft passes, and c1, ms per pass.
    covariance
        (2, 2) of (c0, c1), robust to dependence within prompts where these are known; ``None`` for printed numbers.
    clustered
        Whether it is.
    rounds
        Rounds behind the fit.
    """

    base_ms: float
    pass_ms: float
    covariance: Floats | None = None
    clustered: bool = False
    rounds: float = 0.0

    def ms(self, passes: ArrayLike) -> Floats:
        """Give the expected ms of a round with so many draft passes."""
        return np.asarray(self.base_ms + self.pass_ms * np.asarray(passes, dtype=np.float64))

    @property
    def se(self) -> tuple[float, float]:
        """Standard errors of c0 and c1, ms; NaN where unknown."""
        if self.covariance is None:
            return math.nan, math.nan
        base, slope = np.sqrt(np.diag(self.covariance)).tolist()
        return base, slope

    def growth(self, few: float, many: float) -> float:
        """By how much a round gets longer from ``few`` to ``many`` passes, as a share of the shorter one."""
        return float(self.ms(many) / self.ms(few) - 1.0)


def fit_round_cost(log: RoundLog) -> RoundCost:
    """Regress ``round_ms`` on ``draft_passes`` by least squares, with prompt-cluster errors.

    Rounds without a time or without a number of passes are left out. Where configurations differ in more than their
    passes, in tree width for example, the slope holds what goes along with passes, too.

    Raises
    ------
    NotIdentified
        No round has both numbers, or all have the same number of passes.
    """
    rows = log.frame.filter(pl.col("round_ms").is_not_null() & pl.col("draft_passes").is_not_null())
    if rows.is_empty():
        raise NotIdentified(f"{log.source}: no round has both round_ms and draft_passes")
    if rows["draft_passes"].n_unique() < 2:
        only = rows["draft_passes"][0]
        raise NotIdentified(f"{log.source}: every round has {only} draft passes; their cost needs two settings")
    prompts = rows.select(PROMPT.rank("dense").cast(pl.Int64).alias("prompt"))["prompt"]
    return _line(
        rows["draft_passes"].cast(pl.Float64).to_numpy(),
        rows["round_ms"].to_numpy(),
        rows["count"].cast(pl.Float64).to_numpy(),
        None if prompts.null_count() else prompts.to_numpy(),
    )


def _line(passes: Floats, ms: Floats, weight: Floats, cluster: Ints | None) -> RoundCost:
    design = np.stack([np.ones_like(passes), passes], axis=1)
    bread: Floats = np.asarray(np.linalg.inv((design.T * weight) @ design), dtype=np.float64)
    coef = bread @ (design.T @ (weight * ms))
    residual, total = ms - design @ coef, float(weight.sum())
    if total <= len(coef):
        raise FitError(f"{total:.0f} rounds, expected more than {len(coef)} for a line")
    robust = cluster_covariance((design * (weight * residual)[:, None]).T, bread, cluster, total)
    plain = bread * float(weight @ residual**2) / (total - len(coef))
    covariance = plain if robust is None else robust
    return RoundCost(float(coef[0]), float(coef[1]), covariance, robust is not None, total)
