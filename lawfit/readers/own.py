"""The round log v1: its own reader and writer, as Parquet and as JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from lawfit.errors import LogFormatError
from lawfit.files import replacing
from lawfit.log import RoundLog, concat
from lawfit.place import Place
from lawfit.readers.given import Given
from lawfit.readers.glimpse import Glimpse
from lawfit.readers.parts import MERGED_KEY, pending
from lawfit.readers.sheet import Sheet
from lawfit.readers.table import Table, load_table, parquet_metadata
from lawfit.schema import SCHEMA_VERSION, VERSION_KEY


def recognise(glimpse: Glimpse) -> bool:
    """Tell whether a path is a round log v1: marked Parquet, marked JSON Lines, or a folder of parts."""
    path = glimpse.path
    if path.is_dir() or (not path.is_file() and pending(path)):
        return True
    if path.suffix.lower() == ".parquet":
        return VERSION_KEY in parquet_metadata(path)
    return any(VERSION_KEY in first for first in glimpse.records[:1])


def read(path: Path) -> RoundLog:
    """Read a round log v1 from a file, or from the parts that a recorder left in a folder.

    Raises
    ------
    LogFormatError
        Not a round log, of a newer version, or a row breaks an invariant.
    """
    parts = pending(path)
    if path.is_dir() and not parts:
        raise LogFormatError(f"{path}: a folder without Parquet parts or other logs, expected some")
    files = [*([path] if path.is_file() or not parts else []), *parts]
    return RoundLog(concat([_read_file(file) for file in files]).frame, str(path))


def read_sheet(path: Path, given: Given) -> Sheet:
    """Read a round log v1 as the other readers do; its rows are already checked."""
    return Sheet(read(path).frame, Place(str(path)))


def write(log: RoundLog, path: Path, merged: Sequence[str] = ()) -> None:
    """Write ``log`` as Parquet, or as JSON Lines for the suffix ``.jsonl``, in one step.

    ``merged`` names the recorder's parts whose rows ``log`` holds; only Parquet can say so.
    """
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        with replacing(path) as temporary:
            metadata = {VERSION_KEY: str(SCHEMA_VERSION), MERGED_KEY: json.dumps(list(merged))}
            log.frame.write_parquet(temporary, metadata=metadata)
    elif suffix in (".jsonl", ".ndjson"):
        with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as lines:
            for row in log.frame.iter_rows(named=True):
                known = {name: value for name, value in row.items() if value is not None}
                lines.write(json.dumps({VERSION_KEY: SCHEMA_VERSION, **known}, allow_nan=False) + "\n")
    else:
        raise LogFormatError(f"{path}: suffix {suffix!r}, expected .parquet or .jsonl")


def _read_file(path: Path) -> RoundLog:
    table = load_table(path)
    _check_version(path, table)
    return RoundLog.from_frame(table.frame, table.place)


def _check_version(path: Path, table: Table) -> None:
    found = None
    if path.suffix.lower() == ".parquet":
        found = parquet_metadata(path).get(VERSION_KEY)
    elif VERSION_KEY in table.frame.columns:
        found = str(table.frame[VERSION_KEY][0])
    if found is not None and found != str(SCHEMA_VERSION):
        raise LogFormatError(f"{path}: round log version {found}, this lawfit reads version {SCHEMA_VERSION}")
