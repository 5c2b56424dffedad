"""What a reader hands over: rows under the names of the log, not yet checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from lawfit.cast import typed
from lawfit.errors import LogFormatError
from lawfit.place import Place
from lawfit.schema import BY_NAME


@dataclass(frozen=True)
class Sheet:
    """Rows of one file.

    Attributes
    ----------
    frame
        Columns under the names of the schema; not all, and not all of its types.
    place
        Where each row came from.
    notes
        What the reader had to decide, for the user to know.
    """

    frame: pl.DataFrame
    place: Place
    notes: tuple[str, ...] = ()


def gathered(rows: Sequence[Mapping[str, Any]], place: Place, notes: Sequence[str], **same: str) -> Sheet:
    """Make a sheet of rows; the columns in ``same`` are one text in all of them. A chain's budget is its horizon.

    Raises
    ------
    LogFormatError
        There are no rows.
    """
    if not rows:
        raise LogFormatError(f"{place.source}: no speculative rounds")
    names = dict.fromkeys(name for row in rows for name in row)
    columns = [pl.Series(name, [row.get(name) for row in rows], dtype=BY_NAME[name].dtype) for name in names]
    frame = pl.DataFrame(columns).with_columns(**{name: pl.lit(text) for name, text in same.items()})
    if same.get("shape") == "chain":
        frame = frame.with_columns(budget="horizon")
    return Sheet(frame, place, tuple(notes))


def fill(sheet: Sheet, constants: Mapping[str, Any], *, others: bool = False) -> Sheet:
    """Give every row the value of ``constants`` where the file holds none.

    A constant never overrides what was measured: another value of the file is an error, or, where the constants are
    meant for ``others`` of several files, stands with a note.

    Raises
    ------
    LogFormatError
        The file holds another value.
    """
    frame, notes = sheet.frame, list(sheet.notes)
    for name, value in constants.items():
        dtype = BY_NAME[name].dtype
        filled = pl.repeat(value, frame.height, dtype=dtype, eager=True).alias(name)
        if name in frame.columns:
            held = typed(frame[name], dtype, sheet.place)
            at = _first_difference(held, value)
            if at is not None and others:
                notes.append(f"{sheet.place.source}: keeps its own {name}; --set {name}={value} is for the others")
            elif at is not None:
                where = sheet.place.of(at)
                raise LogFormatError(f"--set {name}={value}, but the file holds {held[at]!r} ({where})")
            filled = held.fill_null(value)
        frame = frame.with_columns(filled)
    return Sheet(frame, sheet.place, tuple(notes))


def _first_difference(held: pl.Series, value: Any) -> int | None:
    # A float32 of the file is not the float64 that the user typed.
    far = (held - value).abs() > 1e-6 * max(1.0, abs(value)) if held.dtype.is_float() else held != value
    rows = far.fill_null(False).arg_true()
    return int(rows[0]) if len(rows) else None
