"""Rows of a log that need not fit into memory, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path

import polars as pl

from lawfit.cast import typed
from lawfit.errors import LogFormatError
from lawfit.invariants import INVARIANTS
from lawfit.log import RoundLog
from lawfit.place import MEMORY, Place
from lawfit.readers.folders import Inputs, expand, real, stem
from lawfit.readers.parts import pending
from lawfit.readers.table import UNREADABLE, parquet_metadata
from lawfit.schema import BY_NAME, NAMES, REQUIRED, SCHEMA_VERSION, VERSION_KEY

BATCH = 2_000_000  # rows that are held at once: some 300 MB with all that is computed of them
_PENDING = 4_000_000  # rows of partial sums, from which they are merged


@dataclass(frozen=True)
class _Within(Place):
    """A place whose rows start in the middle of a file."""

    first: int = 0

    def of(self, row: int) -> str:
        return super().of(self.first + row)


@dataclass(frozen=True, eq=False)
class Part:
    """One file or frame of a scan.

    Attributes
    ----------
    rows, names, size
        The rows, not read yet; the columns of the log that they hold; and how many rows there are.
    source
        File name, or a word for a frame.
    run
        What names the run of rows that name none; ``None`` leaves them nameless.
    """

    rows: pl.LazyFrame
    names: tuple[str, ...]
    size: int
    source: str
    run: str | None = None

    def read(self, first: int, names: Sequence[str]) -> pl.DataFrame:
        """Read the columns ``names`` of one batch from row ``first`` on: typed, checked, absent ones null.

        Raises
        ------
        LogFormatError
            The file cannot be read, a type does not fit, or a row breaks an invariant of these columns.
        """
        place = _Within(self.source, first=first)
        found = self._collect(first, [name for name in names if name in self.names])
        size = min(BATCH, self.size - first)
        frame = pl.DataFrame([_column(found, name, size, place) for name in names])
        if frame.select(_broken(names)).item():
            self._refuse(first)
        if self.run is not None and "run_id" in names:
            frame = frame.with_columns(pl.col("run_id").fill_null(self.run))
        return frame

    def _collect(self, first: int, names: Sequence[str]) -> pl.DataFrame:
        try:
            return self.rows.select(names).slice(first, BATCH).collect()
        except UNREADABLE as error:
            raise _unreadable(self.source, error) from error

    def _refuse(self, first: int) -> None:
        """Let the reader of whole logs word what is wrong with a batch."""
        frame = self._collect(first, self.names)
        number = pl.int_range(first, first + len(frame), dtype=pl.Int64)
        known = pl.col("round") if "round" in self.names else pl.lit(None, dtype=pl.Int64)
        RoundLog.from_frame(frame.with_columns(round=pl.coalesce(known, number)), _Within(self.source, first=first))


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a scan.

    Attributes
    ----------
    frame
        The columns that were asked for.
    part, first
        Which part they are of, and the number of the first of them in it.
    before
        Rows of the scan that came before them.
    """

    frame: pl.DataFrame
    part: Part
    first: int
    before: int

    def also(self, names: Sequence[str]) -> pl.DataFrame:
        """Read more columns of the same rows, and give all."""
        return self.frame.hstack(self.part.read(self.first, names).get_columns())


