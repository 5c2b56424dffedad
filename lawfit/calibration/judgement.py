"""Whether probabilities come true, by how much they do not, and where, in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from lawfit.calibration.reliability import Reliability

Lean = Literal["comes true", "promises too much", "promises too little", "promises too much here and too little there"]
# Bins that a sentence names.
_NAMED = 3


@dataclass(frozen=True)
class Judgement:
    """What a reliability curve says.

    Attributes
    ----------
    lean
        ``comes true`` where the calibration error is no larger than right probabilities give by chance (95%). Else
        which way it leans, if most of the error is on that side.
    excess
        Mean promise less the share that came true.
    off
        Bins whose promise lies outside the 95% interval of what came true, the worst (share of rows times gap) first.
        Of right probabilities one bin in twenty does so.
    """

    lean: Lean
    excess: float
    off: tuple[int, ...]


def judge(curve: Reliability) -> Judgement:
    """Judge a reliability curve."""
    gap, share = curve.predicted - curve.observed, curve.weight / curve.weight.sum()
    excess = float(share @ gap)
    lean: Lean = "promises too much here and too little there"
    if curve.ece <= curve.ece_limit:
        lean = "comes true"
    elif abs(excess) > 0.5 * curve.ece:
        lean = "promises too much" if excess > 0 else "promises too little"
    # An end without a number is no interval.
    outside = np.flatnonzero((curve.predicted < curve.low) | (curve.predicted > curve.high))
    worst = outside[np.argsort(-(share * np.abs(gap))[outside], kind="stable")]
    return Judgement(lean, excess, tuple(worst.tolist()))


def side(curve: Reliability, at: int) -> str:
    """Say which way bin ``at`` is off; empty where its promise lies within the interval."""
    if curve.predicted[at] > curve.high[at]:
        return "too much"
    return "too little" if curve.predicted[at] < curve.low[at] else ""


def in_words(curve: Reliability) -> str:
    """Say whether the probabilities come true, by how much they do not, and where."""
    found = judge(curve)
    chance = f"chance alone gives up to {curve.ece_limit:.3f}"
    if found.lean == "comes true":
        if not found.off:
            return f"comes true: off by {curve.ece:.3f} on average, {chance}"
        return f"comes true on the whole (off by {curve.ece:.3f} on average, {chance}), but not {_places(curve, found)}"
    by = f"{abs(found.excess):.3f}"
    one_sided = by == f"{curve.ece:.3f}"
    size = f"by {by} on average ({chance})" if one_sided else f"off by {curve.ece:.3f} on average ({chance})"
    where = f"; most {_places(curve, found)}" if found.off else ""
    return f"{found.lean}, {size}{where}"


def _places(curve: Reliability, found: Judgement) -> str:
    named = [
        f"{curve.predicted[k]:.3f}: {curve.observed[k]:.3f} accepted ({curve.low[k]:.3f} to {curve.high[k]:.3f}),"
        f" {side(curve, k)}"
        for k in found.off[:_NAMED]
    ]
    more = f" (and in {len(found.off) - _NAMED} more bins)" if len(found.off) > _NAMED else ""
    return f"where it promises {'; '.join(named)}{more}"
