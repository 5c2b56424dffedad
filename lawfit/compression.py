"""A log as counts: few rows that give the laws what all the rounds give them, or nearly so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from lawfit.endings import KEYS as ENDING_KEYS
from lawfit.endings import Endings, find_endings
from lawfit.errors import FitError, NotIdentified
from lawfit.invariants import MOST_OFFSETS
from lawfit.keys import PROMPT
from lawfit.log import RoundLog
from lawfit.observations import LastRound, Signal, require
from lawfit.place import Place
from lawfit.scan import Batch, Scan, fold, scan_files, scan_frame
from lawfit.schema import BY_NAME, COLUMNS, ENTROPIES, TIMES

Rounds = RoundLog | pl.LazyFrame | Scan | Path | str | Sequence[Path | str]
BINS, SHARDS, BY = 128, 1024, ("task",)
MOST_BINS, MOST_SHARDS = 256, 2**16
_OUTCOME = ("accept_len", "horizon", "truncated", "count")
_POOLED = ("request_id", "prompt_id", "round", "position", "context_len")
KEEPABLE = tuple(
    column.name
    for column in COLUMNS
    if not column.dtype.is_nested() and column.name not in (*_OUTCOME, *_POOLED, *ENTROPIES, *TIMES, "origin")
)
"""Columns that may be kept apart."""

# Places of a cell in one whole number, which groups faster than five columns; all of them take 59 bits.
_BIN, _OFFSET, _CUT = 2**12, MOST_OFFSETS + 1, 3
_UNKNOWN = 2  # the place of a null `truncated`
_SUMS = (pl.col("count").sum(), pl.col("nats").sum())


@dataclass(frozen=True)
class _Grid:
    """How rounds are pooled: the options of `compress`, checked, and whether prompts keep their names."""

    bins: int
    shards: int
    by: tuple[str, ...]
    signal: Signal
    named: bool

    @property
    def columns(self) -> tuple[str, ...]:
        return (*_OUTCOME, self.signal, "prompt_id", *self.by)

    @property
    def keys(self) -> list[str]:
        return ["cell", *self.by, *(["cluster"] if self.named else [])]


def compress(
    rounds: Rounds,
    *,
    bins: int = BINS,
    shards: int = SHARDS,
    by: Sequence[str] = BY,
    signal: Signal = "root_entropy",
    last_round: LastRound = "keep",
    on_rows: Callable[[int], None] = lambda rows: None,
) -> RoundLog:
    r"""Pool like rounds into rows with a ``count``.

    The result is a round log that every law, curve and report takes. Two rounds are alike if they agree in
    ``accept_len``, ``horizon``, ``truncated``, the columns ``by``, the shard of their prompt, and the bin of their
    entropy, where bin k of N holds :math:`(k/N)^8 \le H < ((k+1)/N)^8` nats: entropies spread over decades, and a
    tenth of them may be below 0.0001. A row's entropy is the mean of its bin over all outcomes, so that no outcome is
    tied to it within a bin. Laws without entropy lose nothing, the affine laws about 0.001 at most; the isotonic
    law, deciles and curves are those of the bins.

    A shard is a set of whole prompts, chosen by a hash, and stands in ``prompt_id``: errors by shard estimate the
    same covariance as errors by prompt, to about :math:`1/\sqrt{2 \cdot \text{shards}}` of a standard error.
    Where there are no more prompts than shards, each prompt keeps its name. The hash is that of the polars version.

    Memory: one batch of rows, and the result. Reads the rows once, and the columns that name prompts (until there
    are more than ``shards``) and requests (unless last rounds are kept) before that.

    Parameters
    ----------
    rounds
        A log; a lazy query with its columns; or Parquet files, folders or patterns (see `lawfit.scan.scan_files`).
    bins
        N, the bins below one nat; a bin is about 8 / N of its entropy wide.
    shards
        Most sets of prompts.
    by
        Columns to keep apart, such as ``task``; those that the log does not have are passed over.
    signal
        The entropy to keep; the others are dropped.
    last_round
        What becomes of each request's last round, as in `lawfit.observe`; counts hold no last rounds, so this is the
        time to choose. After ``drop`` and ``censor``, ``truncated`` is known in every row.
    on_rows
        Is told how many rows are done; in all it is told the rows of the log once, or twice unless last rounds
        are kept.

    Raises
    ------
    LogFormatError
        A file is not what it should be, or a row breaks an invariant on the columns that are read.
    NotIdentified
        Last rounds cannot be told, or no round is left.
    FitError
        An option is out of range.
    """
    require(last_round, LastRound, "last_round")
    require(signal, Signal, "signal")
    _check(bins, shards, by)
    scan = _scan(rounds)
    kept = tuple(name for name in dict.fromkeys((*by, "origin")) if scan.holds(name))
    endings = None if last_round == "keep" else find_endings(scan, on_rows)
    grid = _Grid(bins, shards, kept, signal, named=_few_prompts(scan, shards))
    cells = fold(_cells(scan, grid, endings, last_round, on_rows), grid.keys, _SUMS)
    if cells.is_empty():
        raise NotIdentified(f"{scan.source}: no rounds are left (last_round is {last_round})")
    return RoundLog.from_frame(_rows(cells, grid), Place(scan.source))


def _check(bins: int, shards: int, by: Sequence[str]) -> None:
    if not 1 <= bins <= MOST_BINS:
        raise FitError(f"bins is {bins}, expected 1 to {MOST_BINS}")
    if not 2 <= shards <= MOST_SHARDS:
        raise FitError(f"shards is {shards}, expected 2 to {MOST_SHARDS}")
    if wrong := [name for name in by if name not in KEEPABLE]:
        raise FitError(f"by is {wrong[0]!r}, which counts cannot keep apart; expected one of {', '.join(KEEPABLE)}")


def _scan(rounds: Rounds) -> Scan:
    if isinstance(rounds, Scan):
        return rounds
    return scan_frame(rounds) if isinstance(rounds, (RoundLog, pl.LazyFrame)) else scan_files(rounds)


def _few_prompts(scan: Scan, shards: int) -> bool:
    """Tell whether there are no more prompts than shards; reads no further than it must."""
    names = pl.Series("cluster", [], dtype=pl.String)
    for batch in scan.batches(("prompt_id",)):
        here = _named(batch).select(PROMPT.alias("cluster")).to_series()
        names = pl.concat([names, here.drop_nulls().unique()]).unique()
        if len(names) > shards:
            return False
    return True


def _named(batch: Batch) -> pl.DataFrame:
    """Give the rows with what names their cluster; the request is read only where some prompt is not named."""
    absent = [name for name in ("run_id", "request_id") if name not in batch.frame.columns]
    if batch.frame["prompt_id"].null_count():
        return batch.also(absent)
    return batch.frame.with_columns(pl.lit(None, dtype=pl.String).alias(name) for name in absent)


def _cells(
    scan: Scan, grid: _Grid, endings: Endings | None, last_round: LastRound, on_rows: Callable[[int], None]
) -> Iterator[pl.DataFrame]:
    """Give the partial counts of each batch."""
    columns = grid.columns if endings is None else tuple(dict.fromkeys((*grid.columns, *ENDING_KEYS)))
    for batch in scan.batches(columns, on_rows):
        frame = _named(batch)
        if endings is not None:
            last = endings.mark(batch)
            cut = pl.col("truncated").fill_null(False)
            frame = frame.with_columns(cut).filter(~last) if last_round == "drop" else frame.with_columns(cut | last)
        yield _counted(frame, grid)


def _counted(frame: pl.DataFrame, grid: _Grid) -> pl.DataFrame:
    """Count the rounds of each cell and sum their entropies."""
    cluster = PROMPT.alias("cluster") if grid.named else pl.lit(None, dtype=pl.String).alias("cluster")
    # A column of one value is no key of a batch; text is slow to group by.
    same = [name for name in grid.by if len(frame) and frame[name].eq_missing(frame[name][0]).all()]
    keys = [name for name in grid.keys if name not in same]
    nats = (pl.col(grid.signal) * pl.col("count")).alias("nats")
    counted = (
        frame.lazy()
        .select(*(name for name in grid.by if name not in same), _cell(grid), cluster, "count", nats)
        .group_by(keys)
        .agg(_SUMS)
        .with_columns(pl.lit(frame[name][0], dtype=BY_NAME[name].dtype).alias(name) for name in same)
    )
    return counted.select(*grid.keys, "count", "nats").collect()


def _cell(grid: _Grid) -> pl.Expr:
    """Write the shard, bin and outcome of a row as one whole number; 0 in place of a shard or bin is none."""
    prompt = pl.col("prompt_id")
    by_request = pl.col("request_id").hash(1) ^ pl.col("run_id").fill_null("").hash(2)
    named = pl.when(prompt.is_not_null()).then(prompt.hash(0)).when(pl.col("request_id").is_not_null()).then(by_request)
    shard = pl.lit(0) if grid.named else (named.otherwise(None) % grid.shards + 1).cast(pl.Int64).fill_null(0)
    place = (pl.col(grid.signal).sqrt().sqrt().sqrt() * grid.bins).floor().clip(upper_bound=_BIN - 2)
    bin_ = (place + 1).fill_null(0).cast(pl.Int64)
    cut = pl.col("truncated").cast(pl.Int64).fill_null(_UNKNOWN)
    offsets = ((shard * _BIN + bin_) * _OFFSET + pl.col("accept_len")) * _OFFSET + pl.col("horizon")
    return (offsets * _CUT + cut).alias("cell")


def _rows(cells: pl.DataFrame, grid: _Grid) -> pl.DataFrame:
    """Turn cells into rows of the log, in an order that no thread decides."""
    cell, cut = pl.col("cell"), pl.col("cell") % _CUT
    bin_ = cell // (_CUT * _OFFSET * _OFFSET) % _BIN
    shard = cell // (_CUT * _OFFSET * _OFFSET * _BIN)
    sharded = pl.when(shard > 0).then(pl.format("shard {}", shard - 1))
    pool = [*grid.by, "bin"]
    return (
        cells.sort(*grid.by, *(["cluster"] if grid.named else []), "cell")
        .with_columns(bin=bin_)
        .select(
            *grid.by,
            pl.col("cluster").alias("prompt_id") if grid.named else sharded.otherwise(None).alias("prompt_id"),
            (cell // (_CUT * _OFFSET) % _OFFSET).alias("accept_len"),
            (cell // _CUT % _OFFSET).alias("horizon"),
            pl.when(cut != _UNKNOWN).then(cut == 1).otherwise(None).alias("truncated"),
            "count",
            pl.when(pl.col("bin") > 0)
            .then(pl.col("nats").sum().over(pool) / pl.col("count").sum().over(pool))
            .otherwise(None)
            .alias(grid.signal),
        )
    )
