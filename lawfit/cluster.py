"""Cluster-robust covariance."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lawfit.arrays import Floats, Ints


def cluster_covariance(scores: Iterable[Floats], bread: Floats, cluster: Ints | None, trials: float) -> Floats | None:
    r"""Sandwich covariance of an M-estimator whose errors are dependent within clusters.

    .. math:: \frac{G}{G-1}\,\frac{N-1}{N-K}\; B \Big(\sum_g s_g s_g^\top\Big) B, \qquad
              s_g = \sum_{i \in g} s_i

    The small-sample factor is that of statsmodels' ``cov_type="cluster"`` on offset-expanded rows.

    Parameters
    ----------
    scores
        K columns (n,): the derivative of each row's weighted objective by each coefficient.
    bread
        (K, K) inverse information.
    cluster
        (n,) number of each row's cluster, or ``None``.
    trials
        N, the Bernoulli trials (or rounds, in least squares) behind the rows.

    Returns
    -------
    Floats or None
        (K, K); ``None`` where clusters are unknown, only one, or N does not exceed K.
    """
    if cluster is None or not len(cluster):
        return None
    groups, size = int(np.count_nonzero(np.bincount(cluster))), len(bread)
    if groups < 2 or trials <= size:
        return None
    # A number that no row carries gives a sum of zero, which adds nothing.
    sums = np.column_stack([np.bincount(cluster, weights=column) for column in scores])
    factor = groups / (groups - 1) * (trials - 1) / (trials - size)
    return np.asarray(factor * bread @ (sums.T @ sums) @ bread)
