"""Rounds as right-censored survival observations, and the table of offsets at risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import polars as pl

from lawfit.arrays import Flags, Floats, Ints
from lawfit.errors import FitError, NotIdentified
from lawfit.keys import PROMPT, SEQUENCE
from lawfit.log import RoundLog

LastRound = Literal["drop", "censor", "keep"]
Signal = Literal["root_entropy", "prev_entropy", "draft_entropy"]
Outcome = Literal["accept_len", "spine_len"]


@dataclass(frozen=True, eq=False)
class Observations:
    """n rounds as survival observations: matches up to a, then a miss at offset a + 1 or nothing more seen.

    Attributes
    ----------
    accept_len, horizon
        (n,) accepted draft tokens, bonus excluded, and the deepest offset that could have been accepted.
    missed
        (n,) whether a miss was seen at offset ``accept_len + 1``; ``False`` is a censored round.
    weight
        (n,) rounds that each row stands for.
    entropy
        (n,) nats, NaN where a row has none; ``None`` where no row has one.
    cluster
        (n,) number of the prompt (else request) of each row; ``None`` where some row names neither.
    row
        (n,) place of each row in the log, to look up other columns; ``None`` where there is no log.
    source, digest
        Where the rows came from, and the digest of that log.
    last_round, signal
        How `observe` treated last rounds, and which column ``entropy`` is.
    left_out
        Rounds left out for want of an entropy.
    notes
        What a reader of the fit should know about the rows.
    """

    accept_len: Ints
    horizon: Ints
    missed: Flags
    weight: Floats
    entropy: Floats | None = None
    cluster: Ints | None = None
    row: Ints | None = None
    source: str = "frame"
    digest: str = ""
    last_round: LastRound = "keep"
    signal: Signal = "root_entropy"
    left_out: float = 0.0
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.accept_len)

    @property
    def trials(self) -> Ints:
        """(n,) offsets seen in each round: its matches, and its miss where one was seen."""
        return self.accept_len + self.missed

    @property
    def rounds(self) -> float:
        """Count the rounds: the sum of the weights."""
        return float(self.weight.sum())

    @property
    def clusters(self) -> int | None:
        """Count the prompts; ``None`` where they are not known."""
        return None if self.cluster is None else int(np.count_nonzero(np.bincount(self.cluster)))

    @property
    def longest(self) -> int:
        """Give the deepest horizon of any round."""
        return int(self.horizon.max())

    @property
    def mean_accept_len(self) -> float:
        """Average the accepted draft tokens per round, bonus excluded."""
        return float(np.average(self.accept_len, weights=self.weight))

    def take(self, rows: Flags) -> Observations:
        """Keep the rows flagged in ``rows`` (n,)."""
        return replace(
            self,
            accept_len=self.accept_len[rows],
            horizon=self.horizon[rows],
            missed=self.missed[rows],
            weight=self.weight[rows],
            entropy=None if self.entropy is None else self.entropy[rows],
            cluster=None if self.cluster is None else self.cluster[rows],
            row=None if self.row is None else self.row[rows],
        )

    def with_entropy(self) -> Observations:
        """Keep the rows that hold an entropy, and count the others in ``left_out``.

        Raises
        ------
        NotIdentified
            No row holds one.
        """
        if self.entropy is None:
            raise NotIdentified(
                f"{self.source}: no row has {self.signal}, which an entropy law needs;"
                " fit geometric or hazard, or choose another signal"
            )
        known = ~np.isnan(self.entropy)
        if known.all():
            return self
        kept = self.take(known)
        left_out = self.rounds - kept.rounds
        note = f"{left_out:.0f} of {self.rounds:.0f} rounds have no {self.signal} and were left out"
        return replace(kept, left_out=left_out, notes=(*self.notes, note))


def observe(
    log: RoundLog,
    *,
    last_round: LastRound = "keep",
    signal: Signal = "root_entropy",
    outcome: Outcome = "accept_len",
) -> Observations:
    """Turn a round log into survival observations.

    A round is censored where its outcome reached the horizon, or where ``truncated`` says that the request's
    end cut the run; an unknown ``truncated`` counts as not truncated. A round that offered no draft (horizon 0)
    says nothing of acceptance and is left out, with a note.

    Parameters
    ----------
    log
        A round log, version 1.
    last_round
        What becomes of the last round of each request: ``drop`` it, ``censor`` it (its stop is no miss), or
        ``keep`` it as logged.
    signal
        The entropy to use. GLANCE Eq. 2 is about ``root_entropy``, which is known only after verification.
    outcome
        ``accept_len``, or ``spine_len``: the run along the drafter's top-1 path, which Eq. 2 describes.

    Raises
    ------
    NotIdentified
        No round is left, or none offered a draft; the outcome is not logged; or last rounds cannot be told.
    FitError
        An option is not one of those above.
    """
    require(last_round, LastRound, "last_round")
    require(signal, Signal, "signal")
    require(outcome, Outcome, "outcome")
    frame, notes = _select(log, last_round, outcome)
    entropy = frame[signal].cast(pl.Float64)
    return Observations(
        accept_len=frame["_a"].to_numpy(),
        horizon=frame["horizon"].to_numpy(),
        missed=frame["_missed"].to_numpy(),
        weight=frame["count"].cast(pl.Float64).to_numpy(),
        entropy=None if entropy.null_count() == len(entropy) else entropy.fill_null(np.nan).to_numpy(),
        cluster=_clusters(frame),
        row=frame["_row"].to_numpy(),
        source=log.source,
        digest=log.digest,
        last_round=last_round,
        signal=signal,
        notes=(*_notes(log.frame, last_round), *notes),
    )


def _select(log: RoundLog, last_round: LastRound, outcome: Outcome) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Keep the rounds that say something of acceptance, with their outcome; tell what was left out."""
    frame = log.frame.with_columns(
        pl.col("truncated").fill_null(False).alias("_cut"), pl.int_range(pl.len()).alias("_row")
    )
    if last_round != "keep":
        last = _is_last(log)
        frame = frame.filter(~last) if last_round == "drop" else frame.with_columns(pl.col("_cut") | last)
    frame = _with_outcome(frame, outcome, log.source)
    if frame.is_empty():
        raise NotIdentified(f"{log.source}: no rounds are left to fit (last_round is {last_round})")
    drafted = frame.filter(pl.col("horizon") > 0)
    if drafted.is_empty():
        raise NotIdentified(f"{log.source}: no round offered a draft (every horizon is 0)")
    rounds = int(frame["count"].sum())
    idle = rounds - int(drafted["count"].sum())
    note = f"{idle} of {rounds} rounds offered no draft (horizon 0) and were left out"
    return drafted, (note,) if idle else ()


