"""AIPerf's acceptance records (``SpecDecodeAcceptanceRecord``): one JSON object per request.

A record stands alone, or under ``spec_decode_acceptance`` of a request's record. Its histogram is a map from accepted
drafts (bonus out) to steps, without zeros; ``per_step_accepted`` and ``per_step_drafted`` are there where the engine
gave them. ``mean_acceptance_length`` has the bonus in and is not used.

AIPerf writes a histogram for llama.cpp too, though that server gives sums only: it spreads the accepted tokens evenly
over the steps. Such a record is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lawfit.errors import LogFormatError
from lawfit.readers.acceptance import LIMITS, Form, step_rows
from lawfit.readers.given import Given
from lawfit.readers.glimpse import Glimpse
from lawfit.readers.record import Record
from lawfit.readers.responses import Block, Response, read_blocks, text
from lawfit.readers.sheet import Sheet, gathered

_NESTED = "spec_decode_acceptance"
_FORM = Form(
    "AIPerf's acceptance record",
    "num_accepted_draft_tokens",
    "num_draft_tokens",
    "let the engine write per_step_drafted, as vLLM's detailed does",
)
_SIGNATURE = {"engine", "acceptance_histogram", "num_spec_steps"}
_NAMES = ("x_request_id", "request_id", "id")


def recognise(glimpse: Glimpse) -> bool:
    """Tell whether the first objects are acceptance records, or records of requests that hold one."""
    return any(_record(first) is not None for first in glimpse.records)


def read(path: Path, given: Given) -> Sheet:
    """Read the records; a constant ``horizon`` serves those without ``num_spec_tokens``.

    Raises
    ------
    LogFormatError
        No record has steps, its counts contradict each other, it is llama.cpp's, or its horizon is not known.
    """
    found = read_blocks(path, _blocks, lambda block: step_rows(block.record, _FORM, given), _FORM.name)
    return gathered(found.rows, found.place, (*found.notes, f"{path}: {LIMITS}"))


def _record(response: Response) -> Mapping[str, Any] | None:
    nested = response.get(_NESTED)
    if isinstance(nested, dict):
        return nested
    return response if response.keys() >= _SIGNATURE else None


def _blocks(response: Response, where: str) -> Iterator[Block]:
    found = _record(response)
    if found is None:
        return
    record = Record(found, where)
    engine = text(found.get("engine"))
    if engine is not None and "llama" in engine.lower():
        raise LogFormatError(
            f"engine {engine!r}: its server gives sums only ({found.get('num_accepted_draft_tokens')} accepted in "
            f"{found.get('num_spec_steps')} steps), and this histogram is those sums spread evenly: no rounds were "
            f"seen; convert the server's log with its 'draft acceptance' lines instead ({where})"
        )
    metadata = response.get("metadata")
    named = {**response, **(metadata if isinstance(metadata, dict) else {})}
    request = next((name for key in _NAMES if (name := text(named.get(key))) is not None), None)
    tokens = record.whole("completion_tokens") if found.get("completion_tokens") is not None else None
    yield Block(record, {"request_id": request, "engine": engine, "target": text(named.get("model"))}, tokens)
