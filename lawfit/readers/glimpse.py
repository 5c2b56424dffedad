"""A first look at a file, by which its format is recognised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lawfit.readers.lines import decoded
from lawfit.readers.table import SEPARATORS, first_records, header

_RECORDS = 20
_CHARACTERS = 16_000_000


@dataclass(frozen=True)
class Glimpse:
    """What a file starts with; read when asked for."""

    path: Path

    @cached_property
    def records(self) -> tuple[Mapping[str, Any], ...]:
        """The first JSON objects of the file; none where it holds none."""
        return () if self.path.is_dir() else first_records(self.path, _RECORDS)

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns of a table, or the keys of the first JSON objects; none of a folder or of other text."""
        if self.path.suffix.lower() in (".parquet", *SEPARATORS):
            return frozenset(header(self.path))
        return frozenset(name for record in self.records for name in record)

    @cached_property
    def text(self) -> str:
        """The text of a log or a scrape, of a JSON file its start; empty for a table or a folder."""
        if self.path.is_dir() or self.path.suffix.lower() in (".parquet", *SEPARATORS):
            return ""
        text = decoded(self.path)
        return text[:_CHARACTERS] if self.records else text
