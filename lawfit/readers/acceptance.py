"""Per-request acceptance metrics, in the block that vLLM, TensorRT-LLM and AIPerf share but for its names."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from lawfit.errors import LogFormatError
from lawfit.readers.given import Given
from lawfit.readers.histogram import (
    MOST_CUT,
    Stated,
    check_drafted,
    check_identities,
    check_one_horizon,
    read_counts,
    rows,
)
from lawfit.readers.record import Record
from lawfit.readers.responses import Made

_HISTOGRAM = "acceptance_histogram"
LIMITS = "no entropy and no prompt: only entropy-free laws can be fitted, and errors cluster by request"


@dataclass(frozen=True)
class Form:
    """How an engine words its block.

    Attributes
    ----------
    name
        What the block is called.
    accepted, drafted
        Keys of the totals, bonus out.
    cure
        What to do where the block does not tell the horizons.
    most_cut
        Share of the rounds that may be short drafts counted as misses; 0 where the engine can tell each step.
    """

    name: str
    accepted: str
    drafted: str
    cure: str
    most_cut: float = MOST_CUT


def step_rows(block: Record, form: Form, given: Given) -> Made:
    """Make a row of each step where the block lists its steps, else of each accepted length.

    Raises
    ------
    LogFormatError
        A field is absent, the counts contradict each other, or the steps share no known horizon.
    """
    block.require((_HISTOGRAM, "num_spec_steps", form.accepted, form.drafted), form.name)
    counts = read_counts(block, _HISTOGRAM)
    steps = Stated("num_spec_steps", block.whole("num_spec_steps"))
    accepted = Stated(form.accepted, block.whole(form.accepted))
    drafted = Stated(form.drafted, block.whole(form.drafted))
    check_identities(counts, _HISTOGRAM, block.where, steps, accepted)
    check_drafted(accepted.value, drafted.value, block.where)
    if block.values.get("per_step_accepted") is None:
        horizon = _horizon(block, form, given)
        cut = check_one_horizon(counts, drafted.value, horizon, block.where, form.cure, form.most_cut)
        return Made(rows(counts, horizon), cut)
    lengths, horizons = block.wholes("per_step_accepted"), block.wholes("per_step_drafted")
    _same(block, "per_step_drafted has a length of", len(horizons), steps)
    _same(block, "per_step_drafted sums to", sum(horizons), drafted)
    if Counter(lengths) != {length: count for length, count in counts.items() if count}:
        raise LogFormatError(f"per_step_accepted contradicts {_HISTOGRAM} ({block.where})")
    pairs = enumerate(zip(lengths, horizons, strict=True))
    return Made([{"round": step, "horizon": horizon, "accept_len": length} for step, (length, horizon) in pairs])


def _horizon(block: Record, form: Form, given: Given) -> int:
    """Take the horizon that all steps of a histogram share."""
    if block.values.get("num_spec_tokens") is not None:
        return block.whole("num_spec_tokens")
    horizon = given.constants.get("horizon")
    if horizon is None:
        raise LogFormatError(
            "a histogram without num_spec_tokens does not hold its horizon; give it, e.g. --set horizon=3, or "
            f"{form.cure} ({block.where})"
        )
    return int(horizon)


def _same(block: Record, what: str, found: int, stated: Stated) -> None:
    if found != stated.value:
        raise LogFormatError(f"{what} {found}, {stated.name} is {stated.value} ({block.where})")
