from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lawfit import FitError, NotIdentified, RoundLog
from lawfit.calibration.calibration import Calibration, cross_fitted
from lawfit.calibration.nodes import NodeTable, spine_nodes, trace_nodes
from lawfit.calibration.reliability import Forecast, reliability
from lawfit.calibration.scores import score
from lawfit.trace import Trace

TRACE = Path(__file__).parents[3] / "data" / "trace.parquet"


def log_score(p: np.ndarray, nodes: NodeTable) -> float:
    return float(score(Forecast.of(p, nodes.accepted, nodes.weight, nodes.cluster), resamples=2).log_score.estimate)


@pytest.mark.parametrize("method", ["logistic", "isotonic"])
def test_on_new_rounds_of_known_prompts_levels_help(chain: Callable[..., RoundLog], method: str) -> None:
    every = spine_nodes(chain(11, rounds=40, prompt_sd=0.8)).at_risk()
    early = (every.frame["round_row"].to_numpy() % 40) < 20
    old, new = every.take(early), every.take(~early)
    plain, levelled = (Calibration.fit(old, method=method, levels=levels) for levels in (False, True))  # type: ignore[arg-type]
    assert log_score(levelled.probability(new), new) < 0.97 * log_score(plain.probability(new), new)
    assert log_score(plain.probability(new), new) < log_score(new.draft_prob, new)


def test_cross_fitted_probabilities_do_not_know_their_prompt(nodes: NodeTable) -> None:
    held = cross_fitted(nodes, levels=True)
    changed = nodes.frame.with_columns(accepted=pl.col("accepted") ^ (pl.col("prompt") == "p0"))
    again = cross_fitted(NodeTable(changed), levels=True)
    of_prompt = (nodes.frame["prompt"] == "p0").to_numpy()
    assert again[of_prompt] == pytest.approx(held[of_prompt], abs=1e-12)
    assert np.abs(again[~of_prompt] - held[~of_prompt]).max() > 1e-3


def test_in_sample_scores_flatter_and_cross_fitted_ones_are_calibrated(nodes: NodeTable) -> None:
    held, fitted = cross_fitted(nodes), Calibration.fit(nodes).probability(nodes)
    assert log_score(fitted, nodes) < log_score(held, nodes)
    curve = reliability(Forecast.of(held, nodes.accepted, nodes.weight, nodes.cluster))
    assert curve.ece < curve.ece_limit


@pytest.mark.parametrize("method", ["logistic", "isotonic"])
def test_siblings_of_a_real_trace_stay_coherent_and_calibration_beats_the_draft(method: str) -> None:
    trace = Trace.read(TRACE)
    some = Trace.from_frame(trace.frame.filter(pl.col("position") % 6 == 0))
    nodes = trace_nodes(some)
    fitted = Calibration.fit(nodes, method=method)  # type: ignore[arg-type]
    p = fitted.probability(nodes)
    assert (np.bincount(nodes.siblings, weights=p) <= 1 + 1e-9).all()
    assert ((p > 0) & (p <= 1)).all()
    seen = nodes.at_risk()
    assert log_score(cross_fitted(seen, method=method), seen) < 0.6 * log_score(seen.draft_prob.clip(0, 1), seen)  # type: ignore[arg-type]


def test_nameless_prompts_have_no_levels_and_no_cross_fit(nodes: NodeTable) -> None:
    nameless = NodeTable(nodes.frame.with_columns(prompt=pl.lit(None, pl.String)))
    fitted = Calibration.fit(nameless)
    assert fitted.levels is None
    assert fitted.prompts is None
    with pytest.raises(NotIdentified, match="prompts are not named"):
        cross_fitted(nameless)


def test_repeats_of_one_token_do_not_sharpen_a_prompts_level() -> None:
    """Every token tested by four drafts, as in a trace, gives the levels of tokens tested once."""
    rng = np.random.default_rng(2)
    n = 40 * 12
    frame = pl.DataFrame(
        {
            "round_row": np.arange(n), "parent": 0, "depth": 1, "rank": 0, "draft_logprob": -0.4, "on_spine": True,
            "below_spine": True, "reached": True, "accepted": rng.random(n) < np.repeat(rng.beta(4, 2, 40), 12),
            "prev_entropy": None, "draft_entropy": None, "prompt": [f"p{k // 12}" for k in range(n)], "task": "t",
            "request": [f"p{k // 12}" for k in range(n)], "position": np.arange(n), "weight": 1,
        }
    )  # fmt: skip
    repeats = [
        frame.with_columns(pl.col("depth") + k, pl.col("position") - k, pl.col("round_row") + k * n) for k in range(4)
    ]
    once, many = (Calibration.fit(NodeTable(f), features=()).levels for f in (frame, pl.concat(repeats)))
    assert once is not None
    assert many is not None
    assert many.prompt_sd == pytest.approx(once.prompt_sd, rel=1e-3)
    assert once.prompt_sd > 0.3


def test_an_unknown_method_is_refused(nodes: NodeTable) -> None:
    with pytest.raises(FitError, match="method is 'magic'"):
        Calibration.fit(nodes, method="magic")  # type: ignore[arg-type]
