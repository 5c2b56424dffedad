"""vLLM's responses with per-request acceptance metrics: one JSON response, an array, or JSON Lines of them.

The server must run with ``--per-request-spec-decode-metrics detailed`` (or ``summary``); the block is then
``metrics.speculative_decoding`` of the response. Its counts exclude the bonus token.

- ``detailed`` gives ``per_step_accepted`` and ``per_step_drafted``: one row per step, the drafted count being
  that step's horizon.
- ``summary`` gives the histogram alone: one row, with its ``count``, per accepted length. That needs one
  horizon for all steps: ``num_spec_tokens``, if every step drafted so many.
- An earlier form of the same feature is ``choices[].speculative_decoding_stats``, its histogram a map without
  the zeros.

Responses name neither prompt nor entropy; the request is the response's ``id``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from lawfit.errors import LogFormatError
from lawfit.place import Place
from lawfit.readers.columns import unicode
from lawfit.readers.given import Given
from lawfit.readers.record import Record
from lawfit.readers.sheet import Sheet
from lawfit.readers.table import load_records
from lawfit.schema import BY_NAME

FLAG = "--per-request-spec-decode-metrics detailed"
_OLD_BLOCK = "speculative_decoding_stats"
_COLUMNS = ("request_id", "target", "round", "horizon", "accept_len", "count")
Row = tuple[str | None, str | None, int | None, int, int, int]


def recognise(first: Mapping[str, Any]) -> bool:
    """Tell whether ``first`` is a response of an OpenAI-like server, with the metrics or without."""
    metrics = first.get("metrics")
    return "choices" in first or (isinstance(metrics, dict) and "speculative_decoding" in metrics)


def read(path: Path, given: Given) -> Sheet:
    """Read the responses; a constant ``horizon`` serves a summary that lacks ``num_spec_tokens``.

    Raises
    ------
    LogFormatError
        A response has no metrics, its counts contradict each other, or its horizon is not known.
    """
    records, place = load_records(path)
    rows: list[Row] = []
    where: list[int] = []
    notes = []
    for number, values in enumerate(records):
        before = len(rows)
        for request, block in _blocks(values, place.of(number)):
            rows += _rows(request, _text(values.get("model")), block, given)
        where += [number] * (len(rows) - before)
        if len(rows) == before:
            notes.append(f"{place.of(number)}: a response without speculative steps gives no rows")
    if not rows:
        raise LogFormatError(f"{path}: no response has speculative steps")
    schema = {name: BY_NAME[name].dtype for name in _COLUMNS}
    frame = pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        engine=pl.lit("vLLM"), shape=pl.lit("chain"), budget="horizon"
    )
    lines = None if place.lines is None else [place.lines[number] for number in where]
    return Sheet(frame, Place(place.source, lines), tuple(notes))


def _blocks(values: Mapping[str, Any], where: str) -> Iterator[tuple[str | None, Record]]:
    """Yield the request and the metrics block of a response, of each choice in the earlier form."""
    request = _text(values.get("id"))
    metrics = values.get("metrics")
    block = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
    if isinstance(block, dict):
        yield request, Record(block, where)
        return
    choices = values.get("choices")
    listed = choices if isinstance(choices, list) else []
    olds = [choice.get(_OLD_BLOCK) for choice in listed if isinstance(choice, dict)]
    if not any(isinstance(old, dict) for old in olds):
        raise LogFormatError(
            f"{where}: a response without metrics.speculative_decoding; "
            f"start vLLM with {FLAG} (it covers requests with n=1)"
        )
    for index, old in enumerate(olds):
        if isinstance(old, dict):
            name = request if request is None or len(olds) == 1 else f"{request}/{index}"
            yield name, Record(old, where)


def _rows(request: str | None, model: str | None, block: Record, given: Given) -> list[Row]:
    histogram = _histogram(block)
    steps, drafted = block.whole("num_spec_steps"), block.whole("num_draft_tokens")
    accepted = block.whole("num_accepted_draft_tokens")
    _same(block, "acceptance_histogram sums to", sum(histogram.values()), "num_spec_steps", steps)
    total = sum(length * count for length, count in histogram.items())
    _same(block, "acceptance_histogram accepts", total, "num_accepted_draft_tokens", accepted)
    if accepted > drafted:
        raise LogFormatError(f"{accepted} draft tokens accepted of {drafted} drafted ({block.where})")
    if block.values.get("per_step_accepted") is None:
        horizon = _one_horizon(block, steps, drafted, given)
        return [(request, model, None, horizon, length, count) for length, count in histogram.items() if count]
    lengths, horizons = block.wholes("per_step_accepted"), block.wholes("per_step_drafted")
    _same(block, "per_step_drafted has a length of", len(horizons), "num_spec_steps", steps)
    _same(block, "per_step_drafted sums to", sum(horizons), "num_draft_tokens", drafted)
    if {length: lengths.count(length) for length in set(lengths)} != {j: n for j, n in histogram.items() if n}:
        raise LogFormatError(f"per_step_accepted contradicts acceptance_histogram ({block.where})")
    pairs = enumerate(zip(lengths, horizons, strict=True))
    return [(request, model, step, horizon, length, 1) for step, (length, horizon) in pairs]


def _histogram(block: Record) -> dict[int, int]:
    """Read the steps by accepted length: a list over 0..k, or a map without its zeros."""
    found = block.values.get("acceptance_histogram")
    if not isinstance(found, dict):
        return dict(enumerate(block.wholes("acceptance_histogram")))
    if not all(key.isdecimal() and len(key) < 10 for key in found):
        block.refuse("acceptance_histogram", found, "accepted lengths as keys")
    counts = Record(found, block.where)
    return {int(key): counts.whole(key) for key in found}


def _one_horizon(block: Record, steps: int, drafted: int, given: Given) -> int:
    """Find the horizon that all steps of a summary share."""
    known = block.values.get("num_spec_tokens") is not None
    horizon = block.whole("num_spec_tokens") if known else given.constants.get("horizon")
    if horizon is None:
        raise LogFormatError(
            f"a summary without num_spec_tokens does not hold its horizon; give it, e.g. --set horizon=3, "
            f"or start vLLM with {FLAG} ({block.where})"
        )
    if drafted != steps * horizon:
        raise LogFormatError(
            f"{drafted} tokens drafted in {steps} steps, not {horizon} in each, and a summary does not say "
            f"which steps differ; start vLLM with {FLAG} ({block.where})"
        )
    return int(horizon)


def _same(block: Record, what: str, found: int, name: str, expected: int) -> None:
    if found != expected:
        raise LogFormatError(f"{what} {found}, {name} is {expected} ({block.where})")


def _text(value: Any) -> str | None:
    return unicode(value) if isinstance(value, str) else None
