"""Lines with rates per position: each one a histogram of the rounds of a time window, or of a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lawfit.errors import LogFormatError
from lawfit.readers.histogram import Row, check_drafted, check_one_horizon, cut_note, rows
from lawfit.readers.lines import Found
from lawfit.readers.printed import Recovered, find_drafts, recover, slack_note
from lawfit.readers.sheet import Sheet, gathered


@dataclass(frozen=True)
class Print:
    """What a line prints.

    Attributes
    ----------
    rates
        Share of the drafts that accepted at least 1, 2, ... tokens, as printed.
    accepted, drafted
        Tokens.
    mean
        Mean acceptance length as printed, bonus in.
    drafts
        Number of drafts, where the line prints it.
    """

    rates: tuple[str, ...]
    accepted: int
    drafted: int
    mean: str | None = None
    drafts: int | None = None


@dataclass(frozen=True)
class Window:
    """The rounds that a line stands for; ``cut`` of them may be a whole short draft counted as a miss."""

    recovered: Recovered
    horizon: int
    cut: int
    keys: dict[str, Any]

    @property
    def drafts(self) -> int:
        """Count the rounds."""
        return sum(self.recovered.counts.values())


def make_window(said: Print, horizon: int, where: str, cure: str, **keys: Any) -> Window | None:
    """Recover the rounds of a line; None where nothing was drafted.

    Raises
    ------
    LogFormatError
        The line contradicts itself, or its drafts differ too much in length to share one horizon.
    """
    check_drafted(said.accepted, said.drafted, where)
    if not said.drafted:
        return None
    if not 1 <= len(said.rates) <= horizon:
        raise LogFormatError(f"{len(said.rates)} rates per position for a horizon of {horizon} ({where})")
    drafts = said.drafts
    if drafts is None:
        drafts = find_drafts(said.rates, said.mean, said.accepted, said.drafted, horizon, where)
    recovered = recover(said.rates, drafts, said.accepted, where)
    cut = check_one_horizon(recovered.counts, said.drafted, horizon, where, cure)
    return Window(recovered, horizon, cut, keys)


def window_sheet(path: Path, found: Found[Window | None], notes: Sequence[str], **same: str) -> Sheet:
    """Make the sheet of the lines that drafted anything.

    Raises
    ------
    LogFormatError
        No line did.
    """
    windows = [(number, window) for number, window in enumerate(found.items) if window is not None]
    made: list[Row] = []
    lines: list[int] = []
    for number, window in windows:
        drawn = rows(window.recovered.counts, window.horizon, **window.keys)
        made += drawn
        lines += [number] * len(drawn)
    drafts = sum(window.drafts for _, window in windows)
    told = [*found.notes, *slack_note(str(path), [window.recovered for _, window in windows])] if windows else ()
    cut = cut_note(path, sum(window.cut for _, window in windows), drafts)
    return gathered(made, found.place(path, lines), (*told, *cut, *notes), **same)
