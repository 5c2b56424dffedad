"""The round log of the GLANCE code (``main_table.py --round-log``): JSON Lines.

One row per round: ``round``, ``entropy`` (of the target at the root, nats), ``accepted`` (bonus excluded),
``tau`` (accepted + 1), ``tree_size`` (budget + 1), ``extended``, ``task``, and ``prompt``, its number there.

Three things to know:

- The horizon is not in the file: it is the head's block size less one (15 in the paper) and must be given.
  A tree of N nodes is at most N deep, so a round's horizon is never above its budget.
- An ``extended`` round carries a second block, of a size that is not in the file, so it may accept beyond
  the horizon. Such a round is cut to ``accept_len = horizon``: that it survived the first block is certain,
  whether it ended later by a miss or by the end of its tree is not. To censor it where it ended instead would
  count its successes beyond the horizon and never a miss.
- ``prompt`` starts again at 0 in every task, so a prompt's name is ``task/prompt``.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from lawfit.cast import typed
from lawfit.errors import LogFormatError
from lawfit.readers.given import Given
from lawfit.readers.glimpse import Glimpse
from lawfit.readers.sheet import Sheet
from lawfit.readers.table import Table, load_table
from lawfit.words import counted

_TYPES: dict[str, pl.DataType] = {
    "round": pl.Int64(),
    "entropy": pl.Float64(),
    "accepted": pl.Int64(),
    "tau": pl.Int64(),
    "tree_size": pl.Int64(),
    "extended": pl.Boolean(),
}
_KEYS: dict[str, pl.DataType] = {"task": pl.String(), "prompt": pl.String()}


def recognise(glimpse: Glimpse) -> bool:
    """Tell whether the first object is a row of this format."""
    return any({"round", "entropy", "accepted", "tree_size"} <= first.keys() for first in glimpse.records[:1])


def read(path: Path, given: Given) -> Sheet:
    """Read the log; ``given`` must hold the horizon.

    Raises
    ------
    LogFormatError
        No horizon, a column is absent, or ``tau`` is not ``accepted + 1``.
    """
    horizon = given.constants.get("horizon")
    if horizon is None:
        raise LogFormatError(
            f"{path}: a GLANCE log does not hold its horizon; give the head's block size less one, "
            "e.g. --set horizon=15"
        )
    table = load_table(path)
    rows = _typed_rows(table)
    _check_tau(rows, table)
    beyond = pl.col("extended").fill_null(False) & (pl.col("accepted") > horizon)
    prompt = pl.format("{}/{}", "task", "prompt") if "task" in rows.columns else pl.col("prompt")
    deepest = pl.min_horizontal(pl.lit(horizon, pl.Int64), pl.col("tree_size") - 1)
    frame = rows.select(
        *(name for name in ("round", "task") if name in rows.columns),
        *([prompt.alias("prompt_id"), prompt.alias("request_id")] if "prompt" in rows.columns else []),
        engine=pl.lit("GLANCE"),
        shape=pl.lit("tree"),
        budget=pl.col("tree_size") - 1,
        horizon=pl.when(beyond).then(horizon).otherwise(deepest),
        draft_passes=1 + pl.col("extended").cast(pl.Int64),
        accept_len=pl.when(beyond).then(horizon).otherwise("accepted"),
        root_entropy="entropy",
    )
    cut = int(rows.select(beyond.sum()).item())
    notes = (
        [f"{path}: {counted(cut, 'extended round')} accepted beyond the horizon {horizon}, cut to it"] if cut else []
    )
    notes.append(f"{path}: horizon {horizon} as given, or the budget where that is less; no times, no draft signals")
    return Sheet(frame, table.place, tuple(notes))


def _typed_rows(table: Table) -> pl.DataFrame:
    absent = [name for name in _TYPES if name not in table.frame.columns]
    if absent:
        have = ", ".join(table.frame.columns[:12])
        raise LogFormatError(
            f"{table.place.source}: no {' and no '.join(absent)} in a GLANCE log; the columns are {have}"
        )
    types = {**_TYPES, **{name: kind for name, kind in _KEYS.items() if name in table.frame.columns}}
    return pl.DataFrame([typed(table.frame[name], kind, table.place) for name, kind in types.items()])


def _check_tau(rows: pl.DataFrame, table: Table) -> None:
    broken = rows.select((pl.col("tau") != pl.col("accepted") + 1).fill_null(True)).to_series().arg_true()
    if len(broken):
        at = int(broken[0])
        accepted, tau = rows["accepted"][at], rows["tau"][at]
        raise LogFormatError(f"tau is {tau}, expected accepted + 1 with accepted {accepted} ({table.place.of(at)})")
