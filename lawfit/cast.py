"""Casts to the types of the log that never change a value."""

from __future__ import annotations

import reprlib

import polars as pl

from lawfit.errors import LogFormatError
from lawfit.place import Place


def typed(series: pl.Series, dtype: pl.DataType, place: Place) -> pl.Series:
    """Convert ``series`` to a type of the schema, refusing what would change a value.

    Raises
    ------
    LogFormatError
        A value does not fit; the message names the column, the value and its row.
    """
    if series.dtype == dtype:
        return series
    converted = _converted(series, dtype)
    wrong = _lost(series, converted)
    if wrong.any():
        at = int(wrong.arg_true()[0])
        value = reprlib.repr(series[at : at + 1].to_list()[0])
        raise LogFormatError(f"{series.name} is {value}, expected {_KINDS[str(dtype)]} ({place.of(at)})")
    return converted


def fits_nowhere(series: pl.Series, dtype: pl.DataType) -> bool:
    """Tell whether ``series`` holds values, none of which is one of ``dtype``."""
    held = series.is_not_null()
    if series.dtype == dtype or not held.any():
        return False
    return bool((_lost(series, _converted(series, dtype)) | ~held).all())


def _lost(series: pl.Series, converted: pl.Series) -> pl.Series:
    """Mark the rows whose value the cast has dropped or rounded."""
    return series.is_not_null() & (converted.is_null() | _rounded(series, converted))


def _converted(series: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Cast ``series``; what has no meaning in ``dtype`` becomes null."""
    nothing = pl.repeat(None, len(series), dtype=dtype, eager=True).alias(series.name)
    if series.dtype.is_numeric() is False and dtype.is_numeric() and series.dtype not in _READABLE:
        return nothing  # polars would count true as 1, and days since 1970
    try:
        if series.dtype in (pl.Categorical, pl.Enum):
            series = series.cast(pl.String)
        if series.dtype == pl.Object:
            series = _plain(series, dtype)
        if series.dtype.is_nested() != dtype.is_nested() and series.dtype != pl.Null:
            return nothing  # polars would print a struct as text
        if series.dtype == pl.String and dtype == pl.Boolean:
            return series.str.to_lowercase().replace_strict(_FLAGS, default=None, return_dtype=dtype)
        if series.dtype == pl.String and dtype == pl.Int64:
            return series.cast(dtype, strict=False).fill_null(_whole(series.cast(pl.Float64, strict=False)))
        return series.cast(dtype, strict=False)
    except (pl.exceptions.PolarsError, OverflowError, UnicodeEncodeError):
        return nothing  # no such cast, or a value that polars cannot hold


def _plain(series: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Keep those of the mixed values that have the form of ``dtype``, a list of numbers or a plain value."""
    values = series.to_list()
    if dtype.is_nested():
        known = [value if isinstance(value, list) and set(map(type, value)) <= _NUMBERS else None for value in values]
        return pl.Series(series.name, known, dtype=pl.List(pl.Float64), strict=False)
    texts = [None if value is None or isinstance(value, (list, dict)) else str(value) for value in values]
    return pl.Series(series.name, texts, dtype=pl.String)


def _rounded(series: pl.Series, converted: pl.Series) -> pl.Series:
    if converted.dtype == pl.Boolean and series.dtype.is_numeric():
        changed = (series != 0) & (series != 1)
    elif converted.dtype == pl.Int64 and series.dtype.is_float():
        changed = _whole(series).is_null()
    elif converted.dtype == pl.Int64 and series.dtype.is_decimal():
        changed = converted.cast(pl.Float64) != series.cast(pl.Float64)
    elif converted.dtype == pl.List(pl.Int64):
        pairs = zip(series.to_list(), converted.to_list(), strict=True)
        changed = pl.Series([before != after for before, after in pairs], dtype=pl.Boolean)
    else:
        changed = pl.repeat(False, len(series), dtype=pl.Boolean, eager=True)
    return changed.fill_null(False)


def _whole(series: pl.Series) -> pl.Series:
    """Keep the floats that are whole numbers, as integers; the others become null."""
    whole = series.is_finite() & (series == series.round())
    return series.set(~whole.fill_null(False), None).cast(pl.Int64, strict=False)


# What may become a number besides numbers: text that spells one, mixed values, nothing at all.
_READABLE = (pl.String, pl.Object, pl.Null, pl.Categorical, pl.Enum)
_NUMBERS = {int, float, type(None)}
_FLAGS = {"true": True, "false": False, "1": True, "0": False}
_KINDS = {
    "Int64": "a whole number (int64)",
    "Float64": "a number",
    "Boolean": "true or false",
    "String": "text",
    "List(Float64)": "a list of numbers",
    "List(Int64)": "a list of whole numbers",
}