@dataclass(frozen=True, eq=False)
class Scan:
    """A round log that is read as it is walked through, once per walk.

    Attributes
    ----------
    parts
        Its files or frames, in order.
    notes
        What was passed over in folders.
    """

    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Count the rows (a row with ``count`` > 1 is one)."""
        return sum(part.size for part in self.parts)

    @property
    def source(self) -> str:
        """Name where the rows come from."""
        more = len(self.parts) - 1
        return self.parts[0].source + (f" and {more} more" if more else "")

    def holds(self, name: str) -> bool:
        """Tell whether some part has the column ``name``."""
        return any(name in part.names or (name == "run_id" and part.run is not None) for part in self.parts)

    def batches(self, names: Sequence[str], on_rows: Callable[[int], None] = lambda rows: None) -> Iterator[Batch]:
        """Give the columns ``names`` batch by batch; ``on_rows`` is told how many rows are done."""
        before = 0
        for part in self.parts:
            for first in range(0, part.size, BATCH):
                frame = part.read(first, names)
                yield Batch(frame, part, first, before + first)
                on_rows(len(frame))
            before += part.size


def scan_files(paths: Path | str | Sequence[Path | str]) -> Scan:
    """Open Parquet files whose columns are those of the round log, without reading their rows.

    Parameters
    ----------
    paths
        Files, folders of Parquet files, or patterns such as ``logs/*.parquet``.

    Raises
    ------
    LogFormatError
        A file is absent, given twice, empty, no Parquet, of a newer version, or lacks a required column.
    """
    inputs = _logs(paths)
    logs = inputs.paths
    stems = [stem(log) for log in logs]
    names = [name if stems.count(name) == 1 else str(log) for name, log in zip(stems, logs, strict=True)]
    # Equal request names of two logs stay apart; those of two parts of one log are one request.
    runs = names if len(logs) > 1 else [None]
    parts = (_open(file, run) for log, run in zip(logs, runs, strict=True) for file in _files(log))
    return Scan(tuple(parts), inputs.notes)


def scan_frame(rows: RoundLog | pl.LazyFrame) -> Scan:
    """See a log in memory, or a lazy query with its columns, as a scan; a query runs anew for every batch.

    Raises
    ------
    LogFormatError
        No rows, or a required column is absent.
    """
    if isinstance(rows, RoundLog):
        return Scan((_part(rows.frame.lazy(), rows.source),))
    return Scan((_part(rows, MEMORY.source),))


def is_own(paths: Sequence[Path]) -> bool:
    """Tell whether all files behind ``paths`` are Parquet that bears the mark of the round log."""
    files = [file for log in _logs(paths).paths for file in _files(log)]
    return all(file.suffix.lower() == ".parquet" and VERSION_KEY in parquet_metadata(file) for file in files)


def fold(frames: Iterable[pl.DataFrame], keys: Sequence[str], sums: Sequence[pl.Expr]) -> pl.DataFrame:
    """Merge partial results of a grouping as they come, so that no more than the distinct keys are held.

    ``sums`` name their own columns, and may be taken of parts and of the whole alike: sums, smallest, largest.
    """
    held: list[pl.DataFrame] = []
    settled = 0
    for frame in frames:
        held.append(frame)
        if sum(map(len, held)) > 2 * settled + _PENDING:
            held = [pl.concat(held).lazy().group_by(keys).agg(sums).collect()]
            settled = len(held[0])
    return pl.concat(held).lazy().group_by(keys).agg(sums).collect()


def _logs(paths: Path | str | Sequence[Path | str]) -> Inputs:
    """List the logs that were named: patterns become the paths that match, folders the logs in them."""
    given = [Path(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    inputs = expand([log for path in given for log in _matching(path)])
    logs = inputs.paths
    if not logs:
        raise LogFormatError("no input was given")
    resolved = [real(log) for log in logs]
    if twice := [log for k, log in enumerate(logs) if resolved[k] in resolved[:k]]:
        raise LogFormatError(f"{twice[0]}: given twice, its rounds would count double")
    return inputs


def _matching(path: Path) -> list[Path]:
    if path.exists() or not any(mark in str(path) for mark in "*?["):
        return [path]
    found = [Path(name) for name in sorted(glob(str(path)))]
    if not found:
        raise LogFormatError(f"{path}: no file matches")
    return found


def _files(log: Path) -> list[Path]:
    """List the files of one log: itself, with the parts that a recorder left, or a folder's parts."""
    parts = pending(log)
    if log.is_dir() and not parts:
        raise LogFormatError(f"{log}: a folder without Parquet files, expected a round log")
    return [*([log] if log.is_file() or not parts else []), *parts]


def _open(path: Path, run: str | None) -> Part:
    if path.is_file() and path.suffix.lower() != ".parquet":
        raise LogFormatError(f"{path}: not a Parquet file; `lawfit convert` makes one of any known format")
    version = parquet_metadata(path).get(VERSION_KEY, str(SCHEMA_VERSION))
    if version != str(SCHEMA_VERSION):
        raise LogFormatError(f"{path}: round log version {version}, this lawfit reads version {SCHEMA_VERSION}")
    return _part(pl.scan_parquet(path, glob=False, hive_partitioning=False), str(path), run)


def _part(rows: pl.LazyFrame, source: str, run: str | None = None) -> Part:
    try:
        have = rows.collect_schema().names()
        size = int(rows.select(pl.len()).collect().item())
    except UNREADABLE as error:
        raise _unreadable(source, error) from error
    if absent := [name for name in REQUIRED if name not in have]:
        shown = ", ".join(have[:12]) or "none"
        raise LogFormatError(f"{source}: no column {' and no '.join(absent)}; the columns are {shown}")
    if not size:
        raise LogFormatError(f"{source}: no rounds, expected at least one row")
    return Part(rows, tuple(name for name in NAMES if name in have), size, source, run)


def _column(found: pl.DataFrame, name: str, size: int, place: Place) -> pl.Series:
    """Take one column, typed as the schema asks, or its default."""
    column = BY_NAME[name]
    if name not in found.columns:
        return pl.repeat(column.default, size, dtype=column.dtype, eager=True).alias(name)
    series = typed(found[name], column.dtype, place)
    return series if column.default is None else series.fill_null(column.default)


def _broken(names: Sequence[str]) -> pl.Expr:
    """Tell whether some row breaks an invariant on the columns ``names``."""
    rules = [rule.broken for rule in INVARIANTS if set(rule.broken.meta.root_names()) <= set(names)]
    return pl.any_horizontal(pl.lit(False), *rules).any()


def _unreadable(source: str, error: BaseException) -> LogFormatError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
    return LogFormatError(f"{source}: not a readable table ({reason})")
