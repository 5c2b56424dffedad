"""Raw tables: CSV, JSON Lines and Parquet as frames whose rows know their place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from lawfit.errors import LogFormatError
from lawfit.place import Place

TEXT_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")


@dataclass(frozen=True)
class Table:
    """A frame as a file held it, with the place of its rows."""

    frame: pl.DataFrame
    place: Place


def load_table(path: Path) -> Table:
    """Read a CSV, TSV, JSON Lines or Parquet file by its suffix.

    Raises
    ------
    LogFormatError
        The file is absent, is not what its suffix says, or holds no rows.
    """
    require_file(path)
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        table = Table(_parquet(path), Place(str(path)))
    elif suffix in (".csv", ".tsv"):
        table = _csv(path, "," if suffix == ".csv" else "\t")
    elif suffix in (".jsonl", ".ndjson", ".json"):
        records, place = load_records(path)
        table = Table(_frame(records, place), place)
    else:
        raise LogFormatError(f"{path}: suffix {suffix!r}, expected .parquet, .csv, .tsv, .jsonl or .json")
    if table.frame.is_empty():
        raise LogFormatError(f"{path}: no rows")
    return table


def load_records(path: Path) -> tuple[list[dict[str, Any]], Place]:
    """Read JSON objects: JSON Lines, one JSON object, or a JSON array of objects.

    Python's reader takes NaN and Infinity, so that the invariants can name the row that holds them.
    """
    require_file(path)
    text = _text(path)
    stripped = text.lstrip()
    if stripped.startswith("[") or (path.suffix.lower() == ".json" and stripped.startswith("{")):
        whole = _whole_json(text)
        if whole is not None:
            return whole, Place(str(path), [1] * len(whole))
    records, lines = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise LogFormatError(f"{path}:{number}: not JSON ({_reason(error)})") from error
        if not isinstance(record, dict):
            raise LogFormatError(f"{path}:{number}: {type(record).__name__}, expected a JSON object")
        records.append(record)
        lines.append(number)
    if not records:
        raise LogFormatError(f"{path}: no rows")
    return records, Place(str(path), lines)


def require_file(path: Path) -> None:
    """Raise `LogFormatError` unless ``path`` is a file with content."""
    if not path.exists():
        raise LogFormatError(f"{path}: no such file")
    if path.is_dir():
        raise LogFormatError(f"{path}: is a folder, expected a file")
    if path.stat().st_size == 0:
        raise LogFormatError(f"{path}: the file is empty")


def parquet_metadata(path: Path) -> dict[str, str]:
    """Read the key-value metadata of a Parquet file."""
    try:
        return pl.read_parquet_metadata(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise LogFormatError(f"{path}: not a Parquet file ({_reason(error)})") from error


def _parquet(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise LogFormatError(f"{path}: not a Parquet file ({_reason(error)})") from error


def _csv(path: Path, separator: str) -> Table:
    _text(path)
    try:
        frame = pl.read_csv(path, separator=separator, infer_schema_length=None)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise LogFormatError(f"{path}: not a CSV table ({_reason(error)})") from error
    return Table(frame, Place(str(path), range(2, frame.height + 2)))


def _frame(records: list[dict[str, Any]], place: Place) -> pl.DataFrame:
    try:
        return pl.from_dicts(records, infer_schema_length=None)
    except (pl.exceptions.PolarsError, TypeError, OverflowError) as error:
        raise LogFormatError(f"{place.source}: the rows do not form a table ({_reason(error)})") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise LogFormatError(f"{path}: not a text file (byte {error.start} is not UTF-8)") from error


def _whole_json(text: str) -> list[dict[str, Any]] | None:
    """Parse one JSON document into records, or ``None`` where the text is JSON Lines after all."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    rows = value if isinstance(value, list) else [value]
    return rows if rows and all(isinstance(row, dict) for row in rows) else None


def _reason(error: BaseException) -> str:
    """Keep the first line of a library's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
