"""Folds that no prompt is split by."""

from __future__ import annotations

import numpy as np

from lawfit.arrays import Ints
from lawfit.errors import FitError, NotIdentified


def prompt_folds(cluster: Ints | None, folds: int = 5, seed: int = 0) -> Ints:
    """Deal whole prompts to folds.

    Rows of a prompt resemble each other: a split by rows would let a fit see what it is scored on.

    Parameters
    ----------
    cluster
        (n,) number of each row's prompt.
    folds, seed
        How many, and the seed of the deal.

    Returns
    -------
    Ints
        (n,) fold of each row, 0..folds - 1, every fold with a prompt.

    Raises
    ------
    NotIdentified
        Prompts are not named, or there are fewer than ``folds``.
    FitError
        ``folds`` is below 2.
    """
    if folds < 2:
        raise FitError(f"folds is {folds}, expected at least 2")
    if cluster is None:
        raise NotIdentified("prompts are not named: no prompt-disjoint folds can be dealt")
    numbers, code = np.unique(cluster, return_inverse=True)
    if len(numbers) < folds:
        raise NotIdentified(f"{len(numbers)} prompts, expected at least {folds}: one for each fold")
    deal = np.random.default_rng(seed).permutation(np.arange(len(numbers)) % folds)
    return np.asarray(deal[code], dtype=np.int64)
