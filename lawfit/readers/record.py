"""One JSON object of a log, with checked access to its fields."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from lawfit.errors import LogFormatError

_INT64_END = 2**63
_SHOWN = 12  # names of fields in a message


@dataclass(frozen=True)
class Record:
    """A JSON object and its place in the file; every error names both."""

    values: Mapping[str, Any]
    where: str

    def require(self, names: Sequence[str], what: str) -> None:
        """Raise `LogFormatError` that names every one of ``names`` that is absent from ``what``."""
        if absent := [name for name in names if self.values.get(name) is None]:
            have = ", ".join(list(self.values)[:_SHOWN]) or "none"
            raise LogFormatError(f"no {' and no '.join(absent)} in {what}; its fields are {have} ({self.where})")

    def whole(self, name: str) -> int:
        """Take a whole number >= 0; a float such as 3.0 counts as one."""
        return self._whole(name, self.values.get(name))

    def wholes(self, name: str) -> list[int]:
        """Take a list of whole numbers >= 0."""
        items = self.values.get(name)
        if not isinstance(items, list):
            self.refuse(name, items, "a list of whole numbers")
        return [self._whole(f"{name}[{k}]", item) for k, item in enumerate(items)]

    def real(self, name: str) -> float | None:
        """Take a number, or None where it is absent."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.refuse(name, value, "a number")
        try:
            return float(value)
        except OverflowError:
            self.refuse(name, value, "a number")

    def refuse(self, name: str, value: Any, expected: str) -> NoReturn:
        """Raise `LogFormatError` about one field."""
        raise LogFormatError(f"{name} is {reprlib.repr(value)}, expected {expected} ({self.where})")

    def _whole(self, name: str, value: Any) -> int:
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < _INT64_END:
            self.refuse(name, value, "a whole number >= 0")
        return number
