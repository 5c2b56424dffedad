"""What the runs of the demo come to, per task and together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.demo import ADAPTIVE, FIXED, PLAIN, Run

MEAN = "mean"
# Spread of plain decoding over prompts beyond which a run is called noisy.
RESTLESS = 1.5


@dataclass(frozen=True)
class Line:
    """One task, or the mean of the tasks.

    Attributes
    ----------
    task
        Workload name.
    tau
        Tokens per round of the adaptive arm, bonus included.
    fixed
        Tokens per second of each fixed budget over plain decoding.
    adaptive
        The same of the adaptive arm.
    speculated
        Share of the adaptive arm's rounds that verified a draft.
    interval
        95% bootstrap interval of ``adaptive``, prompts resampled.
    """

    task: str
    tau: float
    fixed: dict[int, float]
    adaptive: float
    speculated: float
    interval: tuple[float, float]


def lines(runs: Sequence[Run]) -> list[Line]:
    """Sum the runs of every task, in order of appearance."""
    tasks = dict.fromkeys(run.prompt.task for run in runs)
    return [_line(task, [run for run in runs if run.prompt.task == task]) for task in tasks]


def mean(rows: Sequence[Line]) -> Line:
    """Average the tasks with equal weight; tasks are independent, so their variances add."""
    count = len(rows)
    fixed = {budget: sum(row.fixed[budget] for row in rows) / count for budget in FIXED}
    adaptive = sum(row.adaptive for row in rows) / count
    half = sum(((row.interval[1] - row.interval[0]) / 2) ** 2 for row in rows) ** 0.5 / count
    return Line(
        MEAN,
        sum(row.tau for row in rows) / count,
        fixed,
        adaptive,
        sum(row.speculated for row in rows) / count,
        (adaptive - half, adaptive + half),
    )


def spread(runs: Sequence[Run]) -> float:
    """Give the ratio of the 90th to the 10th percentile of plain decoding's time per token over prompts.

    On a quiet machine it is close to 1; a large one says that something else was running.
    """
    plain = [run.seconds / run.tokens for run in runs if run.arm == PLAIN and run.tokens]
    low, high = np.quantile(plain, [0.1, 0.9])
    return float(high / low)


def identical(runs: Sequence[Run]) -> tuple[int, int]:
    """Count the prompts whose output is the plain one in every arm, and all prompts."""
    prompts = {run.prompt.prompt_id for run in runs}
    differing = {run.prompt.prompt_id for run in runs if run.divergence is not None}
    return len(prompts) - len(differing), len(prompts)


def to_json(rows: Sequence[Line], same: tuple[int, int], extra: dict[str, Any]) -> dict[str, Any]:
    """Give the machine-readable result."""
    tasks = {
        row.task: {
            "tau": round(row.tau, 4),
            "fixed": {str(budget): round(ratio, 4) for budget, ratio in row.fixed.items()},
            "adaptive": round(row.adaptive, 4),
            "interval": [round(end, 4) for end in row.interval],
            "speculated": round(row.speculated, 4),
        }
        for row in [*rows, mean(rows)]
    }
    return {"prompts": same[1], "identical": same[0], "mean": tasks.pop(MEAN), "tasks": tasks, **extra}


def to_table(rows: Sequence[Line]) -> list[list[str]]:
    """Give the printed table, header first, the mean of the tasks last."""
    header = ["task", "tau", *(f"fixed {budget}" for budget in FIXED), "adaptive", "95%", "speculated"]
    return [header, *(_cells(row) for row in [*rows, mean(rows)])]


def _cells(row: Line) -> list[str]:
    ratios = [f"{row.fixed[budget]:.2f}x" for budget in FIXED]
    return [row.task, f"{row.tau:.2f}", *ratios, f"{row.adaptive:.2f}x", _range(row.interval), f"{row.speculated:.0%}"]


def _range(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.2f}-{interval[1]:.2f}"


def _line(task: str, runs: Sequence[Run]) -> Line:
    def speed(arm: str) -> float:
        chosen = [run for run in runs if run.arm == arm]
        return sum(run.tokens for run in chosen) / max(sum(run.seconds for run in chosen), 1e-9)

    plain = speed(PLAIN)
    adaptive = [run for run in runs if run.arm == ADAPTIVE]
    rounds = max(sum(run.rounds for run in adaptive), 1)
    return Line(
        task,
        sum(run.tokens for run in adaptive) / rounds,
        {budget: speed(str(budget)) / plain for budget in FIXED},
        speed(ADAPTIVE) / plain,
        sum(run.speculated for run in adaptive) / rounds,
        _interval(runs),
    )


def _interval(runs: Sequence[Run], resamples: int = 2000) -> tuple[float, float]:
    """Resample prompts, both arms of a prompt together, and take the ratio of speeds anew."""

    def sums(arm: str) -> NDArray[np.float64]:
        return np.array([(run.tokens, run.seconds) for run in runs if run.arm == arm])

    drawn = np.random.default_rng(0).integers(0, len(sums(PLAIN)), (resamples, len(sums(PLAIN))))
    tokens, seconds = np.moveaxis(sums(ADAPTIVE)[drawn].sum(axis=1), -1, 0)
    plain_tokens, plain_seconds = np.moveaxis(sums(PLAIN)[drawn].sum(axis=1), -1, 0)
    low, high = np.quantile(tokens / seconds / (plain_tokens / plain_seconds), [0.025, 0.975])
    return float(low), float(high)
