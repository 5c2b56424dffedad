"""JSON objects from files that anybody may have written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lawfit.errors import LawfitError

# Characters of a stored value: far more than any that we write.
LIMIT = 20_000_000
# Characters of an error message, beside the name of its source: a hostile value may fill megabytes.
_LONGEST = 240


def read_object(text: str, source: str, limit: int = LIMIT) -> dict[str, Any]:
    """Read one JSON object of finite numbers.

    Raises
    ------
    LawfitError
        Too long, not JSON, no object, or with NaN or Infinity.
    """
    if len(text) > limit:
        raise LawfitError(f"{source}: {len(text)} characters, expected at most {limit}")

    def refuse(constant: str) -> None:
        raise LawfitError(f"{source}: holds {constant}, expected finite numbers")

    try:
        record = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise LawfitError(f"{source}: not JSON ({error})") from error
    if not isinstance(record, dict):
        raise LawfitError(f"{source}: {type(record).__name__}, expected a JSON object")
    return record


def require_keys(record: dict[str, Any], keys: set[str], source: str) -> None:
    """Raise `LawfitError` unless ``record`` has exactly these keys."""
    odd = sorted(set(record) ^ keys)
    if odd:
        raise LawfitError(f"{source}: absent or unknown fields: {', '.join(odd)}")


@contextmanager
def short_errors(source: str) -> Iterator[None]:
    """Let errors name ``source`` once, and be one line of readable length whatever value they quote."""
    try:
        yield
    except LawfitError as error:
        message = str(error).removeprefix(source).removeprefix(": ")
        shown = message if len(message) <= _LONGEST else f"{message[:_LONGEST]} ..."
        raise LawfitError(f"{source}: {' '.join(shown.split())}") from error
