"""Traces: a draft from every position of the target's own output, candidates included."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from lawfit.errors import LogFormatError
from lawfit.files import replacing
from lawfit.invariants import check
from lawfit.log import RoundLog
from lawfit.place import MEMORY, Place
from lawfit.readers.table import load_table
from lawfit.schema import POLARS_SCHEMA, SCHEMA_VERSION, VERSION_KEY

CANDIDATES: dict[str, pl.DataType] = {
    "parent": pl.List(pl.Int64()),
    "depth": pl.List(pl.Int64()),
    "rank": pl.List(pl.Int64()),
    "draft_logprob": pl.List(pl.Float64()),
    "on_path": pl.List(pl.Boolean()),
}


@dataclass(frozen=True)
class Trace:
    """A round log with one row per output position, and the candidates of each draft.

    Because greedy output does not depend on the policy, a trace replays any policy exactly.

    Attributes
    ----------
    frame
        The round log's columns (``origin`` is ``trace``) and, as lists over the candidate nodes in best-first order,
        root excluded: ``parent`` (0 is the root, k the k-th node), ``depth``, ``rank`` (0-based among its siblings),
        ``draft_logprob`` (conditional) and ``on_path`` (whether the target's output runs through it).
    """

    frame: pl.DataFrame

    @classmethod
    def from_frame(cls, frame: pl.DataFrame, place: Place = MEMORY) -> Trace:
        """Check the columns and that every row's candidate lists agree.

        Raises
        ------
        LogFormatError
            A candidate column is absent, lists of one row differ in length, or ``on_path`` disagrees with
            ``accept_len``.
        """
        absent = [name for name in CANDIDATES if name not in frame.columns]
        if absent:
            raise LogFormatError(f"{place.source}: no column {', '.join(absent)}: a round log, expected a trace")
        candidates = frame.select(pl.col(name).cast(kind) for name, kind in CANDIDATES.items())
        whole = RoundLog.from_frame(frame, place).frame.hstack(candidates)
        check(whole.select(list(POLARS_SCHEMA)), place)
        length = pl.col("parent").list.len()
        wrong = pl.any_horizontal(*(pl.col(name).list.len() != length for name in CANDIDATES))
        wrong = wrong | (pl.col("on_path").list.sum() != pl.col("accept_len"))
        at = whole.select(wrong.fill_null(True).arg_true()).to_series()
        if len(at):
            raise LogFormatError(
                f"candidate lists disagree with each other or with accept_len ({place.of(int(at[0]))})"
            )
        return cls(whole)

    @property
    def log(self) -> RoundLog:
        """The trace as a round log, without its candidates."""
        return RoundLog(self.frame.select(list(POLARS_SCHEMA)), "trace")

    def write(self, path: Path) -> None:
        """Write Parquet in one step."""
        if path.suffix.lower() != ".parquet":
            raise LogFormatError(f"{path}: suffix {path.suffix!r}, expected .parquet")
        with replacing(path) as temporary:
            self.frame.write_parquet(temporary, compression="zstd", metadata={VERSION_KEY: str(SCHEMA_VERSION)})

    @classmethod
    def read(cls, path: Path) -> Trace:
        """Read what `write` wrote."""
        table = load_table(path)
        return cls.from_frame(table.frame, table.place)
