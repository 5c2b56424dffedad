import json
import math

import numpy as np
import pytest

from lawfit.errors import FitError, LawfitError
from policy.match_weights import MatchWeights


def em(probs, steps=5000):
    """The EM algorithm for the share of the first of two known parts."""
    weight = 0.5
    for _ in range(steps):
        both = weight * probs[:, 0], (1 - weight) * probs[:, 1]
        weight = float((both[0] / (both[0] + both[1])).mean())
    return weight


def drawn(rng, weight, count, length):
    """Positions at which the lookup is right with probability ``weight``: it gives its token .9, the head .3."""
    right = rng.random(count) < weight
    follows = np.where(right, rng.random(count) < 0.9, rng.random(count) < 0.3)
    return [(length, 0.9, 0.3) if hit else (length, 0.1, 0.7) for hit in follows]


def test_the_fit_is_the_maximum_that_em_climbs_to():
    rng = np.random.default_rng(0)
    probs = rng.random((200, 2))
    rows = [(1, *row) for row in probs]
    assert MatchWeights.fit(rows, (1,), prior=0).weights[0] == pytest.approx(em(probs), abs=1e-6)


def test_the_fit_recovers_the_weights_of_each_class():
    rng = np.random.default_rng(1)
    truth = {2: 0.2, 3: 0.5, 4: 0.9}
    rows = [row for length, weight in truth.items() for row in drawn(rng, weight, 20_000, length)]
    fitted = MatchWeights.fit(rows, (2, 3, 4))
    assert fitted.weights == pytest.approx(list(truth.values()), abs=0.02)


def test_classes_are_fitted_apart_and_hold_the_lengths_up_to_the_next():
    rows = [(2, 0.1, 0.9), (3, 0.1, 0.9), (3, 0.8, 0.4)] * 10 + [(9, 0.9, 0.1), (12, 0.3, 0.8), (16, 0.9, 0.1)] * 10
    both = MatchWeights.fit(rows, (2, 8), prior=0)
    assert both.weights[0] == pytest.approx(MatchWeights.fit(rows[:30], (2,), prior=0).weights[0])
    assert both.weights[1] == pytest.approx(MatchWeights.fit(rows[30:], (2,), prior=0).weights[0])


def test_a_class_without_positions_takes_the_pooled_weight():
    rows = drawn(np.random.default_rng(2), 0.6, 400, 5)
    for prior in (0.0, 1.0):
        fitted = MatchWeights.fit(rows, (2, 5, 9), prior)
        pooled = MatchWeights.fit(rows, (2,), 0).weights[0]
        assert fitted.weights == pytest.approx([pooled] * 3, abs=0.01)


def test_one_sided_positions_reach_the_ends_and_the_prior_holds_them_back():
    wins, losses = [(3, 0.9, 0.1)] * 5, [(4, 0.1, 0.9)] * 5
    assert MatchWeights.fit(wins + losses, (3, 4), prior=0).weights == (1.0, 0.0)
    held = MatchWeights.fit(wins + losses, (3, 4), prior=1)
    assert 0.5 < held.weights[0] < 1
    assert 0 < held.weights[1] < 0.5


def test_a_length_takes_the_class_at_or_below_it():
    weights = MatchWeights((2, 4), (0.3, 0.8))
    assert [weights.of(length) for length in (0, 1, 2, 3.0, 4, 40)] == [0, 0, 0.3, 0.3, 0.8, 0.8]


@pytest.mark.parametrize(
    ("rows", "prior", "message"),
    [
        ([], 1.0, "none of 0 matches"),
        ([(0, 0.5, 0.1), (3, 0.0, 0.0), (3, 0.4, 0.4)], 1.0, "none of 1 matches"),
        ([(3, 0.5, math.nan)], 1.0, "row 0"),
        ([(3, 0.5, 0.1), (3, 1.5, 0.1)], 1.0, "row 1"),
        ([(3, 0.5)], 1.0, "rows are not"),
        ([(3, "a", 0.1)], 1.0, "rows are not"),
        ([(3, 0.5, 0.1)], -1.0, "prior is -1.0"),
    ],
)
def test_rows_that_tell_nothing_or_are_no_probabilities_are_refused(rows, prior, message):
    with pytest.raises(FitError, match=message):
        MatchWeights.fit(rows, prior=prior)


@pytest.mark.parametrize(
    ("lengths", "weights"),
    [((), ()), ((1,), (0.1, 0.2)), ((2, 2), (0.1, 0.2)), ((0,), (0.1,)), ((1.0,), (0.1,)), ((1,), (1.1,)),
     ((1,), (math.nan,)), ((True,), (0.5,)), ((1,), ("a",))],
)  # fmt: skip
def test_tables_that_are_no_weights_are_refused(lengths, weights):
    with pytest.raises(LawfitError, match="match weights"):
        MatchWeights(lengths, weights)


def test_classes_that_do_not_increase_are_refused_before_the_fit():
    for lengths in ((), (3, 2)):
        with pytest.raises(LawfitError, match="match weights"):
            MatchWeights.fit([(3, 0.5, 0.1)], lengths)


def test_json_round_trip_and_foreign_text():
    weights = MatchWeights((1, 3), (0.25, 1.0))
    assert MatchWeights.from_json(weights.to_json()) == weights
    record = json.loads(weights.to_json())
    for text in (
        "", "{}", "[1]", json.dumps(record | {"match_weights": 2}), json.dumps(record | {"lengths": "ab"}),
        json.dumps(record | {"more": 1}), json.dumps(record | {"weights": [0.1]}), "[" * 100_000,
        json.dumps(record | {"weights": [0.1, None]}), weights.to_json().replace("0.25", "NaN"),
    ):  # fmt: skip
        with pytest.raises(LawfitError, match="match weights"):
            MatchWeights.from_json(text)
