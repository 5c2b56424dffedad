"""What the user says about a file: which source column is which, and constants that it does not hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from lawfit.errors import LawfitError
from lawfit.readers.condition import Condition
from lawfit.schema import BY_NAME, NAMES


@dataclass(frozen=True)
class Given:
    """Statements of the user about the input.

    Attributes
    ----------
    mapping
        Source column, or ``source+1`` and its like, of a log column.
    constants
        Value of a log column in every row, typed as the schema asks.
    conditions
        What the source rows must satisfy to be read.
    """

    mapping: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()

    @property
    def maps(self) -> bool:
        """Whether anything is said of the columns of tables."""
        return bool(self.mapping or self.conditions)

    @property
    def kind(self) -> str:
        """What is said of them, in words."""
        return "a mapping" if self.mapping else "a condition"

    @property
    def sources(self) -> tuple[str, ...]:
        """The source columns that are named, with their shifts."""
        return (*self.mapping.values(), *(condition.column for condition in self.conditions))

    @classmethod
    def checked(
        cls, mapping: Mapping[str, str] | None, constants: Mapping[str, Any] | None, where: Iterable[str] = ()
    ) -> Given:
        """Check the names, convert the constants to the types of the schema, and parse the conditions."""
        for name in (*(mapping or ()), *(constants or ())):
            if name not in BY_NAME:
                raise LawfitError(f"no log column {name!r}, expected one of {', '.join(NAMES)}")
        typed = {name: _constant(name, value) for name, value in (constants or {}).items()}
        return cls(dict(mapping or {}), typed, tuple(Condition.parse(text) for text in where))


def parse_pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """Split ``name=value,name=value``; a comma within a value is kept unless ``name=`` follows it.

    Raises
    ------
    LawfitError
        A part has no ``=``, or a name is given twice.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        for part in re.split(r",(?=\s*\w+\s*=)", text):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if not (name and equals and value):
                raise LawfitError(f"{option} {text!r}: {part!r} is not of the form column=value")
            if name in pairs:
                raise LawfitError(f"{option}: {name} is given twice")
            pairs[name] = value
    return pairs


def _constant(name: str, value: Any) -> Any:
    """Convert ``value``, text or already a number, to the type of column ``name``."""
    dtype = BY_NAME[name].dtype
    wrong = LawfitError(f"--set {name}={value}: expected {_KINDS.get(str(dtype), 'a column of plain values')}")
    if dtype == pl.Boolean:
        if str(value).lower() not in ("true", "false"):
            raise wrong
        return str(value).lower() == "true"
    if dtype.is_nested() or value is None or isinstance(value, bool):
        raise wrong
    try:
        if dtype == pl.Int64:
            number = int(value)
            if number != float(value) or abs(number) >= 2**63:
                raise wrong
            return number
        return float(value) if dtype == pl.Float64 else str(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise wrong from error


_KINDS = {"Int64": "a whole number", "Float64": "a number", "Boolean": "true or false", "String": "text"}
