from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from lawfit import RoundLog


def make_rounds(
    seed: int,
    *,
    prompts: int = 40,
    rounds: int = 30,
    shift: float = 0.0,
    slope: float = 0.9,
    prompt_sd: float = 0.3,
    cut: float = 0.0,
) -> RoundLog:
    """Rounds of an affine law with levels of prompts; ``shift`` moves the log odds of task t1 only."""
    rng = np.random.default_rng(seed)
    n, horizon = prompts * rounds, 8
    prompt = np.repeat(np.arange(prompts), rounds)
    entropy = rng.gamma(0.8, 0.9, n)
    logit = 1.2 + rng.normal(0, prompt_sd, prompts)[prompt] - slope * entropy + np.where(prompt % 4 == 1, shift, 0.0)
    run = np.cumprod(rng.random((n, horizon)) < 1 / (1 + np.exp(-logit))[:, None], axis=1).sum(axis=1)
    last = np.where(rng.random(n) < cut, rng.integers(0, horizon, n), horizon)
    return RoundLog.from_frame(
        pl.DataFrame(
            {
                "accept_len": np.minimum(run, last),
                "horizon": np.full(n, horizon),
                "truncated": (run >= last) & (last < horizon),
                "root_entropy": entropy,
                "prompt_id": [f"{seed}-{k}" for k in prompt],
                "request_id": [f"r{k}" for k in prompt],
                "task": [f"t{k % 4}" for k in prompt],
                "target": [f"model-{'q4_k_m' if k % 2 else 'BF16'}" for k in prompt],
                "engine": "vLLM 0.26",
                "temperature": np.where(prompt % 4 < 2, 0.0, 1.0),
                "round": np.tile(np.arange(rounds), prompts),
                "position": np.tile(np.arange(rounds) * 3, prompts),
                "context_len": np.tile(np.arange(rounds) * 3, prompts) + 50 + 10 * prompt,
            }
        )
    )


@pytest.fixture(scope="session")
def world() -> Callable[..., RoundLog]:
    return make_rounds
