"""Which rows are the last of their request, in a log that need not fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import polars as pl

from lawfit.errors import NotIdentified
from lawfit.scan import Batch, Scan, fold

KEYS = ("run_id", "request_id", "prompt_id", "round")
"""The columns that tell."""


@dataclass(frozen=True, eq=False)
class Endings:
    """Where each request ends.

    Attributes
    ----------
    last
        ``request``, a hash of the request's name, and ``at``, its last round.
    numbered
        Whether ``at`` is a round number; else it is a number of a row of the scan.
    """

    last: pl.DataFrame
    numbered: bool

    def mark(self, batch: Batch) -> pl.Series:
        """Flag the rows of ``batch``, read with `KEYS`, that are the last of their request."""
        keyed = _keyed(batch).with_columns(here=pl.col("round") if self.numbered else pl.col("row"))
        found = keyed.join(self.last, on="request", how="left", maintain_order="left")
        return found.select((pl.col("here") == pl.col("at")).alias("last"))["last"]


def find_endings(scan: Scan, on_rows: Callable[[int], None] = lambda rows: None) -> Endings:
    """Walk through ``scan`` once, as `lawfit.observe` tells last rounds: by number, or by row where some have none.

    Memory grows with the requests: some 40 bytes each.

    Raises
    ------
    NotIdentified
        A row stands for several rounds or names no request, or more rounds of one request come than its numbers
        allow. (A number that comes twice while others are missing is not seen here.)
    """
    sums = [pl.col("rows").sum(), pl.col("nameless").sum(), pl.col("unnumbered").sum(), pl.col("several").sum()]
    sums += [pl.col("low").min(), pl.col("high").max(), pl.col("row").max()]
    table = fold(_tallies(scan, on_rows), ["request"], sums)
    total = table.select("several", "nameless", "unnumbered").sum().row(0, named=True)
    if total["several"]:
        raise NotIdentified(f"{scan.source}: rows with count > 1 hold no last rounds; use last_round keep")
    if total["nameless"]:
        raise NotIdentified(
            f"{scan.source}: {total['nameless']} of {scan.rows} rows name no request_id or prompt_id, so that last"
            " rounds cannot be told; use last_round keep"
        )
    numbered = total["unnumbered"] == 0
    if numbered and table.select((pl.col("rows") > pl.col("high") - pl.col("low") + 1).any()).item():
        raise NotIdentified(
            f"{scan.source}: a round number occurs twice in one request, so that last rounds cannot be told;"
            " give each request its own request_id, or use last_round keep"
        )
    return Endings(table.select("request", at=pl.col("high" if numbered else "row")), numbered)


def _tallies(scan: Scan, on_rows: Callable[[int], None]) -> Iterator[pl.DataFrame]:
    for batch in scan.batches((*KEYS, "count"), on_rows):
        grouped = _keyed(batch).lazy().group_by("request")
        yield grouped.agg(
            rows=pl.len().cast(pl.Int64),
            nameless=pl.col("request").is_null().sum().cast(pl.Int64),
            unnumbered=pl.col("round").is_null().sum().cast(pl.Int64),
            several=(pl.col("count") > 1).sum().cast(pl.Int64),
            low=pl.col("round").min(),
            high=pl.col("round").max(),
            row=pl.col("row").max(),
        ).collect()


def _keyed(batch: Batch) -> pl.DataFrame:
    """Name the request of each row by a hash: 64 bits tell ten million apart but for one chance in 300,000."""
    run = pl.col("run_id").fill_null("").hash(1)
    request, prompt = pl.col("request_id"), pl.col("prompt_id")
    key = (
        pl.when(request.is_not_null()).then(run ^ request.hash(2)).when(prompt.is_not_null()).then(run ^ prompt.hash(3))
    )
    rows = pl.int_range(batch.before, batch.before + len(batch.frame), dtype=pl.Int64)
    return batch.frame.with_columns(request=key.otherwise(None), row=rows)
