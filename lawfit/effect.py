"""One number with its interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lawfit.bootstrap import Interval


@dataclass(frozen=True)
class Effect:
    """An estimate and both ends of its interval; NaN where the log cannot tell."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        """Write it as in a table: ``0.106 [0.084, 0.128]``."""
        return f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"


def effects(interval: Interval) -> tuple[Effect, ...]:
    """Take a bootstrapped statistic apart: one effect for each of its numbers."""
    ends = (np.atleast_1d(values).tolist() for values in (interval.estimate, interval.low, interval.high))
    return tuple(Effect(*numbers) for numbers in zip(*ends, strict=True))
