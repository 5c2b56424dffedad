"""One number with its interval."""

from __future__ import annotations

import numpy as np

from lawfit.bootstrap import bootstrap
from lawfit.effect import Effect, effects


def test_a_statistic_of_two_numbers_gives_two_effects_and_one_number_gives_one() -> None:
    sums = np.stack([np.arange(1.0, 9.0), np.ones(8)], axis=1)
    both = bootstrap(sums, lambda t: np.stack([t[..., 0] / t[..., 1], t[..., 1]], axis=-1), resamples=50)
    one = bootstrap(sums, lambda t: np.asarray(t[..., 0] / t[..., 1]), resamples=50)
    assert effects(both) == (Effect(4.5, float(both.low[0]), float(both.high[0])), Effect(8.0, 8.0, 8.0))
    assert effects(one) == effects(both)[:1]


def test_it_reads_as_in_a_table() -> None:
    assert str(Effect(0.1061, 0.084, 0.12801)) == "0.1061 [0.084, 0.128]"
