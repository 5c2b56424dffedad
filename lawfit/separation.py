"""Whether the maximum likelihood estimate of a logistic regression exists."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lawfit.arrays import Flags, Floats


def find_separation(design: Floats, hit: Flags, miss: Flags, names: Sequence[str]) -> str | None:
    """Say why the estimate is at infinity, where one outcome or one splitting feature shows it.

    Exact for an intercept and at most one feature: the estimate exists if and only if the feature's ranges
    among successes and among failures overlap properly.

    Parameters
    ----------
    design
        (n, k).
    hit, miss
        (n,) whether a row holds a success, a failure; both may be true.
    names
        k names of the columns.
    """
    constant = np.array([column.min() == column.max() for column in design.T])
    if not constant.any():
        return None
    if not miss.any():
        return "every trial succeeded"
    if not hit.any():
        return "every trial failed"
    varying = np.flatnonzero(~constant)
    if len(varying) != 1:
        return None
    x, name = design[:, varying[0]], names[varying[0]]
    successes, failures = ("successes", _range(x, hit)), ("failures", _range(x, miss))
    for (low, below), (high, above) in ((successes, failures), (failures, successes)):
        if below[1] <= above[0]:
            split = f"{low} have {below[1]:.6g} or less, {high} {above[0]:.6g} or more"
            return f"{name} splits the outcomes: {split}"
    return None


def _range(x: Floats, rows: Flags) -> tuple[float, float]:
    chosen = x[rows]
    return float(chosen.min()), float(chosen.max())


def find_separating_direction(design: Floats, hit: Flags, miss: Flags) -> str | None:
    """Search by linear programming for a combination of columns that splits the outcomes; exact, but slower.

    The estimate is at infinity if and only if some direction b has x.b >= 0 at every success and x.b <= 0 at
    every failure, not all zero (Albert and Anderson 1984).
    """
    from scipy.optimize import linprog

    signed = np.unique(np.concatenate([design[hit], -design[miss]]), axis=0)
    length = np.linalg.norm(signed, axis=1, keepdims=True)
    signed = signed[length[:, 0] > 0] / length[length[:, 0] > 0]
    found = linprog(-signed.sum(axis=0), A_ub=-signed, b_ub=np.zeros(len(signed)), bounds=(-1, 1), method="highs")
    if found.status != 0 or (signed @ found.x).max() < 1e-5:
        return None
    return "a combination of the features splits the outcomes"
