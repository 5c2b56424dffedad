import numpy as np
import pytest

from policy.candidates import Candidates
from policy.history import History, scored

# root -> 1 -> 2 along the top-1 path, with a sibling 7 of lower probability.
OFFER = Candidates(np.array([0, 7, 1, 2]), np.array([-1, 0, 0, 2]), np.log([1.0, 0.2, 0.7, 0.9]))


@pytest.mark.parametrize(
    ("emitted", "expected"),
    [([1, 2, 5], (2, False)), ([1, 5], (1, True)), ([7], (0, True)), ([1], (1, False)), ([1, 2], (2, False))],
)
def test_the_targets_tokens_tell_how_far_the_top_path_ran(emitted, expected):
    assert scored(OFFER, emitted) == expected


def test_an_offer_without_candidates_shows_nothing():
    assert scored(Candidates.none(3), [1]) == (0, False)


def test_history_is_even_at_the_start_and_forgets():
    assert History().run_logit == 0.0
    long_run = History().after(10, False)
    assert long_run.run_logit == pytest.approx(np.log(11))
    assert long_run.after(0, True).run_logit < long_run.run_logit
    faded = long_run
    for _ in range(200):
        faded = faded.after(0, False)
    assert faded.run_logit == pytest.approx(0.0, abs=1e-6)
