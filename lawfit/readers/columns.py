"""JSON values as columns: each becomes one polars type without a value being changed on the way."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import polars as pl


def column(name: str, values: Sequence[Any]) -> pl.Series:
    """Make a column of ``values`` as JSON gives them; None is null.

    Numbers stay numbers, and a list of numbers a list. A mixture with text becomes text, so that the check of
    the types later names the row at fault. Anything nested deeper is kept as an opaque object.
    (Polars alone would build ``[[1], [0.5]]`` as lists of integers, and lose the .5.)
    """
    kinds = {type(value) for value in values if value is not None}
    try:
        if kinds == {list}:
            items = {type(item) for item in chain.from_iterable(value or () for value in values) if item is not None}
            inner = _NUMBERS.get(frozenset(items))
            return _opaque(name, values) if inner is None else pl.Series(name, values, dtype=pl.List(inner))
        if dtype := _SCALARS.get(frozenset(kinds)):
            return pl.Series(name, values, dtype=dtype)
    except (OverflowError, TypeError, UnicodeEncodeError):
        pass  # an integer beyond 64 bits, or text that is not Unicode
    if kinds & {list, dict}:
        return _opaque(name, values)
    return pl.Series(name, [_text(value) for value in values], dtype=pl.String)


def _opaque(name: str, values: Sequence[Any]) -> pl.Series:
    return pl.Series(name, values, dtype=pl.Object)


def unicode(text: str) -> str:
    """Show a lone surrogate, which JSON can hold but which is no character, escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _text(value: Any) -> str | None:
    return None if value is None else unicode(str(value))


_NUMBERS: dict[frozenset[type], pl.DataType] = {
    frozenset(): pl.Null(),
    frozenset({int}): pl.Int64(),
    frozenset({float}): pl.Float64(),
    frozenset({int, float}): pl.Float64(),
}
_SCALARS: dict[frozenset[type], pl.DataType] = {
    **_NUMBERS,
    frozenset({bool}): pl.Boolean(),
    frozenset({str}): pl.String(),
}
