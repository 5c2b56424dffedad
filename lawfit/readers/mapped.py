"""Any table: CSV, TSV, JSON Lines or Parquet whose columns the user names."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import polars as pl

from lawfit.cast import fits_nowhere, typed
from lawfit.errors import LogFormatError
from lawfit.readers.given import Given
from lawfit.readers.hints import mapping_hint
from lawfit.readers.sheet import Sheet
from lawfit.readers.table import Table, load_table
from lawfit.schema import BY_NAME, REQUIRED

_OFFSET = re.compile(r"(?P<name>.+?)\s*(?P<offset>[+-]\s*\d{1,9})")
# Columns that a likelihood rests on: one of another kind is an error, not a remark.
_DECISIVE = (*REQUIRED, "count", "truncated")
_SHOWN = 30  # names of columns in a message


def read(path: Path, given: Given) -> Sheet:
    """Take the mapped columns, and those that already carry a name of the log.

    A source ``column-1`` or ``column+1`` shifts whole numbers, unless a column has that very name. Where a
    source column is absent, a constant for the same log column stands in for it. Where no column gives
    ``request_id``, each prompt is one request. Prompts that are mere numbers, counted anew in each of several
    tasks, are named ``task/number``. Rows that do not satisfy the conditions are left out before all that.

    Raises
    ------
    LogFormatError
        A source column is absent, or none gives a required column.
    """
    table, notes = _selected(load_table(path), given)
    columns, used, replaced = _mapped(table, given)
    notes += replaced
    for name in table.frame.columns:
        if name not in BY_NAME or name in given.mapping:
            continue
        if name not in _DECISIVE and fits_nowhere(table.frame[name], BY_NAME[name].dtype):
            notes.append(f"{path}: column {name} is not what the log means by it")
            continue
        columns[name] = table.frame[name]
        used.add(name)
    _require(table, columns, given)
    if left := [name for name in table.frame.columns if name not in used]:
        notes.append(f"{path}: left out {', '.join(left[:_SHOWN])}{' ...' if len(left) > _SHOWN else ''}")
    for name in ("prompt_id", "task"):
        if name in columns:
            columns[name] = typed(columns[name], BY_NAME[name].dtype, table.place)
    frame, named = _with_requests(pl.DataFrame([series.alias(name) for name, series in columns.items()]), given)
    return Sheet(frame, table.place, (*notes, *(f"{path}: {text}" for text in named)))


def means(given: Given, columns: Collection[str]) -> bool:
    """Tell whether the mapping or a condition names one of these columns."""
    sources = [_parse(columns, expression)[0] for expression in given.mapping.values()]
    return any(name in columns for name in (*sources, *(condition.column for condition in given.conditions)))


def _selected(table: Table, given: Given) -> tuple[Table, list[str]]:
    """Keep the rows that satisfy every condition."""
    notes = []
    for condition in given.conditions:
        before = table.frame.height
        table = table.where(condition.holds(table))
        notes.append(f"{table.place.source}: --where {condition} kept {table.frame.height} of {before} rows")
        if table.frame.is_empty():
            raise LogFormatError(f"{table.place.source}: no row satisfies --where {condition}")
    return table, notes


def _mapped(table: Table, given: Given) -> tuple[dict[str, pl.Series], set[str], list[str]]:
    """Find the mapped columns, which source columns they use, and which a constant stands in for."""
    columns, used, notes = {}, set(), []
    for name, expression in given.mapping.items():
        source, offset = _parse(table.frame.columns, expression)
        if source in table.frame.columns:
            series = table.frame[source]
            columns[name] = typed(series, pl.Int64(), table.place) + offset if offset else series
            used.add(source)
        elif name in given.constants:
            value = given.constants[name]
            notes.append(f"{table.place.source}: no column {source!r}; {name} is {value} in every row")
        else:
            raise LogFormatError(f"{table.place.source}: no column {source!r} for {name}; {_have(table)}")
    return columns, used, notes


def _parse(columns: Collection[str], expression: str) -> tuple[str, int]:
    """Split ``column-1`` into column and offset, unless a column has that very name."""
    match = _OFFSET.fullmatch(expression)
    if expression in columns or match is None or match["name"] not in columns:
        return expression, 0
    return match["name"], int(match["offset"].replace(" ", ""))


def _require(table: Table, columns: dict[str, pl.Series], given: Given) -> None:
    absent = [name for name in REQUIRED if name not in columns and name not in given.constants]
    if absent:
        raise LogFormatError(
            f"{table.place.source}: not a known log, and no column gives {' and '.join(absent)}; "
            f"{_have(table)}; {mapping_hint(table)}"
        )


def _have(table: Table) -> str:
    return f"the columns are {', '.join(table.frame.columns[:_SHOWN])}"


def _with_requests(frame: pl.DataFrame, given: Given) -> tuple[pl.DataFrame, list[str]]:
    """Tell prompts of different tasks apart, and name each request where no column does."""
    if "prompt_id" not in frame.columns:
        return frame, []
    notes = []
    several = "task" in frame.columns and frame["task"].n_unique() > 1
    in_task = pl.format("{}/{}", "task", "prompt_id") if several else pl.col("prompt_id")
    if several and _numbers_recur(frame):
        frame = frame.with_columns(prompt_id=in_task)
        in_task = pl.col("prompt_id")
        notes.append("the same prompt numbers occur in several tasks; prompts are named task/number")
    if "request_id" not in frame.columns and "request_id" not in given.constants:
        frame = frame.with_columns(request_id=in_task)
        notes.append("no request_id; each prompt is taken as one request")
    return frame, notes


def _numbers_recur(frame: pl.DataFrame) -> bool:
    """Tell whether prompts are numbers, some of which occur in several tasks."""
    tasks = frame.group_by("prompt_id").agg(pl.col("task").n_unique())
    numbers = tasks["prompt_id"].str.contains(r"^\d+$").all()
    return bool(numbers) and bool((tasks["task"] > 1).any())
