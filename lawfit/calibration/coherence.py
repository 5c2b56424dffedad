"""Siblings kept coherent: at most one child of a node is the target's next token."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lawfit.arrays import Floats, Ints
from lawfit.errors import FitError


def coherent(probability: ArrayLike, siblings: Ints) -> Floats:
    r"""Scale each family whose acceptance probabilities sum to more than 1 down to a sum of 1.

    .. math:: p_i' = p_i / \max\Big(1, \sum_{j \in \text{family}(i)} p_j\Big)

    This is the nearest coherent family in relative entropy, :math:`\sum_j p'_j \log (p'_j / p_j) - p'_j + p_j`, and so
    exact. It keeps order and ratios, changes no family that is coherent already, and gives no node a zero, as the
    Euclidean projection would: a probability of zero has an infinite log score and prunes a branch for good.

    Parameters
    ----------
    probability
        (n,) conditional acceptance probabilities in [0, 1].
    siblings
        (n,) family numbers >= 0, as `lawfit.calibration.nodes.NodeTable.siblings`.

    Raises
    ------
    FitError
        The shapes do not agree, or a value is no probability.
    """
    p, family = np.asarray(probability, dtype=np.float64), np.asarray(siblings)
    if p.ndim != 1 or p.shape != family.shape:
        raise FitError(f"probability {p.shape} and siblings {family.shape}, expected two of one length")
    if not ((p >= 0) & (p <= 1)).all():
        raise FitError(f"probability is {p[~((p >= 0) & (p <= 1))][0]}, expected a number in [0, 1]")
    total = np.bincount(family, weights=p, minlength=1)
    return np.asarray(p / np.maximum(total[family], 1.0))
