"""Where a row came from, for error messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A source of rows.

    Attributes
    ----------
    source
        File name, or a word for an in-memory frame.
    lines
        1-based line of each row in a text file; ``None`` where rows have no lines (Parquet, memory).
    """

    source: str
    lines: Sequence[int] | None = None

    def of(self, row: int) -> str:
        """Name the 0-based ``row``: ``x.jsonl:413`` or ``x.parquet row 412``."""
        if self.lines is None:
            return f"{self.source} row {row}"
        return f"{self.source}:{self.lines[row]}"


MEMORY = Place("frame")
