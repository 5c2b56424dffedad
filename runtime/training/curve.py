"""The learning curve of a run: acceptance on held-out prompts as the steps go, kept beside the checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lawfit.bootstrap import Interval
from lawfit.files import remove_unfinished, write_text
from runtime.errors import TrainingError


@dataclass(frozen=True)
class CurvePoint:
    """Acceptance on held-out prompts after ``step`` steps and ``seconds`` of training."""

    step: int
    seconds: float
    tau: float
    low: float
    high: float


class LearningCurve:
    """The points of one run, in a folder that a killed run is gone on with from.

    Parameters
    ----------
    folder
        Holds ``curve.jsonl``, and the log of the steps.
    every, steps
        Steps between points, and in all: the last step has a point too.

    Raises
    ------
    TrainingError
        A file there is damaged.
    """

    def __init__(self, folder: Path, every: int, steps: int) -> None:
        self.path, self.every, self.steps = folder / "curve.jsonl", every, steps
        remove_unfinished(self.path)
        # By step: those behind the last checkpoint are run again, and count once.
        self.seconds = {int(record["step"]): float(record["seconds"]) for record in _lines(folder / "log.jsonl")}
        try:
            self.points = [CurvePoint(**record) for record in _lines(self.path)]
        except TypeError as error:
            raise TrainingError(f"{self.path}: not a learning curve ({error})") from error

    def follow(self, record: dict[str, float], measure: Callable[[], Interval]) -> CurvePoint | None:
        """Take note of a step, and measure where a point is due and not there yet."""
        done = int(record["step"]) + 1
        self.seconds[done - 1] = record["seconds"]
        due = done % self.every == 0 or done == self.steps
        if not due or any(point.step == done for point in self.points):
            return None
        tau, seconds = measure(), sum(value for step, value in self.seconds.items() if step < done)
        self.points.append(CurvePoint(done, seconds, float(tau.estimate), float(tau.low), float(tau.high)))
        write_text(self.path, "".join(json.dumps(asdict(point)) + "\n" for point in self.points))
        return self.points[-1]


def steps_done(folder: Path) -> int:
    """Count the steps that a run in ``folder`` has saved."""
    return len(_lines(folder / "work" / "log.jsonl"))


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    except ValueError as error:
        raise TrainingError(f"{path}: a damaged log ({error}): remove the folder") from error
