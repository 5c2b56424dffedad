"""How a table of unknown columns might be mapped, guessed from their names and values."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping

import polars as pl

from lawfit.readers.table import Table
from lawfit.schema import REQUIRED

_MOST = 10_000  # an accepted length or a horizon beyond it is a sum


def _numbers(series: pl.Series) -> pl.Series | None:
    """Give the values as numbers; None where some is none, or all are null."""
    if series.dtype.is_nested() or series.dtype in (pl.Object, pl.Boolean):
        return None
    values = series.drop_nulls().cast(pl.Float64, strict=False)
    return None if values.is_empty() or values.null_count() or not values.is_finite().all() else values


def _lengths(series: pl.Series) -> bool:
    values = _numbers(series)
    return values is not None and bool((values.round() == values).all() and values.is_between(0, _MOST).all())


def _nats(series: pl.Series) -> bool:
    values = _numbers(series)
    return values is not None and bool((values >= 0).all())


def _names(series: pl.Series) -> bool:
    return not series.dtype.is_nested() and series.dtype != pl.Object


# The likeliest first. A single letter is meant as it is written, other names in any case.
_LIKELY: Mapping[str, tuple[Callable[[pl.Series], bool], tuple[str, ...]]] = {
    "accept_len": (
        _lengths,
        (
            *("accept_len", "accepted", "accepted_len", "n_accepted", "num_accepted", "accepted_tokens", "a"),
            *("correct_drafts", "acc_len", "acc", "accept_length", "accepted_length", "acceptance_length", "tau"),
        ),
    ),
    "horizon": (
        _lengths,
        ("horizon", "L", "K", "k", "n_draft", "num_draft", "draft_len", "draft_length", "num_spec_tokens", "gamma"),
    ),
    "root_entropy": (_nats, ("root_entropy", "H", "entropy", "target_entropy")),
    "prompt_id": (_names, ("prompt_id", "prompt", "question_id", "sample_id", "sample", "problem", "task_id")),
    "task": (_names, ("task", "dataset", "category", "benchmark")),
}
_WITH_BONUS = ("acc_len", "acc", "accept_length", "accepted_length", "acceptance_length", "tau")


def mapping_hint(table: Table) -> str:
    """Word how to map the columns of a table, if they look like rounds; else what a table of rounds needs."""
    found = {column: name for column in _LIKELY if (name := _likely(table.frame, column)) is not None}
    if "accept_len" not in found or len(table.frame) < 2:
        needs = " and ".join(f"{name}=" for name in sorted(REQUIRED))
        return f"nor does one look like accepted tokens a round; a table of rounds needs --map or --set with {needs}"
    pairs = ",".join(f"{column}={name}" for column, name in found.items() if column != name)
    options = [*(["--map", shlex.quote(pairs)] if pairs else []), *([] if "horizon" in found else ["--set horizon=N"])]
    told = "" if "horizon" in found else ", with N the tokens that a round drafted"
    command = f"lawfit convert {shlex.quote(table.place.source)} {' '.join(options)} -o rounds.parquet"
    return f"by their names, perhaps: {command}{told}"


def _likely(frame: pl.DataFrame, column: str) -> str | None:
    """Find the likeliest source of a column, shifted where it counts the bonus."""
    fits, names = _LIKELY[column]
    cased = {name if len(name) == 1 else name.lower(): name for name in reversed(frame.columns)}
    for name in names:
        source = cased.get(name)
        if source is None or not fits(frame[source]):
            continue
        values = _numbers(frame[source]) if name in _WITH_BONUS else None
        if values is not None and values.is_between(1, _MOST).all():
            return f"{source}-1"
        return source
    return None
