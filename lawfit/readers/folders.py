"""Folders: one recorder's log in parts, or many logs side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from lawfit.errors import LogFormatError
from lawfit.readers.parts import SUFFIX
from lawfit.readers.table import JSON_SUFFIXES, SEPARATORS, UNREADABLE
from lawfit.schema import REQUIRED

_LOGS = {".parquet", *SEPARATORS, *JSON_SUFFIXES, ".log", ".txt", ".out", ".prom"}
_TEMPORARY = {".tmp", ".temp", ".part", ".partial", ".swp", ".bak", ".crdownload"}
_SHOWN = 5  # names in a note


@dataclass(frozen=True)
class Inputs:
    """Logs that some paths stand for.

    Attributes
    ----------
    paths
        Files, and folders that are one log in parts.
    notes
        What was passed over in folders.
    """

    paths: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def expand(paths: Sequence[Path], *, apart: bool = False) -> Inputs:
    """Replace folders by the logs in them.

    A folder whose logs are all Parquet of the round log's own columns is one log in parts, unless ``apart``. Files
    that are hidden, temporary or not named like a log, and folders within, are passed over; the notes name them, but
    for hidden ones that look like no log.

    Raises
    ------
    LogFormatError
        A folder cannot be listed.
    """
    found: list[Path] = []
    notes: list[str] = []
    for path in paths:
        files = _logs_in(path, notes) if path.is_dir() else []
        found += [path] if not files or (not apart and all(map(_is_part, files))) else files
    return Inputs(tuple(found), tuple(notes))


def real(path: Path) -> str:
    """Name the file behind ``path``; a path that cannot be one stays as it is, for its reader to refuse."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return str(path)


def stem(path: Path) -> str:
    """Name a log without its suffix; a folder such as ``.`` by what it is called."""
    return path.stem if path.name not in ("", "..") else Path(real(path)).stem


def _logs_in(folder: Path, notes: list[str]) -> list[Path]:
    """List the logs of a folder, and note what else it holds."""
    try:
        inside = sorted(folder.iterdir())
    except OSError as error:
        raise LogFormatError(f"{folder}: the folder cannot be listed ({error.strerror or error})") from error
    logs, unfinished, others = [], [], []
    for path in inside:
        if path.name.startswith(".") or path.suffix.lower() in _TEMPORARY or path.name.endswith("~"):
            if path.is_file() and _named_like_log(path):
                unfinished.append(path.name)
        elif path.is_dir() and path.name.endswith(SUFFIX):
            # The parts of a log that is there are read with it; those of one that never was stand for it.
            if not path.with_name(path.name.removesuffix(SUFFIX)).is_file() and any(path.glob("*.parquet")):
                logs.append(path)
        elif path.is_file() and _named_like_log(path):
            logs.append(path)
        else:
            others.append(f"{path.name}/" if path.is_dir() else path.name)
    for names, why in ((unfinished, "hidden or temporary"), (others, "not a log by its name")):
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            notes.append(f"{folder}: passed over {', '.join(names[:_SHOWN])}{more} ({why})")
    return logs


def _named_like_log(path: Path) -> bool:
    """Tell whether a name has a suffix of a log, first or last: ``a.jsonl``, ``server.log.1``, ``a.parquet.tmp``."""
    return any(suffix.lower() in _LOGS for suffix in Path(path.name.strip("~#")).suffixes)


def _is_part(path: Path) -> bool:
    """Tell whether a file can be a part of a round log; where it cannot be read, its reader says so."""
    if path.suffix.lower() != ".parquet" or path.is_dir():
        return False
    try:
        return set(REQUIRED) <= set(pl.read_parquet_schema(path))
    except UNREADABLE:
        return True