def require(value: str, options: object, name: str) -> None:
    """Raise `FitError` unless ``value`` is one of the words of the literal type ``options``."""
    words: Sequence[str] = get_args(options)
    if value not in words:
        raise FitError(f"{name} is {value!r}, expected {', '.join(words[:-1])} or {words[-1]}")


def _with_outcome(frame: pl.DataFrame, outcome: Outcome, source: str) -> pl.DataFrame:
    """Add the outcome ``_a``, and ``_missed``: whether a miss was seen at the offset after it."""
    a = pl.col("accept_len")
    if outcome == "spine_len":
        # A chain has no branches: its whole accepted run is its spine.
        a = pl.coalesce(pl.col("spine_len"), pl.when(pl.col("shape") == "chain").then(pl.col("accept_len")))
        frame = frame.filter(a.is_not_null())
        if frame.is_empty():
            raise NotIdentified(f"{source}: no row has spine_len")
    # A run cut by the end of the request is cut at accept_len: a spine that left the path earlier did miss.
    cut_here = pl.col("_cut") & (a == pl.col("accept_len"))
    return frame.with_columns(a.alias("_a"), ((a < pl.col("horizon")) & ~cut_here).alias("_missed"))


def _is_last(log: RoundLog) -> pl.Series:
    """Flag the last row of each request."""
    frame = log.frame
    if (frame["count"] > 1).any():
        raise NotIdentified(f"{log.source}: rows with count > 1 hold no last rounds; use last_round keep")
    keyed = frame.select(SEQUENCE.alias("key"), "round").with_row_index("row")
    nameless = keyed["key"].null_count()
    if nameless:
        raise NotIdentified(
            f"{log.source}: {nameless} of {len(keyed)} rows name no request_id or prompt_id, so that last"
            " rounds cannot be told; use last_round keep"
        )
    by_number = keyed["round"].null_count() == 0
    if by_number and keyed.select(pl.struct("key", "round").is_duplicated().any()).item():
        raise NotIdentified(
            f"{log.source}: a round number occurs twice in one request, so that last rounds cannot be told;"
            " give each request its own request_id, or use last_round keep"
        )
    order = pl.col("round") if by_number else pl.col("row")
    return keyed.select((order == order.max().over("key")).alias("last"))["last"]


def _clusters(frame: pl.DataFrame) -> Ints | None:
    """Give each row the number of its prompt, else of its request."""
    key = frame.select(PROMPT.alias("key"))["key"]
    if key.null_count():
        return None
    return key.rank("dense").cast(pl.Int64).to_numpy() - 1


def _notes(frame: pl.DataFrame, last_round: LastRound) -> tuple[str, ...]:
    notes = []
    unknown = frame["truncated"].null_count()
    if unknown and last_round == "keep":
        notes.append(
            f"truncated is not known in {unknown} of {len(frame)} rows, so that the last round of a request"
            " may count as a miss it was not: compare last_round drop and censor"
        )
    histograms = int((frame["count"] > 1).sum())
    if histograms:
        notes.append(f"{histograms} of {len(frame)} rows are histograms (count > 1)")
    budgets = frame.filter((pl.col("shape") == "tree") & (pl.col("horizon") > 0))["budget"].drop_nulls().unique().sort()
    if len(budgets) > 1:
        named = ", ".join(map(str, budgets.head(4))) + (", ..." if len(budgets) > 4 else "")
        notes.append(f"trees of different budgets ({named}) are pooled, and a wider tree accepts more: fit by budget")
    return tuple(notes)
