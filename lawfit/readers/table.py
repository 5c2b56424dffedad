"""Raw tables: CSV, JSON Lines and Parquet as frames whose rows know their place."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from lawfit.errors import LogFormatError
from lawfit.place import MEMORY, Place
from lawfit.readers.columns import column, unicode

JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
SEPARATORS = {".csv": ",", ".tsv": "\t"}
# A panic of polars on a broken file is a BaseException.
UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)


@dataclass(frozen=True)
class Table:
    """A frame as a file held it, with the place of its rows."""

    frame: pl.DataFrame
    place: Place

    def where(self, kept: pl.Series) -> Table:
        """Keep the rows flagged in ``kept`` (n,); each still knows its place in the file."""
        return Table(self.frame.filter(kept), _Selected(self.place.source, base=self.place, rows=kept.arg_true()))


@dataclass(frozen=True)
class _Selected(Place):
    """The places of some rows of another."""

    base: Place = MEMORY
    rows: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.UInt32))

    def of(self, row: int) -> str:
        return self.base.of(int(self.rows[row]))


def load_table(path: Path) -> Table:
    """Read a CSV, TSV or Parquet file by its suffix, and any other if it is JSON.

    The cells of CSV and TSV are text, empty ones null.

    Raises
    ------
    LogFormatError
        The file is absent, is not what its suffix says, or holds no rows.
    """
    require_file(path)
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        table = Table(_parquet(path), Place(str(path)))
    elif suffix in SEPARATORS:
        table = _separated(path, SEPARATORS[suffix])
    elif suffix not in JSON_SUFFIXES and first_record(path) is None:
        raise LogFormatError(
            f"{path}: no log that lawfit knows (docs/formats.md has a sample of each), and no table: suffix "
            f"{suffix!r}, expected .parquet, .csv, .tsv, .jsonl or .json"
        )
    else:
        records, place = load_records(path)
        names = {unicode(name): name for record in records for name in record}
        columns = [column(shown, [record.get(name) for record in records]) for shown, name in names.items()]
        table = Table(pl.DataFrame(columns), place)
    if table.frame.is_empty():
        raise LogFormatError(f"{path}: no rows")
    return table


def load_records(path: Path) -> tuple[list[dict[str, Any]], Place]:
    """Read JSON objects: JSON Lines, one JSON object, or a JSON array of objects.

    Python's reader takes NaN and Infinity, so that the invariants can name the row that holds them.
    """
    require_file(path)
    text = _text(path)
    records: list[dict[str, Any]] = []
    lines: list[int] = []
    # Not splitlines(): JSON text may hold U+2028 and its like, which end no line.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            records.append(_object(line))
        except (ValueError, RecursionError) as error:
            if records:
                raise LogFormatError(f"{path}:{number}: not a JSON object ({_reason(error)})") from error
            # The first line is no record: one document over all lines, then.
            return _document(path, text, number), Place(str(path))
        lines.append(number)
    if not records:
        raise LogFormatError(f"{path}: no rows")
    return records, Place(str(path), lines)


def first_record(path: Path) -> Mapping[str, Any] | None:
    """Read the first JSON object of ``path``; None where there is none."""
    return next(iter(first_records(path, 1)), None)


def first_records(path: Path, most: int) -> tuple[Mapping[str, Any], ...]:
    """Read up to ``most`` JSON objects from the start of ``path`` to recognise its format; none where it holds none."""
    if path.suffix.lower() in (".parquet", *SEPARATORS):
        return ()
    require_file(path)
    found: list[Mapping[str, Any]] = []
    try:
        with path.open(encoding="utf-8-sig") as lines:
            found.extend(_object(line) for line in islice(filter(str.strip, lines), most))
    except (ValueError, RecursionError, OSError):
        pass
    if found:
        return tuple(found)
    try:
        return tuple(load_records(path)[0][:most])
    except LogFormatError:
        return ()


def header(path: Path) -> tuple[str, ...]:
    """Read the names of the columns of a CSV, TSV or Parquet file; none where it cannot be read as such."""
    if path.is_dir():
        return ()
    require_file(path)
    try:
        if path.suffix.lower() == ".parquet":
            return tuple(pl.read_parquet_schema(path))
        with path.open(encoding="utf-8-sig", newline="") as lines:
            separator = SEPARATORS[path.suffix.lower()]
            rows = csv.reader(filter(str.strip, lines), delimiter=separator, skipinitialspace=True)
            return tuple(name.strip() for name in next(rows, []))
    except (*UNREADABLE, UnicodeDecodeError, csv.Error):
        return ()


def require_file(path: Path) -> None:
    """Raise `LogFormatError` unless ``path`` is a file with content."""
    try:
        there = path.exists()
    except (OSError, ValueError) as error:
        raise LogFormatError(f"{str(path)[:200]}: not a usable file name ({str(error)[:80]})") from error
    if not there:
        raise LogFormatError(f"{path}: no such file")
    if path.is_dir():
        raise LogFormatError(f"{path}: is a folder, expected a file")
    if path.stat().st_size == 0:
        raise LogFormatError(f"{path}: the file is empty")


def parquet_metadata(path: Path) -> dict[str, str]:
    """Read the key-value metadata of a Parquet file."""
    require_file(path)
    try:
        return pl.read_parquet_metadata(path)
    except UNREADABLE as error:
        raise LogFormatError(f"{path}: not a Parquet file ({_reason(error)})") from error


def _parquet(path: Path) -> pl.DataFrame:
    try:
        # A name such as `a[1].parquet` is no pattern, and a folder `task=x` no column.
        return pl.read_parquet(path, glob=False, hive_partitioning=False)
    except UNREADABLE as error:
        raise LogFormatError(f"{path}: not a Parquet file ({_reason(error)})") from error


def _separated(path: Path, separator: str) -> Table:
    """Read separated text by Python's reader, which knows the line of every row."""
    reader = csv.reader(io.StringIO(_text(path), newline=""), delimiter=separator, skipinitialspace=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    started = 1
    try:
        for row in reader:
            if len(row) > 1 or "".join(row).strip():  # else a blank line
                rows.append(row)
                lines.append(started)
            started = reader.line_num + 1
    except csv.Error as error:
        raise LogFormatError(f"{path}:{reader.line_num}: not a table ({_reason(error)})") from error
    names = [name.strip() for name in rows[0]] if rows else []
    if twice := [name for k, name in enumerate(names) if name in names[:k]]:
        raise LogFormatError(f"{path}:{lines[0]}: column {twice[0]!r} appears twice")
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(names):
            raise LogFormatError(f"{path}:{line}: {len(row)} fields, expected {len(names)} as in the first line")
    cells = [[row[k] or None for row in rows[1:]] for k in range(len(names))]
    frame = pl.DataFrame([pl.Series(name, cell, dtype=pl.String) for name, cell in zip(names, cells, strict=True)])
    return Table(frame, Place(str(path), lines[1:]))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise LogFormatError(f"{path}: not a text file (byte {error.start} is not UTF-8)") from error
    except OSError as error:
        raise LogFormatError(f"{path}: cannot be read ({error.strerror or error})") from error


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"{type(value).__name__}, expected an object")
    return value


def _document(path: Path, text: str, first_line: int) -> list[dict[str, Any]]:
    """Parse one JSON document, an object or an array of objects, that may span lines."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else first_line
        raise LogFormatError(f"{path}:{line}: not JSON ({_reason(error)})") from error
    rows = value if isinstance(value, list) else [value]
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise LogFormatError(f"{path} row {number}: {type(row).__name__}, expected a JSON object")
    if not rows:
        raise LogFormatError(f"{path}: no rows")
    return rows


def _reason(error: BaseException) -> str:
    """Keep the first line of a library's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
