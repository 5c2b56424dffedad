"""The round log v1: its own reader and writer, as Parquet and as JSON Lines."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from lawfit.errors import LogFormatError
from lawfit.files import replacing
from lawfit.log import RoundLog, concat
from lawfit.readers.table import Table, load_table, parquet_metadata
from lawfit.schema import SCHEMA_VERSION, VERSION_KEY

PARTS_SUFFIX = ".parts"


def recognise(path: Path) -> bool:
    """Tell whether ``path`` is a round log v1: marked Parquet, marked JSON Lines, or a folder of parts."""
    if path.is_dir() or _parts_of(path):
        return True
    if path.suffix.lower() == ".parquet":
        return VERSION_KEY in parquet_metadata(path)
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        with path.open(encoding="utf-8", errors="replace") as lines:
            return f'"{VERSION_KEY}"' in lines.readline()
    return False


def read(path: Path) -> RoundLog:
    """Read a round log v1 from a file, or from the parts that a recorder left in a folder.

    Raises
    ------
    LogFormatError
        Not a round log, of a newer version, or a row breaks an invariant.
    """
    if parts := _parts_of(path):
        return concat([_read_file(part) for part in parts])
    if path.is_dir():
        raise LogFormatError(f"{path}: a folder without Parquet parts, expected a round log")
    return _read_file(path)


def write(log: RoundLog, path: Path) -> None:
    """Write ``log`` as Parquet, or as JSON Lines for the suffix ``.jsonl``, in one step."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        with replacing(path) as temporary:
            log.frame.write_parquet(temporary, metadata={VERSION_KEY: str(SCHEMA_VERSION)})
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


def _parts_of(path: Path) -> list[Path]:
    """List the parts that an unfinished recorder left for ``path``, or in the folder ``path``."""
    folder = path if path.is_dir() else path.with_name(path.name + PARTS_SUFFIX)
    if path.is_file() or not folder.is_dir():
        return []
    return sorted(part for part in folder.glob("*.parquet") if not part.name.startswith("."))
