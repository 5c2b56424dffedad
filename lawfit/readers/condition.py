"""A condition on the rows of a table: ``is_warmup=false``, ``acc_len>=1``."""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from lawfit.errors import LawfitError, LogFormatError
from lawfit.readers.table import Table

_FORM = re.compile(r"\s*(?P<column>.+?)\s*(?P<operator>!=|<=|>=|=|<|>)\s*(?P<value>.*?)\s*", re.DOTALL)
_SHOWN = 30  # names of columns in a message


@dataclass(frozen=True)
class Condition:
    """A comparison of a source column with a value.

    ``=`` and ``!=`` compare numbers where both sides are numbers, else text, in which ``true`` and ``True`` are one.
    The others compare numbers. An empty cell equals nothing.
    """

    column: str
    operator: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read ``column=value`` or the like.

        Raises
        ------
        LawfitError
            There is no operator, or the value of a comparison by size is no number.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise LawfitError(f"--where {text!r}: expected COLUMN=VALUE, or with != < > <= >=")
        condition = cls(match["column"], match["operator"], match["value"])
        if condition.operator not in ("=", "!=") and condition.number is None:
            raise LawfitError(f"--where {text!r}: {condition.value!r} is no number to compare with")
        return condition

    def __str__(self) -> str:
        """Write the condition as it was given."""
        return f"{self.column}{self.operator}{self.value}"

    @property
    def number(self) -> float | None:
        """The value as a number, if it is one."""
        try:
            return float(self.value)
        except ValueError:
            return None

    def holds(self, table: Table) -> pl.Series:
        """Flag the rows (n,) that satisfy the condition.

        Raises
        ------
        LogFormatError
            There is no such column, or its cells are nested.
        """
        if self.column not in table.frame.columns:
            have = ", ".join(table.frame.columns[:_SHOWN])
            raise LogFormatError(f"{table.place.source}: no column {self.column!r} for --where; the columns are {have}")
        cells = table.frame[self.column]
        if cells.dtype.is_nested() or cells.dtype == pl.Object:
            raise LogFormatError(f"{table.place.source}: column {self.column} holds no plain values for --where")
        numbers = _numbers(cells)
        if self.operator in ("=", "!="):
            same = cells.cast(pl.String).str.to_lowercase() == self.value.lower()
            if self.number is not None:
                same = same | (numbers == self.number)
            same = same.fill_null(False)
            return same if self.operator == "=" else ~same
        sized = {"<": numbers.lt, ">": numbers.gt, "<=": numbers.le, ">=": numbers.ge}[self.operator](self.number)
        return (sized & numbers.is_finite()).fill_null(False)


def _numbers(cells: pl.Series) -> pl.Series:
    """Read the cells as numbers; what is none is null."""
    if cells.dtype == pl.Boolean:
        return cells.cast(pl.Float64)
    return cells.cast(pl.Float64, strict=False)
