"""What must hold in every row of a round log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from lawfit.errors import LogFormatError
from lawfit.place import Place
from lawfit.schema import ENTROPIES, REQUIRED, TIMES

Row = dict[str, Any]


@dataclass(frozen=True)
class Invariant:
    """A rule on one row: ``broken`` selects the rows that violate it, ``message`` words the violation."""

    broken: pl.Expr
    message: Callable[[Row], str]


def _missing(name: str) -> Invariant:
    return Invariant(pl.col(name).is_null(), lambda row: f"{name} is missing, expected a whole number")


def _at_least(name: str, low: int) -> Invariant:
    return Invariant(pl.col(name) < low, lambda row: f"{name} {row[name]} is below {low}")


def _finite_nonnegative(name: str, unit: str) -> Invariant:
    broken = ~(pl.col(name).is_finite() & (pl.col(name) >= 0))
    return Invariant(broken, lambda row: f"{name} {row[name]} is not a finite number of {unit} >= 0")


def _not_above(name: str, limit: str) -> Invariant:
    return Invariant(pl.col(name) > pl.col(limit), lambda row: f"{name} {row[name]} exceeds {limit} {row[limit]}")


def _one_of(name: str, *words: str) -> Invariant:
    expected = " or ".join(words)
    return Invariant(~pl.col(name).is_in(words), lambda row: f"{name} {row[name]!r}, expected {expected}")


def _list_finite(name: str, low: float, high: float, meaning: str) -> Invariant:
    value = pl.element()
    wrong = value.is_null() | ~value.is_finite() | (value < low) | (value > high)
    return Invariant(
        pl.col(name).list.eval(wrong).list.any(),
        lambda row: f"{name} {row[name]} holds a value that is not {meaning}",
    )


def _ranks() -> tuple[Invariant, ...]:
    ranks = pl.col("accept_ranks")
    return (
        Invariant(
            ranks.list.len() != pl.col("accept_len"),
            lambda row: f"accept_ranks has {len(row['accept_ranks'])} ranks, accept_len is {row['accept_len']}",
        ),
        Invariant(
            ranks.list.eval((pl.element() < 1) | pl.element().is_null() | (pl.element().diff() < 1)).list.any(),
            lambda row: f"accept_ranks {row['accept_ranks']} are not increasing ranks >= 1",
        ),
        Invariant(
            ranks.list.max() > pl.col("budget"),
            lambda row: f"accept_ranks reach {max(row['accept_ranks'])}, budget is {row['budget']}",
        ),
    )


# No draft is that deep; tables by offset are made for the deepest, and a slip of a column would ask for terabytes.
MOST_OFFSETS = 10_000

INVARIANTS: tuple[Invariant, ...] = (
    *(_missing(name) for name in (*REQUIRED, "count")),
    *(_at_least(name, 0) for name in ("accept_len", "horizon", "spine_len", "budget", "round", "position")),
    *(_at_least(name, 0) for name in ("context_len", "draft_passes")),
    *(_at_least(name, 1) for name in ("count", "batch_size")),
    Invariant(pl.col("horizon") > MOST_OFFSETS, lambda row: f"horizon {row['horizon']} exceeds {MOST_OFFSETS}"),
    _not_above("accept_len", "horizon"),
    _not_above("spine_len", "accept_len"),
    _not_above("horizon", "budget"),
    *(_finite_nonnegative(name, "nats") for name in ENTROPIES),
    *(_finite_nonnegative(name, "ms") for name in TIMES),
    _finite_nonnegative("temperature", "units"),
    _one_of("shape", "chain", "tree"),
    _one_of("origin", "round", "trace"),
    _list_finite("draft_logprobs", -1e30, 1e-6, "a log probability"),
    _list_finite("draft_entropies", 0.0, 1e30, "an entropy in nats"),
    *_ranks(),
)


def check(frame: pl.DataFrame, place: Place) -> None:
    """Raise `LogFormatError` at the first row of ``frame`` that breaks an invariant.

    ``frame`` has the columns and types of the schema; ``place`` names its rows in the message.
    """
    # A null makes a comparison null: unknown is not broken, so nulls pass.
    flags = [rule.broken.fill_null(False).alias(str(k)) for k, rule in enumerate(INVARIANTS)]
    broken = frame.lazy().select(flags).with_row_index("row").filter(pl.any_horizontal(pl.exclude("row")))
    first = broken.head(1).collect()
    if first.is_empty():
        return
    at = int(first["row"][0])
    rule = next(INVARIANTS[k] for k in range(len(INVARIANTS)) if first[str(k)][0])
    row = frame.row(at, named=True)
    number = at if row["round"] is None else row["round"]
    raise LogFormatError(f"round {number}: {rule.message(row)} ({place.of(at)})")
