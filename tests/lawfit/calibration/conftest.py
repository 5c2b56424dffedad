from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from lawfit import RoundLog
from lawfit.calibration.nodes import NodeTable, spine_nodes


def chain_log(seed: int, prompts: int = 24, rounds: int = 30, slope: float = 0.7, prompt_sd: float = 0.4) -> RoundLog:
    """Rounds of a chain drafter whose log odds, scaled by ``slope``, are the truth up to task and prompt levels."""
    rng = np.random.default_rng(seed)
    n, depth = prompts * rounds, 5
    prompt = np.repeat(np.arange(prompts), rounds)
    level = np.array([-0.8, 0.0, 0.8])[prompt % 3] + rng.normal(0.0, prompt_sd, prompts)[prompt]
    logit = rng.normal(1.0, 1.5, (n, depth))
    match = rng.random((n, depth)) < 1.0 / (1.0 + np.exp(-(slope * logit + level[:, None])))
    run = np.cumprod(match, axis=1).sum(axis=1)
    return RoundLog.from_frame(
        pl.DataFrame(
            {
                "accept_len": run,
                "spine_len": run,
                "horizon": np.full(n, depth),
                "truncated": np.zeros(n, dtype=bool),
                "prompt_id": [f"p{k}" for k in prompt],
                "request_id": [f"r{k}" for k in prompt],
                "task": [f"t{k % 3}" for k in prompt],
                "round": np.tile(np.arange(rounds), prompts),
                "prev_entropy": rng.exponential(1.0, n),
                "draft_logprobs": (-np.log1p(np.exp(-logit))).tolist(),
            }
        )
    )


@pytest.fixture(scope="session")
def nodes() -> NodeTable:
    """Reached nodes of 720 rounds of 24 prompts in three tasks."""
    return spine_nodes(chain_log(3)).at_risk()


@pytest.fixture(scope="session")
def chain() -> Callable[..., RoundLog]:
    """The maker of such logs."""
    return chain_log
