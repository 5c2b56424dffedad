from __future__ import annotations

import numpy as np

from lawfit.separation import find_separating_direction, find_separation


def test_the_linear_program_agrees_with_the_exact_check_on_one_feature() -> None:
    rng = np.random.default_rng(5)
    found = 0
    for _ in range(60):
        x = np.column_stack([np.ones(7), np.round(rng.normal(size=7), 1)])
        hit = rng.random(7) < 1 / (1 + np.exp(-3 * x[:, 1]))
        exact = find_separation(x, hit, ~hit, ("one", "x"))
        assert (exact is None) == (find_separating_direction(x, hit, ~hit) is None)
        found += exact is not None
    assert 0 < found < 60
