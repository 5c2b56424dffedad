"""One part of the report: a section of the page, and the sentences that it adds to the summary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lawfit.association import Association
from lawfit.bootstrap import Interval
from lawfit.errors import LawfitError
from lawfit.page import Finding, Section


@dataclass(frozen=True)
class Part:
    """A section, and findings for the top of the page."""

    section: Section
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Untold:
    """A part that the log cannot tell, and why."""

    title: str
    reason: str


@dataclass(frozen=True)
class Settings:
    """What all parts share: resamples and seed of every bootstrap, and whose errors the intervals are."""

    resamples: int = 2000
    seed: int = 0
    by_prompt: bool = True

    @property
    def intervals(self) -> str:
        """Say what the 95% intervals are over."""
        return "over prompts" if self.by_prompt else "as if rounds were independent: no prompt is named"


def attempt(title: str, make: Callable[[], Part]) -> Part | Untold:
    """Make a part, or say why the log cannot tell it."""
    try:
        return make()
    except LawfitError as error:
        return Untold(title, str(error))


def spread(estimate: float, low: float, high: float, digits: int = 3) -> str:
    """Write an estimate with its interval: ``1.145 (1.111 to 1.179)``; one that is no number stays empty."""
    if estimate != estimate:
        return ""
    if low != low or high != high:
        return _number(estimate, digits)
    return f"{_number(estimate, digits)} ({_number(low, digits)} to {_number(high, digits)})"


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if abs(value) != float("inf") else "∞" if value > 0 else "-∞"


def measured(found: Association, digits: int = 3) -> str:
    """Write a measure with its interval by prompt, where it has one."""
    if found.interval is None:
        return f"{found.estimate:.{digits}f}"
    return spread(found.estimate, float(found.interval.low), float(found.interval.high), digits)


def entry(interval: Interval, k: int, digits: int = 4) -> str:
    """Write the k-th number of a bootstrapped statistic."""
    if interval.estimate[k] == float("-inf"):
        return "ruled out"
    return spread(float(interval.estimate[k]), float(interval.low[k]), float(interval.high[k]), digits)
