from __future__ import annotations

import numpy as np
import pytest

from lawfit.cluster import cluster_covariance

RNG = np.random.default_rng(3)
SCORES, CLUSTER, BREAD = RNG.normal(size=(40, 2)), RNG.integers(0, 6, 40), np.array([[2.0, 0.3], [0.3, 1.0]])


def test_the_sandwich_equals_its_definition() -> None:
    sums = [SCORES[g == CLUSTER].sum(axis=0) for g in range(6)]
    meat = sum(np.outer(s, s) for s in sums)
    expected = 6 / 5 * (99 / 98) * BREAD @ meat @ BREAD
    assert cluster_covariance(SCORES.T, BREAD, CLUSTER, 100) == pytest.approx(expected)


def test_names_and_order_of_clusters_do_not_matter() -> None:
    order = RNG.permutation(40)
    renamed = np.array([50, 3, 17, 9, 1, 1000])[CLUSTER]
    expected = cluster_covariance(SCORES.T, BREAD, CLUSTER, 100)
    assert cluster_covariance(SCORES[order].T, BREAD, renamed[order], 100) == pytest.approx(expected)


@pytest.mark.parametrize(("cluster", "trials"), [(None, 100), (np.zeros(40, dtype=int), 100), (CLUSTER, 2)])
def test_too_little_to_tell_gives_none(cluster: np.ndarray | None, trials: float) -> None:
    assert cluster_covariance(SCORES.T, BREAD, cluster, trials) is None
