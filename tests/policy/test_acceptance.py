import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st

from lawfit.errors import LawfitError, NotIdentified
from lawfit.log import RoundLog
from policy.acceptance import Acceptance, OffsetLaw
from policy.build import best_first
from policy.history import History
from tests.policy.tries import path_values, tries

TRUE = Acceptance(OffsetLaw(0.2, 0.8, 0.6, 0.3), OffsetLaw(0.5, 0.3, 0.4, 0.2))


def _laws(b0):
    law = f'{{"b0": {b0}, "b1": 0, "b2": 0, "b3": 0}}'
    return f'{{"acceptance": 1, "first": {law}, "beyond": {law}}}'


def simulated_log(requests=160, rounds=25, seed=1):
    rng = np.random.default_rng(seed)
    rows = []
    for request in range(requests):
        history = History()
        for number in range(rounds):
            entropy = float(rng.exponential(0.8))
            length = int(rng.integers(0, 7))
            log_probs = np.log(rng.uniform(0.1, 0.98, length))
            hazard = TRUE.hazard(log_probs, np.arange(1, length + 1), entropy, history.run_logit)
            misses = np.flatnonzero(rng.random(length) > hazard)
            spine, missed = (int(misses[0]), True) if len(misses) else (length, False)
            cut = bool(rng.random() < 0.05) and number == rounds - 1
            if cut:
                spine, missed = int(rng.integers(0, spine + 1)), False
            if length:
                history = history.after(spine, missed)
            rows.append(
                {
                    "request_id": str(request),
                    "round": number,
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
    for law, true in ((fitted.first, TRUE.first), (fitted.beyond, TRUE.beyond)):
        for name in ("b0", "b1", "b2", "b3"):
            assert getattr(law, name) == pytest.approx(getattr(true, name), abs=0.15), name


def test_fit_equals_glms_on_hand_expanded_offsets():
    log = simulated_log(40, seed=3)
    design, outcome, deeper = [], [], []
    for _, request in log.frame.group_by("request_id", maintain_order=True):
        accepted = missed = 0.0
        for row in request.iter_rows(named=True):
            cut = row["truncated"] and row["spine_len"] == row["accept_len"]
            reached = min(len(row["draft_logprobs"]), row["spine_len"] + (not cut))
            run_logit = np.log((accepted + 1) / (missed + 1))
            for offset, log_prob in enumerate(row["draft_logprobs"][:reached], 1):
                logit = log_prob - np.log1p(-np.exp(log_prob))
                design.append([1.0, -row["prev_entropy"], logit, run_logit])
                outcome.append(float(offset <= row["spine_len"]))
                deeper.append(offset > 1)
            if row["draft_logprobs"]:
                accepted = 0.9 * accepted + row["spine_len"]
                missed = 0.9 * missed + (reached > row["spine_len"])
    design, outcome, deeper = np.array(design), np.array(outcome), np.array(deeper)
    fitted = Acceptance.fit(log)
    for law, rows in ((fitted.first, ~deeper), (fitted.beyond, deeper)):
        # The prior as half a success and half a failure at one unit of each feature.
        whole = np.vstack([design[rows], np.eye(4), np.eye(4)])
        seen = np.concatenate([outcome[rows], np.ones(4), np.zeros(4)])
        weights = np.concatenate([np.ones(rows.sum()), np.full(8, 0.5)])
        oracle = sm.GLM(seen, whole, family=sm.families.Binomial(), freq_weights=weights).fit(tol=1e-12)
        np.testing.assert_allclose([law.b0, law.b1, law.b2, law.b3], oracle.params, rtol=1e-6)


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
    hazard = 1 / (1 + np.exp(-(0.2 - 0.8 * 0.7 + 0.6 * 0.0)))
    np.testing.assert_allclose(calibrated[1:], [hazard, (1 - hazard) * 0.6, (1 - hazard) * 0.2])


def test_a_certain_draft_is_not_a_certain_acceptance():
    from policy.candidates import Candidates

    candidates = Candidates(np.array([0, 1]), np.array([-1, 0]), np.array([0.0, 0.0]))
    assert 0.5 < np.exp(TRUE.calibrate(candidates, 0.0).log_prob[1]) < 1.0


def test_a_short_one_sided_log_gives_finite_estimates_that_lean_its_way():
    rows = [
        {"accept_len": 3, "spine_len": 3, "horizon": 3, "prev_entropy": 0.1, "draft_logprobs": [-1e-6] * 3}
        for _ in range(5)
    ]
    law = Acceptance.fit(RoundLog.from_frame(pl.DataFrame(rows)))
    assert (law.hazard(np.array([-1e-6, -1e-6]), np.array([1, 2]), 0.1) > 0.8).all()


def test_a_log_without_what_is_known_before_verification_is_not_identified():
    bare = RoundLog.from_frame(pl.DataFrame({"accept_len": [1, 2], "horizon": [3, 3], "root_entropy": [0.1, 0.2]}))
    with pytest.raises(NotIdentified, match="prev_entropy, draft_logprobs and spine_len"):
        Acceptance.fit(bare)


def test_root_entropy_cannot_enter():
    log = simulated_log(40, seed=5)
    spoiled = RoundLog(log.frame.with_columns(pl.lit(3.0).alias("root_entropy")))
    assert Acceptance.fit(log) == Acceptance.fit(spoiled)


def test_json_round_trip_and_foreign_text():
    assert Acceptance.from_json(TRUE.to_json()) == TRUE
    for text in (
        "",
        "{}",
        "[]",
        '{"acceptance": 2}',
        '{"acceptance": 1, "b0": "x"}',
        '{"acceptance": 1, "z": 1}',
        _laws('"1"'),
        _laws("true"),
        _laws(str(10**400)),
        "[" * 100_000,
    ):
        with pytest.raises(LawfitError, match="not an acceptance law"):
            Acceptance.from_json(text)
    with pytest.raises(LawfitError, match="finite"):
        OffsetLaw(float("nan"), 1, 1)


def test_a_good_run_raises_the_estimate_and_a_bad_one_lowers_it():
    log_prob, depth = np.log(np.array([0.6, 0.6])), np.array([1, 2])
    good, none, bad = (TRUE.hazard(log_prob, depth, 0.5, logit) for logit in (2.0, 0.0, -2.0))
    assert (good > none).all()
    assert (none > bad).all()
