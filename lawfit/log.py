"""The round log as a value."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from lawfit.cast import typed
from lawfit.errors import LogFormatError
from lawfit.invariants import check
from lawfit.place import MEMORY, Place
from lawfit.schema import BY_NAME, NAMES, REQUIRED

NO_KEY = "(none)"
"""Name of the group of the rows whose key is null."""


@dataclass(frozen=True)
class RoundLog:
    """A valid round log, version 1: one row per request and round.

    Build it with `from_frame`, which completes and checks the columns.

    Attributes
    ----------
    frame
        All columns of `lawfit.schema.COLUMNS`, in that order.
    source
        Where the rows came from, for messages and figures.
    """

    frame: pl.DataFrame
    source: str = "frame"

    @classmethod
    def from_frame(cls, frame: pl.DataFrame, place: Place = MEMORY) -> RoundLog:
        """Complete ``frame`` to the schema, and check every row.

        Columns that the schema does not know are dropped; absent ones take their default, or null.

        Raises
        ------
        LogFormatError
            The frame is empty or lacks a required column, a type does not fit, or a row breaks an invariant.
        """
        absent = [name for name in REQUIRED if name not in frame.columns]
        if absent:
            have = ", ".join(frame.columns[:12]) or "none"
            raise LogFormatError(f"{place.source}: no column {' and no '.join(absent)}; the columns are {have}")
        if frame.is_empty():
            raise LogFormatError(f"{place.source}: no rounds, expected at least one row")
        completed = pl.DataFrame([_column(frame, name, place) for name in NAMES])
        check(completed, place)
        return cls(completed, place.source)

    def __len__(self) -> int:
        """Count the rows (a row with ``count`` > 1 is one)."""
        return self.frame.height

    @cached_property
    def digest(self) -> str:
        """Name what a fit depends on: SHA-256 over outcome, entropies and clusters."""
        core = ("accept_len", "horizon", "truncated", "count", "root_entropy", "prev_entropy")
        names = ("run_id", "request_id", "prompt_id")
        digest = hashlib.sha256()
        for name in core:
            digest.update(self.frame[name].cast(pl.Float64).fill_null(-1.0).to_numpy().tobytes())
        for name in names:
            digest.update("\x1f".join(self.frame[name].fill_null("").to_list()).encode())
        return digest.hexdigest()

    def where(self, predicate: pl.Expr) -> RoundLog:
        """Keep the rows that satisfy ``predicate``; the result may be empty."""
        return RoundLog(self.frame.filter(predicate), self.source)

    def groups(self, by: str) -> dict[str, RoundLog]:
        """Split by a text key, in order of appearance; rows with a null key form the group `NO_KEY`."""
        if by not in BY_NAME or BY_NAME[by].dtype.is_nested():
            raise LogFormatError(f"{self.source}: cannot group by {by!r}, expected one of {', '.join(NAMES[:14])}")
        keyed = self.frame.with_columns(pl.col(by).cast(pl.String).fill_null(NO_KEY).alias("_key"))
        parts = keyed.partition_by("_key", maintain_order=True, as_dict=True)
        return {str(key[0]): RoundLog(part.drop("_key"), self.source) for key, part in parts.items()}


def concat(logs: Sequence[RoundLog]) -> RoundLog:
    """Join logs, rows in the order given."""
    if not logs:
        raise LogFormatError("no round log was given")
    return RoundLog(pl.concat([log.frame for log in logs]), ", ".join(dict.fromkeys(log.source for log in logs)))


def _column(frame: pl.DataFrame, name: str, place: Place) -> pl.Series:
    """Take one schema column from ``frame``, typed, or its default."""
    column = BY_NAME[name]
    if name not in frame.columns:
        return pl.repeat(column.default, frame.height, dtype=column.dtype, eager=True).alias(name)
    series = typed(frame[name], column.dtype, place)
    return series if column.default is None else series.fill_null(column.default)
