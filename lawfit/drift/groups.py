"""Groups of a log in which a law may hold or not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from lawfit.arrays import Flags
from lawfit.errors import FitError
from lawfit.log import RoundLog
from lawfit.observations import LastRound, Observations, Signal, observe
from lawfit.schema import BY_NAME

KEYS: tuple[str, ...] = ("target", "drafter", "engine", "temperature", "task", "prompt_len", "precision")
"""Keys that a law is checked by, where a log has them. The last two are derived, the others columns of the log."""
NONE = "(none)"

_NAMES = r"fp32|fp16|bf16|nvfp4|mxfp4|fp8|fp4|int8|int4|nf4|awq|gptq|w\d+a\d+|i?q\d(?:_[a-z0-9]+)*"
_PRECISION = rf"(?i)(?:^|[^a-z0-9])({_NAMES})(?:$|[^a-z0-9])"


@dataclass(frozen=True, eq=False)
class Group:
    """Rows (n,) of the observations that share a value of a key."""

    key: str
    value: str
    rows: Flags


@dataclass(frozen=True, eq=False)
class Grouping:
    """Observations with the groups of their rows, and what could not be grouped."""

    observations: Observations
    groups: tuple[Group, ...]
    notes: tuple[str, ...]


def group(
    log: RoundLog,
    by: Sequence[str] | None = None,
    *,
    last_round: LastRound = "keep",
    signal: Signal = "root_entropy",
    needs_entropy: bool = True,
    bins: int = 4,
) -> Grouping:
    """Observe ``log`` once and tell which group each row belongs to.

    Parameters
    ----------
    log
        New rounds.
    by
        Keys: `KEYS`, or any column of the log that holds text or numbers; a column of more than twenty numbers is cut
        into bins. By default those of `KEYS` that take more than one value.
    last_round, signal
        See `lawfit.observations.observe`.
    needs_entropy
        Whether rounds without an entropy are left out.
    bins
        Quantile bins of long numeric keys.

    Raises
    ------
    FitError
        A key is not known.
    NotIdentified
        No round is left.
    """
    observations = observe(log, last_round=last_round, signal=signal)
    frame = log.frame[[] if observations.row is None else observations.row]
    if needs_entropy:
        known = observations.with_entropy()
        if observations.entropy is not None and len(known) < len(observations):
            frame = frame.filter(pl.Series(~np.isnan(observations.entropy)))
        observations = known
    groups: list[Group] = []
    notes: list[str] = []
    for key in KEYS if by is None else by:
        labels = _labels(frame, key, bins)
        values = labels.unique(maintain_order=True).to_list()
        if values == [NONE]:
            notes.append(_untold(key))
        elif len(values) == 1:
            notes.append(f"{key}: all rounds have {values[0]}: the same as all")
        else:
            groups += [Group(key, value, (labels == value).to_numpy()) for value in sorted(values, key=_natural)]
    return Grouping(observations, tuple(groups), (*observations.notes, *notes))


def _labels(frame: pl.DataFrame, key: str, bins: int) -> pl.Series:
    """Give each row the name of its group."""
    if key == "precision":
        named = [pl.col(column).str.extract(_PRECISION) for column in ("engine", "target")]
        return frame.select(pl.coalesce(named).str.to_lowercase().fill_null(NONE)).to_series()
    if key == "prompt_len":
        values = frame.select(pl.col("context_len") - pl.col("position")).to_series()
    elif key in BY_NAME and not BY_NAME[key].dtype.is_nested():
        values = frame[key]
    else:
        raise FitError(f"cannot check by {key!r}, expected one of {', '.join(KEYS)} or a plain column of the log")
    if values.dtype.is_numeric() and values.n_unique() > 20:
        return _binned(values, bins)
    return values.cast(pl.String).fill_null(NONE)


def _binned(values: pl.Series, bins: int) -> pl.Series:
    """Cut numbers at their quantiles, and name each bin by its ends."""
    known = values.drop_nulls()
    cuts = np.unique(np.quantile(known.to_numpy(), np.arange(1, bins) / bins))
    code = np.searchsorted(cuts, values.fill_null(known[0]).to_numpy(), side="left")
    ends = pl.DataFrame({"value": values, "code": code}).drop_nulls()
    table = ends.group_by("code").agg(low=pl.col("value").min(), high=pl.col("value").max())
    names = {row["code"]: f"{row['low']:g} to {row['high']:g}" for row in table.iter_rows(named=True)}
    empty = values.is_null().to_list()
    return pl.Series([NONE if null else names[int(c)] for c, null in zip(code, empty, strict=True)])


def _untold(key: str) -> str:
    if key == "precision":
        return "precision: neither engine nor target names one, and the round log has no column for it"
    if key == "prompt_len":
        return "prompt_len: needs context_len and position"
    return f"{key}: not logged"


def _natural(text: str) -> tuple[bool, float, str]:
    """Sort numbers as numbers, before words, and what has no name last."""
    found = re.match(r"-?\d+(\.\d+)?", text)
    return text == NONE, float(found.group()) if found else float("inf"), text
