"""Sums of a round log by prompt: what a comparison or a bootstrap of prompts needs to know of it."""

from __future__ import annotations

import polars as pl

from lawfit.errors import NotIdentified
from lawfit.keys import PROMPT
from lawfit.log import RoundLog

# A round emits its accepted tokens and the bonus; one that the end of its request cut emits no bonus.
_CUT = pl.col("truncated").fill_null(False).cast(pl.Int64)
SUMS: dict[str, pl.Expr] = {
    "rounds": pl.col("count"),
    "accepted": pl.col("count") * pl.col("accept_len"),
    "tokens": pl.col("count") * (pl.col("accept_len") + 1 - _CUT),
    "ms": pl.col("count") * pl.col("round_ms"),
}


def prompt_sums(log: RoundLog, **columns: pl.Expr) -> pl.DataFrame:
    """Add up a log by task and prompt.

    Parameters
    ----------
    log
        A round log, version 1. A row without a prompt counts by its request.
    columns
        Expressions of rows to add up beside `SUMS`.

    Returns
    -------
    DataFrame
        ``task`` ("" where unknown), ``prompt``, and the sums: ``rounds``, ``accepted`` (bonus out), ``tokens`` (bonus
        in), ``ms`` (null where a round of the prompt has no time), and those of ``columns``. Sorted by task and prompt.

    Raises
    ------
    NotIdentified
        The log is empty, or a row names neither prompt nor request.
    """
    keyed = log.frame.with_columns(PROMPT.alias("prompt"), pl.col("task").fill_null(""))
    nameless = keyed["prompt"].null_count()
    if nameless or keyed.is_empty():
        what = f"{nameless} of {len(keyed)} rows name no prompt_id or request_id" if nameless else "there are no rounds"
        raise NotIdentified(f"{log.source}: {what}, and prompts are what is compared")
    named = {**SUMS, **columns}
    whole = {name: pl.when(rows.is_not_null().all()).then(rows.sum()) for name, rows in named.items()}
    return keyed.group_by("task", "prompt").agg(**whole).sort("task", "prompt")
