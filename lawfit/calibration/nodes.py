"""The node table: every drafted token, whether verification reached it, and whether it was accepted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from lawfit.arrays import Flags, Floats, Ints
from lawfit.errors import LogFormatError, NotIdentified
from lawfit.keys import PROMPT, REQUEST
from lawfit.log import RoundLog
from lawfit.trace import CANDIDATES, Trace

_OF_ROUND = ("prev_entropy", "draft_entropy", "prompt", "task", "request", "position", "weight")
COLUMNS: tuple[str, ...] = (
    "round_row",
    "parent",
    "depth",
    "rank",
    "draft_logprob",
    "on_spine",
    "below_spine",
    "reached",
    "accepted",
    *_OF_ROUND,
)


@dataclass(frozen=True, eq=False)
class NodeTable:
    """Drafted nodes, root excluded, round by round.

    Attributes
    ----------
    frame
        ``round_row`` (row of the log), ``parent`` (0 is the root, k the round's k-th node), ``depth`` (1-based),
        ``rank`` (0-based among its siblings), ``draft_logprob`` (conditional, nats), ``on_spine`` (on the drafter's
        top-1 path), ``below_spine`` (its parent is the root or on that path), ``reached`` (its parent was accepted, and
        what followed was seen), ``accepted``. Of its round: ``prev_entropy`` and ``draft_entropy`` (nats, nullable),
        ``prompt``, ``task``, ``request`` and ``position`` (nullable), and ``weight`` (rounds that the row stands for).
    source
        Where the rows came from.
    """

    frame: pl.DataFrame
    source: str = "nodes"

    def __len__(self) -> int:
        """Count the nodes."""
        return self.frame.height

    @property
    def accepted(self) -> Floats:
        """(n,) 1 where the node was accepted, else 0."""
        return self.frame["accepted"].cast(pl.Float64).to_numpy()

    @property
    def weight(self) -> Floats:
        """(n,) rounds that each node's round stands for."""
        return self.frame["weight"].cast(pl.Float64).to_numpy()

    @property
    def draft_prob(self) -> Floats:
        """(n,) the draft's own conditional probability."""
        return np.asarray(np.exp(self.frame["draft_logprob"].to_numpy()))

    @property
    def cluster(self) -> Ints | None:
        """(n,) number of each node's prompt; ``None`` where some node names none."""
        prompt = self.frame["prompt"]
        # By name, not by appearance: draws of prompts must not change with the order of rows.
        return None if prompt.null_count() else prompt.rank("dense").cast(pl.Int64).to_numpy() - 1

    @property
    def siblings(self) -> Ints:
        """(n,) number of each node's family: nodes of one round with one parent."""
        return dense(self.frame.select(pl.struct("round_row", "parent")).to_series())

    @property
    def overlap(self) -> Floats:
        """(n,) families that were tested against the same output token as each node; 1 where that is not known.

        In a round log every output token is tested once, in a trace once for each position whose draft came so far:
        those tests are nearly one and the same.
        """
        token = pl.struct("request", pl.col("position") + pl.col("depth"))
        families = pl.struct("round_row", "parent").n_unique().over(token)
        known = pl.col("request").is_not_null() & pl.col("position").is_not_null()
        return self.frame.select(pl.when(known).then(families).otherwise(1).cast(pl.Float64)).to_series().to_numpy()

    def take(self, rows: Flags) -> NodeTable:
        """Keep the nodes flagged in ``rows`` (n,)."""
        return NodeTable(self.frame.filter(pl.Series(rows)), self.source)

    def at_risk(self) -> NodeTable:
        """Keep the nodes that were reached: only their outcomes are conditional acceptances.

        Raises
        ------
        NotIdentified
            None was reached.
        """
        seen = NodeTable(self.frame.filter("reached"), self.source)
        if not len(seen):
            raise NotIdentified(f"{self.source}: no drafted node was reached, so that nothing can be calibrated")
        return seen


def dense(keys: pl.Series) -> Ints:
    """Give equal keys one number: 0, 1, ... in order of appearance."""
    frame = keys.to_frame("key")
    numbers = frame.unique(maintain_order=True).with_row_index("number")
    joined = frame.join(numbers, on="key", how="left", nulls_equal=True, maintain_order="left")
    return joined["number"].cast(pl.Int64).to_numpy()


def trace_nodes(trace: Trace) -> NodeTable:
    """List every candidate of a trace.

    A node was reached if its parent is the root or on the target's path. Where the output ended with the accepted run,
    what would have followed was not seen, and the nodes there count as not reached.

    Raises
    ------
    LogFormatError
        A candidate's parent does not come before it, is not one offset above it, or is off the path that it is on.
    """
    rounds = _of_rounds(trace.frame).filter(pl.col("parent").list.len() > 0)
    lengths = rounds["parent"].list.len().to_numpy().astype(np.int64)
    nodes = rounds.explode(*CANDIDATES)
    start = np.repeat(np.cumsum(lengths) - lengths, lengths)
    parent, depth = nodes["parent"].to_numpy(), nodes["depth"].to_numpy()
    above = np.where(parent > 0, start + parent - 1, -1)
    _check_candidates(nodes, above, parent, depth, start)
    on_path, rank = nodes["on_path"].to_numpy(), nodes["rank"].to_numpy()
    spine = _on_spine(above, depth, rank)
    reached = _above(on_path, above) & ~(nodes["cut"].to_numpy() & (depth == nodes["accept_len"].to_numpy() + 1))
    frame = nodes.rename({"on_path": "accepted"}).with_columns(
        pl.Series("on_spine", spine),
        pl.Series("below_spine", _above(spine, above)),
        pl.Series("reached", reached),
    )
    return NodeTable(frame.select(COLUMNS), "trace")


def spine_nodes(log: RoundLog) -> NodeTable:
    """List the drafted tokens along the top-1 path of each round of a log that holds ``draft_logprobs``.

    Branches are not in a round log: their nodes need a trace.

    Raises
    ------
    NotIdentified
        No row holds ``draft_logprobs`` with ``spine_len`` (or a chain's ``accept_len``).
    """
    run = pl.coalesce(pl.col("spine_len"), pl.when(pl.col("shape") == "chain").then(pl.col("accept_len")))
    length = pl.col("draft_logprobs").list.len()
    rounds = _of_rounds(log.frame).with_columns(run.alias("run")).filter(pl.col("run").is_not_null() & (length > 0))
    if rounds.is_empty():
        raise NotIdentified(f"{log.source}: no row holds draft_logprobs and spine_len, which calibration needs")
    # A run cut by the end of the request is cut at accept_len: a spine that left the path earlier did miss.
    cut = pl.col("cut") & (pl.col("run") == pl.col("accept_len"))
    frame = (
        rounds.with_columns(pl.int_ranges(1, length + 1).alias("depth"), cut)
        .explode("draft_logprobs", "depth")
        .with_columns(
            pl.col("draft_logprobs").alias("draft_logprob"),
            (pl.col("depth") - 1).alias("parent"),
            pl.lit(0, pl.Int64).alias("rank"),
            pl.lit(True).alias("on_spine"),
            pl.lit(True).alias("below_spine"),
            (pl.col("depth") <= pl.col("run") + (~pl.col("cut")).cast(pl.Int64)).alias("reached"),
            (pl.col("depth") <= pl.col("run")).alias("accepted"),
        )
    )
    return NodeTable(frame.select(COLUMNS), log.source)


def _of_rounds(frame: pl.DataFrame) -> pl.DataFrame:
    """Add what nodes take from their round: its row, names, weight, and whether the end of its request cut it."""
    return frame.with_columns(
        pl.int_range(pl.len()).alias("round_row"),
        PROMPT.alias("prompt"),
        REQUEST.alias("request"),
        pl.col("count").alias("weight"),
        pl.col("truncated").fill_null(False).alias("cut"),
    )


def _check_candidates(nodes: pl.DataFrame, above: Ints, parent: Ints, depth: Ints, start: Ints) -> None:
    """Refuse candidates that are no tree in the order of a trace."""
    own = np.arange(len(parent)) - start + 1
    early = (parent >= 0) & (parent < own)
    parent_depth = np.where(parent > 0, depth[np.where(early, above, 0)], 0)
    path = nodes["on_path"].to_numpy()
    orphan = path & ~_above(path, np.where(early, above, -1))
    wrong = ~early | (depth != parent_depth + 1) | orphan | (nodes["rank"].to_numpy() < 0)
    wrong |= ~(nodes["draft_logprob"].to_numpy() <= 1e-6)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        shown = nodes.select(*CANDIDATES).row(at, named=True)
        raise LogFormatError(
            f"candidate {int(own[at])} of trace row {nodes['round_row'][at]} is {shown}, expected a parent before it,"
            " one offset above it and on the path if it is itself, a rank >= 0 and a log-probability <= 0"
        )


def _on_spine(above: Ints, depth: Ints, rank: Ints) -> Flags:
    """Flag the first children all the way from the root."""
    spine = np.zeros(len(above), dtype=np.bool_)
    for level in range(1, int(depth.max(initial=0)) + 1):
        here = np.flatnonzero((depth == level) & (rank == 0))
        spine[here] = _above(spine, above[here])
    return spine


def _above(flags: Flags, above: Ints) -> Flags:
    """Give each node its parent's flag; the root's is set."""
    return np.where(above >= 0, flags[np.maximum(above, 0)], True)
