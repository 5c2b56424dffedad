"""The columns of the round log, version 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

SCHEMA_VERSION = 1
VERSION_KEY = "lawfit.schema_version"


@dataclass(frozen=True)
class Column:
    """One column of the round log.

    Attributes
    ----------
    name, dtype
        Name and polars type.
    doc
        Meaning, with the unit.
    default
        Value of rows whose source has no such column; ``None`` leaves them null.
    required
        Whether a log without it is refused.
    """

    name: str
    dtype: pl.DataType
    doc: str
    default: Any = None
    required: bool = False


_TEXT, _INT, _REAL, _FLAG = pl.String(), pl.Int64(), pl.Float64(), pl.Boolean()
_REALS, _INTS = pl.List(pl.Float64()), pl.List(pl.Int64())

COLUMNS: tuple[Column, ...] = (
    # Keys
    Column("run_id", _TEXT, "one run of an engine"),
    Column("request_id", _TEXT, "one request of a run"),
    Column("prompt_id", _TEXT, "the prompt; errors are clustered by it"),
    Column("task", _TEXT, "workload name"),
    Column("round", _INT, "0-based number of the round in its request"),
    Column("position", _INT, "output tokens emitted before this round's root"),
    Column("context_len", _INT, "tokens in the target's cache when the round starts"),
    Column("batch_size", _INT, "requests verified in the same pass"),
    Column("engine", _TEXT, "what decoded, with version"),
    Column("target", _TEXT, "target model"),
    Column("drafter", _TEXT, "drafter"),
    Column("temperature", _REAL, "sampling temperature; 0 is greedy"),
    # Setting
    Column("shape", _TEXT, "chain or tree"),
    Column("budget", _INT, "verified draft nodes, root excluded"),
    Column("horizon", _INT, "deepest offset that this round could have accepted", required=True),
    Column("draft_passes", _INT, "forward passes of the drafter"),
    # Outcome
    Column("accept_len", _INT, "accepted draft tokens, bonus excluded", required=True),
    Column("spine_len", _INT, "accepted run along the drafter's top-1 path"),
    Column("truncated", _FLAG, "the run was cut by the end of the request, not by a miss; null: not known"),
    Column("count", _INT, "identical rounds that this row stands for", default=1),
    # Signals
    Column("root_entropy", _REAL, "entropy of the target's row at the root, nats; known after verification"),
    Column("prev_entropy", _REAL, "entropy of the row that produced the root, nats; known before"),
    Column("draft_entropy", _REAL, "entropy of the draft at offset 1, nats; known before"),
    Column("draft_logprobs", _REALS, "log draft probability along the top-1 path"),
    Column("draft_entropies", _REALS, "draft entropy along the top-1 path, nats"),
    Column("accept_ranks", _INTS, "1-based best-first rank of every accepted node"),
    # Times
    Column("draft_ms", _REAL, "time of drafting, ms"),
    Column("build_ms", _REAL, "time of sizing and building the tree, ms"),
    Column("verify_ms", _REAL, "time of the target's pass, ms"),
    Column("commit_ms", _REAL, "time of walk and commit, ms"),
    Column("round_ms", _REAL, "time of the whole round, ms"),
    Column(
        "origin",
        _TEXT,
        "round: decoded so; trace: drafted at a position of the target's output",
        default="round",
    ),
)

BY_NAME: dict[str, Column] = {column.name: column for column in COLUMNS}
NAMES: tuple[str, ...] = tuple(BY_NAME)
POLARS_SCHEMA: dict[str, pl.DataType] = {column.name: column.dtype for column in COLUMNS}
REQUIRED: tuple[str, ...] = tuple(column.name for column in COLUMNS if column.required)
ENTROPIES: tuple[str, ...] = ("root_entropy", "prev_entropy", "draft_entropy")
TIMES: tuple[str, ...] = ("draft_ms", "build_ms", "verify_ms", "commit_ms", "round_ms")
