"""Readers: what other engines write, as the round log v1.

`read_rounds` reads files of any known format; `read_with_notes` also tells what it found and decided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from lawfit.errors import LawfitError
from lawfit.log import RoundLog, concat
from lawfit.readers import glance, mapped, own, proposals, vllm
from lawfit.readers.given import Given
from lawfit.readers.sheet import Sheet, fill
from lawfit.readers.table import first_record


@dataclass(frozen=True)
class Format:
    """A way to write rounds down.

    Attributes
    ----------
    name, about
        What the user calls it, and what it is.
    recognise
        Whether the first JSON object of a file is of this format.
    read
        Reads a file.
    consumes
        Constants that the reader puts into the rows itself.
    """

    name: str
    about: str
    recognise: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Path, Given], Sheet]
    consumes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """A log, and what its reader had to tell."""

    log: RoundLog
    notes: tuple[str, ...] = ()


def _never(first: Mapping[str, Any]) -> bool:
    return False


OWN = Format("own", "round log v1 of lawfit, or a recorder's folder of parts", _never, own.read_sheet)
MAPPED = Format("mapped", "any CSV, TSV, JSON Lines or Parquet table, with a mapping", _never, mapped.read)
FORMATS: tuple[Format, ...] = (
    OWN,
    Format("glance", "round log of the GLANCE code", glance.recognise, glance.read, ("horizon",)),
    Format("vllm", "vLLM responses with acceptance metrics", vllm.recognise, vllm.read),
    Format("proposals", "EAGLE3 proposals.jsonl", proposals.recognise, proposals.read, ("horizon",)),
    MAPPED,
)
BY_FORMAT: dict[str, Format] = {format_.name: format_ for format_ in FORMATS}


def read_rounds(
    paths: Path | str | Sequence[Path | str],
    format: str = "auto",
    mapping: Mapping[str, str] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> RoundLog:
    """Read round logs of any known format as one.

    Parameters
    ----------
    paths
        Files, or folders of recorder parts.
    format
        ``auto``, or the name of one of `FORMATS` for all files.
    mapping
        Source column of each log column, for tables of other tools: ``{"accept_len": "acc_len-1"}``.
    constants
        Values of log columns that the files do not hold: ``{"horizon": 6}``.

    Raises
    ------
    LogFormatError
        A file is not what it should be.
    LawfitError
        The arguments do not fit together.
    """
    return read_with_notes(paths, format, mapping, constants).log


def read_with_notes(
    paths: Path | str | Sequence[Path | str],
    format: str = "auto",
    mapping: Mapping[str, str] | None = None,
    constants: Mapping[str, Any] | None = None,
    on_read: Callable[[Path], None] = lambda path: None,
) -> Reading:
    """Read as `read_rounds` does, and tell what was found; ``on_read`` is called after each file."""
    given = Given.checked(mapping, constants)
    files = [Path(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    if not files:
        raise LawfitError("no input was given")
    names = _run_names(files)
    logs, notes = [], []
    for file, name in zip(files, names, strict=True):
        chosen = _choose(file, format, given)
        sheet = chosen.read(file, given)
        rest = {key: value for key, value in given.constants.items() if key not in chosen.consumes}
        sheet = fill(sheet, rest)
        log = RoundLog.from_frame(sheet.frame, sheet.place)
        logs.append(log if len(files) == 1 else _with_run(log, name))
        notes += [f"{file}: read as {chosen.name}", *sheet.notes]
        on_read(file)
    log = logs[0] if len(logs) == 1 else concat(logs)
    return Reading(log, (*notes, *_repeated_rounds(log)))


def _choose(path: Path, name: str, given: Given) -> Format:
    if name == "auto":
        if given.mapping:
            return MAPPED
        if own.recognise(path):
            return OWN
        first = first_record(path)
        return next((known for known in FORMATS if first is not None and known.recognise(first)), MAPPED)
    if name not in BY_FORMAT:
        raise LawfitError(f"no format {name!r}, expected auto, {', '.join(BY_FORMAT)}")
    if given.mapping and name != MAPPED.name:
        raise LawfitError(f"a mapping was given with format {name}; it goes with format mapped")
    return BY_FORMAT[name]


def _run_names(files: list[Path]) -> list[str]:
    """Name each file by its stem, or by its path where two stems are the same."""
    resolved = [file.resolve() for file in files]
    if twice := [file for k, file in enumerate(files) if resolved[k] in resolved[:k]]:
        raise LawfitError(f"{twice[0]}: given twice, its rounds would count double")
    stems = [file.stem for file in files]
    return [stem if stems.count(stem) == 1 else str(file) for stem, file in zip(stems, files, strict=True)]


def _with_run(log: RoundLog, name: str) -> RoundLog:
    """Name the run of rows that name none, so that equal request names of two files stay apart."""
    return RoundLog(log.frame.with_columns(pl.col("run_id").fill_null(name)), log.source)


def _repeated_rounds(log: RoundLog) -> list[str]:
    keys = ["run_id", "request_id", "round"]
    numbered = log.frame.filter(
        pl.col("request_id").is_not_null() & pl.col("round").is_not_null() & (pl.col("origin") == "round")
    ).select(keys)
    extra = numbered.height - numbered.n_unique() if numbered.height else 0
    if not extra:
        return []
    return [f"{extra} rows repeat the round of a request: several requests seem to share one request_id"]


__all__ = ["FORMATS", "Format", "Reading", "read_rounds", "read_with_notes"]
