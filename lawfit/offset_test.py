"""Whether the same law holds at every offset, and whether the entropy of each offset explains it if not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lawfit import chi_square
from lawfit.arrays import Floats, Ints
from lawfit.errors import FitError, NotIdentified
from lawfit.laws.affine import AffineLogit
from lawfit.laws.affine_by_offset import AffineByOffset
from lawfit.logistic import fit_logistic
from lawfit.observations import Observations


@dataclass(frozen=True)
class OffsetTest:
    """The affine law against the same law with coefficients of its own at each offset.

    Attributes
    ----------
    statistic, df
        Likelihood ratio 2 (l1 - l0), and the coefficients added.
    p_value
        Nominal chi-square tail: rounds of one prompt depend on each other, so that it is too small.
    wald, wald_p_value
        Wald statistic of equal coefficients by the prompt-cluster covariance, and Hotelling's tail for so many
        prompts; ``None`` where prompts are not known or fewer than df + 1.
    slopes
        (J,) b1 at each offset that has its own: how the law changes, which the statistic alone does not say.
    """

    statistic: float
    df: int
    p_value: float
    wald: float | None
    wald_p_value: float | None
    slopes: tuple[float, ...]


def offset_test(observations: Observations) -> OffsetTest:
    """Test whether one p_m(H) holds at all offsets (GLANCE Eq. 2 against Eq. 3 with an offset interaction).

    Raises
    ------
    NotIdentified
        No entropy, or fewer than two offsets with an estimate.
    """
    rows = observations.with_entropy()
    free = AffineByOffset.fit(rows)
    if len(free.b1) < 2:
        raise NotIdentified(f"{rows.source}: {len(free.b1)} offset has an estimate, a comparison needs two")
    single = AffineLogit.fit(rows)
    statistic = 2.0 * (free.log_likelihood(rows) - single.log_likelihood(rows))
    df = 2 * (len(free.b1) - 1)
    wald = _wald(free, rows.clusters)
    return OffsetTest(
        statistic,
        df,
        chi_square.tail(statistic, df),
        wald,
        None if wald is None else chi_square.wald_tail(wald, df, rows.clusters or 0),
        free.b1,
    )


@dataclass(frozen=True)
class OwnEntropyTest:
    """Whether offsets still differ once each has its own entropy.

    Attributes
    ----------
    b1, b1_se
        Fall of the match logit per nat of the offset's own entropy beside a trend, with its prompt-cluster standard
        error.
    trend, trend_se, trend_statistic
        Rise of the log odds per offset at equal entropy, its prompt-cluster standard error, and the likelihood ratio
        of the trend, with 1 degree of freedom.
    shift, shift_se, statistic, df, p_value
        (L - 1,) log odds of offsets 2..L against offset 1 at equal entropy, with no form assumed; their likelihood
        ratio, their number, and the nominal chi-square tail. NaN where the outcomes of some offset separate.
    root_trend_statistic, root_statistic
        The same likelihood ratios with the root's entropy in place of each offset's own; NaN where it was not given.
    """

    b1: float
    b1_se: float
    trend: float
    trend_se: float
    trend_statistic: float
    shift: tuple[float, ...]
    shift_se: tuple[float, ...]
    statistic: float
    df: int
    p_value: float
    root_trend_statistic: float
    root_statistic: float


def own_entropy_test(
    matched: ArrayLike,
    offset: ArrayLike,
    entropy: ArrayLike,
    cluster: Ints | None = None,
    *,
    root_entropy: ArrayLike | None = None,
) -> OwnEntropyTest:
    r"""Fit :math:`\operatorname{logit} h_j = b_0 - b_1 H_j + \gamma_j` and test :math:`\gamma_j = 0`, and as a trend.

    H_j is the target's entropy at offset j itself, known for positions that were verified. A rising hazard under
    the root's entropy may be no property of the drafter: entropy persists, so that a round that got far is in easy
    text. Where :math:`\gamma` vanishes, that is all there is.

    Parameters
    ----------
    matched
        (n,) whether the draft token at the offset was accepted; only offsets that were reached.
    offset
        (n,) 1..L.
    entropy, root_entropy
        (n,) nats, at the offset itself and at the round's root.
    cluster
        (n,) prompt numbers.

    Raises
    ------
    FitError
        Shapes do not agree, or an entropy is not a number of nats.
    NotIdentified
        One offset only, or outcomes separate.
    """
    y, j, h = np.asarray(matched, dtype=np.float64), np.asarray(offset), np.asarray(entropy, dtype=np.float64)
    if not y.shape == j.shape == h.shape or y.ndim != 1:
        raise FitError(f"matched {y.shape}, offset {j.shape}, entropy {h.shape} do not agree")
    if not (h >= 0).all():
        raise FitError(f"entropy is {h[~(h >= 0)][0]}, expected nats >= 0")
    levels = np.unique(j)
    if len(levels) < 2:
        raise NotIdentified("one offset only: offsets cannot be compared")
    trend, shifts = j[:, None].astype(np.float64), (j[:, None] == levels[1:]).astype(np.float64)
    trend_statistic, line, line_se = _added(y, h, trend, cluster)
    statistic, coef, se = _shifted(y, h, shifts, cluster)
    roots = [np.nan, np.nan]
    if root_entropy is not None:
        root = np.asarray(root_entropy, dtype=np.float64)
        roots = [_added(y, root, trend, None)[0], _shifted(y, root, shifts, None)[0]]
    return OwnEntropyTest(
        b1=-float(line[1]),
        b1_se=float(line_se[1]),
        trend=float(line[2]),
        trend_se=float(line_se[2]),
        trend_statistic=trend_statistic,
        shift=tuple(float(value) for value in coef[2:]),
        shift_se=tuple(float(value) for value in se[2:]),
        statistic=statistic,
        df=len(levels) - 1,
        p_value=chi_square.tail(statistic, len(levels) - 1) if statistic == statistic else float("nan"),
        root_trend_statistic=roots[0],
        root_statistic=roots[1],
    )


def _shifted(y: Floats, entropy: Floats, shifts: Floats, cluster: Ints | None) -> tuple[float, Floats, Floats]:
    """Fit free shifts; NaN where the outcomes of an offset separate, which a trend may survive."""
    try:
        return _added(y, entropy, shifts, cluster)
    except NotIdentified:
        nothing = np.full(2 + shifts.shape[1], np.nan)
        return float("nan"), nothing, nothing


def _added(y: Floats, entropy: Floats, more: Floats, cluster: Ints | None) -> tuple[float, Floats, Floats]:
    """Give the likelihood ratio of the columns ``more`` beside (1, H), the coefficients, and their errors."""
    base = np.stack([np.ones_like(entropy), entropy]).T
    full = fit_logistic(np.hstack([base, more]), y, np.ones_like(y), cluster=cluster)
    plain = fit_logistic(base, y, np.ones_like(y))
    covariance = full.covariance if full.cluster_covariance is None else full.cluster_covariance
    return 2.0 * (full.log_likelihood - plain.log_likelihood), full.coef, np.sqrt(np.diag(covariance))


def _wald(free: AffineByOffset, clusters: int | None) -> float | None:
    """Quadratic form of the differences of coefficients between neighbouring offsets."""
    df = 2 * (len(free.b1) - 1)
    if free.fitted is None or free.fitted.cluster_covariance is None or (clusters or 0) <= df:
        return None
    coef = np.array(list(free.params.values()), dtype=np.float64)
    contrast = np.eye(df + 2)[2:] - np.eye(df + 2)[:-2]
    covariance = contrast @ np.array(free.fitted.cluster_covariance) @ contrast.T
    difference = contrast @ coef
    if not np.isfinite(covariance).all() or np.linalg.cond(covariance) > 1e12:
        return None  # too few prompts reach some offset
    return float(difference @ np.linalg.solve(covariance, difference))
