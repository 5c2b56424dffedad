"""SGLang's DSpark dump: ``dspark_info_record`` of ``/server_info``, per round and request.

``records[]`` are passes of a batch (``forward_ct``, ``bs``, times); ``reqs[]`` in them are its requests: ``verify_len``
(verified tokens, root included: the horizon is one less), ``acc_len`` (bonus in), ``correct_drafts``, ``prefix_len``.
Times are those of the whole pass. ``confidence[]`` and ``survival[]`` have no column in the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lawfit.errors import LogFormatError
from lawfit.place import Place
from lawfit.readers.given import Given
from lawfit.readers.glimpse import Glimpse
from lawfit.readers.histogram import Row
from lawfit.readers.record import Record
from lawfit.readers.responses import text
from lawfit.readers.sheet import Sheet, gathered
from lawfit.readers.table import load_records
from lawfit.words import counted

_DUMP = "dspark_info_record"
_TIMES = {"draft_gpu_ms": "draft_ms", "target_verify_gpu_ms": "verify_ms", "step_gpu_ms": "round_ms"}
_SWITCH = "SGLANG_DSPARK_DEBUG_DUMP=all"


def recognise(glimpse: Glimpse) -> bool:
    """Tell whether the first objects hold a dump, or passes of one."""
    return any(_DUMP in first or _listed(first, "reqs") or any(_dumps(first)) for first in glimpse.records)


def read(path: Path, given: Given) -> Sheet:
    """Read every dump of the file.

    Raises
    ------
    LogFormatError
        There is no pass with requests, or the lengths of a request contradict each other.
    """
    records, place = load_records(path)
    rows: list[Row] = []
    where: list[int] = []
    rounds: dict[str, int] = {}
    for number, values in enumerate(records):
        for at, step in _steps(values):
            for row in _rows(Record(step, f"{place.of(number)}{at}")):
                name = row["request_id"]
                if name is not None:
                    row["round"] = rounds[name] = rounds.get(name, -1) + 1
                rows.append(row)
        where += [number] * (len(rows) - len(where))
    if not rows:
        raise LogFormatError(f"{path}: no pass of the dump lists its requests; start SGLang with {_SWITCH}")
    lines = None if place.lines is None else [place.lines[number] for number in where]
    notes = (
        f"{path}: rounds of {counted(len(rounds), 'request')} with their own horizons; times are of the whole batch",
        f"{path}: no entropy and no prompt; confidence and survival have no column and are left out",
    )
    return gathered(rows, Place(place.source, lines), notes, engine="SGLang", drafter="DSpark", shape="chain")


def _dumps(values: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the dumps of a server's state, of each rank, or the object itself if it is one."""
    if isinstance(dump := values.get(_DUMP), dict):
        yield dump
    for state in _listed(values, "internal_states"):
        if isinstance(dump := state.get(_DUMP), dict):
            yield dump
    if any("reqs" in step or "forward_ct" in step for step in _listed(values, "records")):
        yield values


def _steps(values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the passes of an object with their place in it: of its dumps, or the object itself."""
    if _listed(values, "reqs"):
        yield "", values
    for dump in _dumps(values):
        for number, step in enumerate(_listed(dump, "records")):
            yield f" record {number}", step


def _rows(step: Record) -> list[Row]:
    requests = _listed(step.values, "reqs")
    size = step.values.get("bs")
    shared: Row = {"batch_size": step.whole("bs") if isinstance(size, int) and size > 0 else len(requests)}
    shared |= {column: step.real(name) for name, column in _TIMES.items()}
    return [{**_row(Record(request, step.where)), **shared} for request in requests]


def _row(request: Record) -> Row:
    request.require(("verify_len", "acc_len", "correct_drafts"), "a request of SGLang's dspark dump")
    verified, emitted = request.whole("verify_len"), request.whole("acc_len")
    correct = request.whole("correct_drafts")
    trimmed = request.whole("cap_trim") if request.values.get("cap_trim") is not None else 0
    if emitted not in (correct + 1, correct + 1 - trimmed):
        request.refuse("acc_len", emitted, f"correct_drafts + 1 with correct_drafts {correct}")
    if not 1 <= emitted <= verified:
        request.refuse("acc_len", emitted, f"1 to verify_len {verified}")
    context = request.values.get("prefix_len")
    return {
        "request_id": text(request.values.get("rid")),
        "context_len": None if context is None else request.whole("prefix_len"),
        "horizon": verified - 1,
        "accept_len": emitted - 1,
    }


def _listed(values: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = values.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
