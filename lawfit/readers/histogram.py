"""Rounds by accepted length: the identities that they must meet, and the rows that they make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lawfit.errors import LogFormatError
from lawfit.readers.record import Record
from lawfit.words import counted

Counts = Mapping[int, int]
Row = dict[str, Any]

# Of all rounds, the share that may be a cut draft counted as a miss where nothing tells which drafts were cut.
MOST_CUT = 0.05


class Stated(NamedTuple):
    """A total as the file states it, under the file's own name."""

    name: str
    value: int


def read_counts(block: Record, name: str) -> dict[int, int]:
    """Read a histogram over accepted lengths 0, 1, ...: a list, or a map that may leave out zeros.

    Raises
    ------
    LogFormatError
        A key is no accepted length, or a count no whole number.
    """
    found = block.values.get(name)
    if not isinstance(found, dict):
        return dict(enumerate(block.wholes(name)))
    if not all(key.isascii() and key.isdecimal() and len(key) < 10 for key in found):
        block.refuse(name, found, "accepted lengths as keys")
    counts = Record(found, block.where)
    read: dict[int, int] = {}
    for key in found:
        read[int(key)] = read.get(int(key), 0) + counts.whole(key)
    return read


def check_identities(counts: Counts, name: str, where: str, steps: Stated, accepted: Stated) -> None:
    """Check that the counts sum to the steps, and weighted by their lengths to the accepted drafts.

    Raises
    ------
    LogFormatError
        A sum differs from what the file states; the message gives both.
    """
    for what, found, stated in (
        ("sums to", sum(counts.values()), steps),
        ("accepts", sum(length * count for length, count in counts.items()), accepted),
    ):
        if found != stated.value:
            raise LogFormatError(f"{name} {what} {found}, {stated.name} is {stated.value} ({where})")


def check_drafted(accepted: int, drafted: int, where: str) -> None:
    """Check that no more was accepted than drafted."""
    if accepted > drafted:
        raise LogFormatError(f"{accepted} draft tokens accepted of {drafted} drafted ({where})")


def cut_bound(counts: Counts, undrafted: int, horizon: int) -> int:
    """Bound the rounds whose draft may have ended right where they did, so that their stop was no miss.

    A round that accepted ``a`` of a draft cut to ``a`` tokens leaves ``horizon - a`` undrafted. The most such rounds
    fit into ``undrafted`` tokens where the longest go first. A draft holds one token at least, so none is at a = 0.
    """
    cut = 0
    for length in sorted(counts, reverse=True):
        if 0 < length < horizon:
            rounds = min(counts[length], undrafted // (horizon - length))
            cut += rounds
            undrafted -= rounds * (horizon - length)
    return cut


def check_one_horizon(
    counts: Counts, drafted: int, horizon: int, where: str, cure: str, most_cut: float = MOST_CUT
) -> int:
    """Check that one horizon can stand for all drafts, and give the bound of `cut_bound`.

    Raises
    ------
    LogFormatError
        More was drafted than the horizon allows, or more than the share ``most_cut`` of the rounds may have had a
        shorter draft that they accepted whole; ``cure`` says what to do about it.
    """
    steps = sum(counts.values())
    undrafted = steps * horizon - drafted
    if undrafted < 0:
        raise LogFormatError(f"{drafted} tokens drafted in {steps} steps of at most {horizon} ({where})")
    cut = cut_bound(counts, undrafted, horizon)
    if cut > most_cut * steps:
        raise LogFormatError(
            f"{drafted} tokens drafted in {steps} steps, not {horizon} in each: up to {counted(cut, 'round')} may have "
            f"accepted a shorter draft whole, and nothing says which; {cure} ({where})"
        )
    return cut


def cut_note(source: Path | str, cut: int, steps: int) -> list[str]:
    """Word the bound of `check_one_horizon`, where there is one to word."""
    if not cut:
        return []
    return [
        f"{source}: some drafts were shorter than the horizon and nothing says which: at most {cut} of "
        f"{counted(steps, 'round')} may be a whole short draft counted as a miss"
    ]


def rows(counts: Counts, horizon: int, **keys: Any) -> list[Row]:
    """Make one row, with its ``count``, per accepted length that occurred."""
    return [
        {**keys, "horizon": horizon, "accept_len": length, "count": count}
        for length, count in sorted(counts.items())
        if count
    ]


def emitted(drawn: Iterable[Row]) -> int:
    """Count the tokens that the rows emit: accept_len + 1 a round."""
    return sum((row["accept_len"] + 1) * row.get("count", 1) for row in drawn)


def tokens_note(path: Path, differences: Sequence[int]) -> list[str]:
    """Word how the tokens of the requests differ from those of their rounds, which shows the last-round convention."""
    if not differences:
        return []
    low, high = min(differences), max(differences)
    if low == high == 0:
        found = "equal the tokens of"
    else:
        span = f"{low:+d}" if low == high else f"{low:+d} to {high:+d}"
        found = f"differ by {span} tokens (completion less rounds) from"
    meaning = []
    if high > 0:
        meaning.append("more: tokens of the prompt's own pass and of steps without a draft")
    if low < 0:
        meaning.append("fewer: the last round was cut after it was counted")
    said = f"; {'; '.join(meaning)}" if meaning else ""
    return [f"{path}: the sums of accept_len + 1 {found} {counted(len(differences), 'request')}{said}"]
