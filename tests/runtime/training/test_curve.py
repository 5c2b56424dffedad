"""The learning curve of a run that was killed counts every step once."""

import json

import numpy as np

from lawfit.bootstrap import Interval
from runtime.training.curve import LearningCurve


def interval():
    return Interval(*map(np.float64, (1.5, 1.4, 1.6, 0.1)), np.zeros(3), 0.95)


def test_steps_that_are_run_again_count_once(tmp_path):
    log = [{"step": step, "seconds": 1.0} for step in range(5)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in log))
    curve = LearningCurve(tmp_path, 4, 6)
    assert curve.follow({"step": 2, "seconds": 3.0}, interval) is None
    point = curve.follow({"step": 3, "seconds": 3.0}, interval)
    assert (point.step, point.seconds, point.tau) == (4, 1.0 + 1.0 + 3.0 + 3.0, 1.5)
    again = LearningCurve(tmp_path, 4, 6)
    assert again.points == [point]
    assert again.follow({"step": 3, "seconds": 1.0}, interval) is None
    assert again.follow({"step": 5, "seconds": 1.0}, interval).step == 6
