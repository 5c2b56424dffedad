from __future__ import annotations

import numpy as np
import pytest

from lawfit import FitError, NotIdentified
from lawfit.folds import prompt_folds


def test_no_prompt_is_split_and_folds_differ_by_one_prompt_at_most() -> None:
    cluster = np.random.default_rng(0).integers(0, 23, 400) * 7
    fold = prompt_folds(cluster, 5, seed=1)
    of_prompt = {number: set(fold[cluster == number]) for number in np.unique(cluster)}
    assert all(len(folds) == 1 for folds in of_prompt.values())
    sizes = np.bincount([next(iter(folds)) for folds in of_prompt.values()])
    assert len(sizes) == 5
    assert sizes.max() - sizes.min() <= 1
    assert (fold == prompt_folds(cluster, 5, seed=1)).all()
    assert (fold != prompt_folds(cluster, 5, seed=2)).any()


def test_too_few_or_nameless_prompts_are_refused() -> None:
    with pytest.raises(NotIdentified, match="3 prompts, expected at least 5"):
        prompt_folds(np.array([0, 1, 2]), 5)
    with pytest.raises(NotIdentified, match="not named"):
        prompt_folds(None)
    with pytest.raises(FitError, match="folds is 1"):
        prompt_folds(np.array([0, 1]), 1)
