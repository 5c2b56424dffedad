from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lawfit import Observations, RoundLog, observe

HUMANEVAL = Path(__file__).parents[2] / ".." / "shared" / "data" / "public-logs" / "humaneval_strict_rounds.parquet"


@pytest.fixture(scope="session")
def humaneval() -> RoundLog:
    """54,962 rounds of 164 HumanEval prompts, strict verification, horizon 6."""
    if not HUMANEVAL.exists():
        pytest.skip("the public HumanEval log is not on this machine")
    columns = {"a": "accept_len", "H": "root_entropy", "prompt": "prompt_id", "L": "horizon"}
    frame = pl.read_parquet(HUMANEVAL).rename(columns)
    return RoundLog.from_frame(frame.select(*columns.values(), "round", "task"))


@pytest.fixture(scope="session")
def humaneval_rounds(humaneval: RoundLog) -> Observations:
    return observe(humaneval, last_round="drop")


@pytest.fixture(scope="session")
def synthetic() -> RoundLog:
    """900 rounds of 30 prompts with their own level, three horizons, and some cut by the end of a request."""
    rng = np.random.default_rng(7)
    n = 900
    prompt = rng.integers(0, 30, n)
    level = rng.normal(0.0, 0.5, 30)[prompt]
    entropy = rng.gamma(0.8, 0.9, n)
    horizon = rng.choice([3, 5, 8], n)
    match = 1.0 / (1.0 + np.exp(-(1.2 + level - 0.9 * entropy)))
    run = rng.random((n, 8)) < match[:, None]
    a = np.minimum(np.cumprod(run, axis=1).sum(axis=1), horizon)
    cut = (rng.random(n) < 0.1) & (a > 0)
    a = np.where(cut, rng.integers(0, a + 1), a)
    return RoundLog.from_frame(
        pl.DataFrame(
            {
                "accept_len": a,
                "horizon": horizon,
                "truncated": cut,
                "root_entropy": entropy,
                "prompt_id": [f"p{k}" for k in prompt],
                "round": np.arange(n),
            }
        )
    )
