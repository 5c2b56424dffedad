"""llama.cpp's adaptive drafts: ``adaptive draft depth seq 0: 7 -> 6 (n_draft=7, n_accepted=4, ...)``.

A line is a round: its drafted tokens are the horizon. But a line is printed where the depth *changed*, and it changes
by what was accepted: these rounds are chosen by their outcome. ``cur_generated`` counts all drafted tokens, and shows
how many the lines leave out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lawfit.errors import LogFormatError
from lawfit.readers.given import Given
from lawfit.readers.glimpse import Glimpse
from lawfit.readers.lines import Line, find_lines
from lawfit.readers.sheet import Sheet, gathered

_MARK = re.compile(r"adaptive draft depth seq")
_LINE = re.compile(r"adaptive draft depth seq (\d{1,9}): \d+ -> \d+ \(n_draft=(\d{1,9}), n_accepted=(\d{1,9})\b")
_GENERATED = re.compile(r"cur_generated=(\d{1,15})")


@dataclass(frozen=True)
class _Round:
    """A line: its sequence, what was drafted and accepted, and all that the sequence drafted so far."""

    sequence: str
    drafted: int
    accepted: int
    generated: int | None


def recognise(glimpse: Glimpse) -> bool:
    """Tell whether a log has such lines."""
    return _MARK.search(glimpse.text) is not None


def read(path: Path, given: Given) -> Sheet:
    """Read each line as a round of its sequence.

    Raises
    ------
    LogFormatError
        A line cannot be read, or accepts more than it drafted.
    """
    found = find_lines(path, _MARK, _round)
    rows = [
        {"request_id": f"seq {line.sequence}", "horizon": line.drafted, "accept_len": line.accepted}
        for line in found.items
    ]
    limits = f"{path}: sequences are slots, which requests share; no round numbers, no entropy, no prompt"
    notes = (*found.notes, _share(path, found.items), limits)
    return gathered(rows, found.place(path, range(len(rows))), notes, engine="llama.cpp", shape="chain")


def _round(line: Line) -> _Round:
    found = _LINE.search(line.text)
    if found is None:
        raise line.unreadable("an adaptive line of llama.cpp with n_draft and n_accepted")
    drafted, accepted = int(found[2]), int(found[3])
    if accepted > drafted:
        raise LogFormatError(f"n_accepted is {accepted} of n_draft {drafted} ({line.where})")
    total = _GENERATED.search(line.text)
    return _Round(found[1], drafted, accepted, int(total[1]) if total else None)


def _share(path: Path, rounds: Sequence[_Round]) -> str:
    """Say how much of the drafting the lines show."""
    chosen = "llama.cpp prints a round where it changed the depth, which depends on what was accepted: a law fitted to"
    seen = drawn = 0
    last: dict[str, int] = {}
    for line in rounds:
        if line.generated is not None:
            before = last.get(line.sequence)
            if before is not None and line.generated > before:
                seen, drawn = seen + line.drafted, drawn + line.generated - before
            last[line.sequence] = line.generated
    if drawn and seen == drawn:
        return f"{path}: cur_generated shows that every round between the lines is there"
    if drawn:
        return f"{path}: the lines show {seen} of {drawn} drafted tokens; {chosen} these rounds is biased"
    return f"{path}: {chosen} these rounds is biased unless every round is there"
