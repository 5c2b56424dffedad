import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st

from lawfit.errors import LawfitError, NotIdentified
from lawfit.log import RoundLog
from policy.acceptance import Acceptance
from policy.build import best_first
from tests.policy.tries import path_values, tries

TRUE = Acceptance(b0=0.2, b1=0.8, b2=0.6, c0=0.5, c1=-0.3)


def simulated_log(rounds=4000, seed=1):
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(rounds):
        entropy = float(rng.exponential(0.8))
        length = int(rng.integers(0, 7))
        log_probs = np.log(rng.uniform(0.1, 0.98, length))
        hazard = TRUE.hazard(entropy, log_probs, np.arange(1, length + 1))
        misses = np.flatnonzero(rng.random(length) > hazard)
        spine = int(misses[0]) if len(misses) else length
        cut = bool(rng.random() < 0.05)
        if cut and spine:
            spine = int(rng.integers(0, spine + 1))
        rows.append(
            {
                "accept_len": spine,
                "spine_len": spine,
                "horizon": length,
                "truncated": cut,
                "prev_entropy": entropy,
                "draft_logprobs": log_probs.tolist(),
            }
        )
    schema = {"draft_logprobs": pl.List(pl.Float64)}
    return RoundLog.from_frame(pl.DataFrame(rows, schema_overrides=schema))


def test_fit_recovers_the_coefficients_that_made_the_log():
    fitted = Acceptance.fit(simulated_log())
    for name in ("b0", "b1", "b2", "c0", "c1"):
        assert getattr(fitted, name) == pytest.approx(getattr(TRUE, name), abs=0.12), name


def test_fit_equals_a_glm_on_hand_expanded_offsets():
    log = simulated_log(600, seed=3)
    design, outcome = [], []
    for row in log.frame.iter_rows(named=True):
        for offset, log_prob in enumerate(row["draft_logprobs"], 1):
            cut = row["truncated"] and row["spine_len"] == row["accept_len"]
            if offset > row["spine_len"] + (not cut):
                break
            deeper = float(offset > 1)
            logit = log_prob - np.log1p(-np.exp(log_prob))
            design.append([1.0, -row["prev_entropy"], logit, deeper, -row["prev_entropy"] * deeper])
            outcome.append(float(offset <= row["spine_len"]))
    oracle = sm.GLM(np.array(outcome), np.array(design), family=sm.families.Binomial()).fit(tol=1e-12)
    fitted = Acceptance.fit(log)
    np.testing.assert_allclose([fitted.b0, fitted.b1, fitted.b2, fitted.c0, fitted.c1], oracle.params, rtol=1e-6)


@settings(max_examples=150, deadline=None)
@given(tries(max_nodes=12), st.floats(0, 8))
def test_calibrated_siblings_stay_coherent_and_values_never_rise(candidates, entropy):
    calibrated = TRUE.calibrate(candidates, entropy)
    if calibrated.count:
        mass = np.bincount(calibrated.parent[1:], weights=np.exp(calibrated.log_prob[1:]))
        assert mass.max() <= 1 + 1e-9
    values = path_values(calibrated)
    assert (values[1:] <= values[calibrated.parent[1:]] + 1e-12).all()
    assert best_first(calibrated, calibrated.root, 20).budget == candidates.count


def test_the_best_child_takes_the_laws_hazard_and_siblings_share_the_rest():
    from policy.candidates import Candidates

    candidates = Candidates(np.array([0, 1, 2, 3]), np.array([-1, 0, 0, 0]), np.log([1.0, 0.5, 0.3, 0.1]))
    calibrated = np.exp(TRUE.calibrate(candidates, 0.7).log_prob)
    hazard = 1 / (1 + np.exp(-(0.2 - 0.8 * 0.7 + 0.0)))
    np.testing.assert_allclose(calibrated[1:], [hazard, (1 - hazard) * 0.6, (1 - hazard) * 0.2])


def test_a_certain_draft_is_not_a_certain_acceptance():
    from policy.candidates import Candidates

    candidates = Candidates(np.array([0, 1]), np.array([-1, 0]), np.array([0.0, 0.0]))
    assert 0.5 < np.exp(TRUE.calibrate(candidates, 0.0).log_prob[1]) < 1.0


def test_a_log_without_what_is_known_before_verification_is_not_identified():
    bare = RoundLog.from_frame(pl.DataFrame({"accept_len": [1, 2], "horizon": [3, 3], "root_entropy": [0.1, 0.2]}))
    with pytest.raises(NotIdentified, match="prev_entropy, draft_logprobs and spine_len"):
        Acceptance.fit(bare)


def test_root_entropy_cannot_enter():
    log = simulated_log(500, seed=5)
    spoiled = RoundLog(log.frame.with_columns(pl.lit(3.0).alias("root_entropy")))
    assert Acceptance.fit(log) == Acceptance.fit(spoiled)


def test_json_round_trip_and_foreign_text():
    assert Acceptance.from_json(TRUE.to_json()) == TRUE
    for text in ("", "{}", "[]", '{"acceptance": 2}', '{"acceptance": 1, "b0": "x"}', '{"acceptance": 1, "z": 1}'):
        with pytest.raises(LawfitError, match="not an acceptance law"):
            Acceptance.from_json(text)
    with pytest.raises(LawfitError, match="finite"):
        Acceptance(float("nan"), 1, 1)
