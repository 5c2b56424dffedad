"""vLLM's server log: the lines ``SpecDecoding metrics:`` of V1, and ``Speculative metrics:`` of V0.

A V1 line sums some ten seconds over all requests. Its ``Per-position acceptance rate`` is the share of drafts that
accepted at least j tokens, so that with the accepted and drafted tokens it is a histogram within the rounding of its
digits. The number of positions is the horizon. Requests cannot be told apart.

Two kinds of lines are refused, with what they say: earlier V1 lines, which have no rates per position, and those of V0,
whose acceptance rate counts tokens that were accepted after the first miss.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NoReturn

from lawfit.errors import LogFormatError
from lawfit.readers.given import Given
from lawfit.readers.glimpse import Glimpse
from lawfit.readers.lines import Line, find_lines
from lawfit.readers.sheet import Sheet
from lawfit.readers.vllm import FLAG
from lawfit.readers.windows import Print, Window, make_window, window_sheet

_V1 = re.compile("SpecDecoding metrics:")
_V0 = re.compile("Speculative metrics:")
_ANY = re.compile(f"{_V1.pattern}|{_V0.pattern}")
_NUMBER = r"\d{1,9}(?:\.\d{1,12})?"
_MEAN = re.compile(rf"Mean acceptance length: ({_NUMBER}|nan)")
_RATES = re.compile(rf"Per-position acceptance rate: ((?:{_NUMBER}|nan)(?:, (?:{_NUMBER}|nan))*)(?![\d.])")
_ACCEPTED = re.compile(r"Accepted: (\d{1,15}) tokens")
_DRAFTED = re.compile(r"Drafted: (\d{1,15}) tokens")
_PROCESS = re.compile(r"pid=(\d+)")
_CURE = f"start vLLM with {FLAG} and convert its responses"


def recognise(glimpse: Glimpse) -> bool:
    """Tell whether a log has such lines."""
    return _ANY.search(glimpse.text) is not None


def read(path: Path, given: Given) -> Sheet:
    """Read every line of V1; processes of one log, told by their pid, are runs.

    Raises
    ------
    LogFormatError
        A line contradicts itself or has no rates per position, or the lines are V0's.
    """
    found = find_lines(path, _ANY, _window)
    runs = {window.keys["run_id"] for window in found.items if window is not None}
    if len(runs) < 2:
        for window in filter(None, found.items):
            del window.keys["run_id"]
    idle = sum(window is None for window in found.items)
    notes = [f"{path}: {idle} windows without a draft give no rows"] if idle else []
    limits = f"{path}: requests are pooled in a window: no clusters, no order of rounds, no entropy, no prompt"
    return window_sheet(path, found, (*notes, limits), engine="vLLM", shape="chain")


def _window(line: Line) -> Window | None:
    if _V1.search(line.text) is None:
        _refuse_v0(line)
    accepted, drafted = _ACCEPTED.search(line.text), _DRAFTED.search(line.text)
    if accepted is None or drafted is None:
        raise line.unreadable("a line of vLLM's metrics with accepted and drafted tokens")
    rates = _RATES.search(line.text)
    if rates is None:
        raise LogFormatError(
            f"a line without rates per position holds sums only, {accepted[1]} tokens accepted of {drafted[1]}, and no "
            f"rounds; {_CURE}, or use a newer vLLM ({line.where})"
        )
    mean = _MEAN.search(line.text)
    said = Print(
        tuple(rates[1].split(", ")), int(accepted[1]), int(drafted[1]), mean[1] if mean and mean[1] != "nan" else None
    )
    if said.drafted and "nan" in said.rates:
        raise line.unreadable("a line with numbers as rates")
    process = _PROCESS.search(line.text)
    run = f"{line.path.stem}/pid {process[1]}" if process else None
    return make_window(said, len(said.rates), line.where, _CURE, run_id=run)


def _refuse_v0(line: Line) -> NoReturn:
    numbers = dict(re.findall(rf"([A-Z][a-z A-Z]+): ({_NUMBER})", line.text))
    said = ", ".join(f"{name} {value}" for name, value in numbers.items()) or "no numbers"
    raise LogFormatError(
        f"vLLM V0's acceptance rate counts tokens accepted after the first miss too, and its sums hold no rounds "
        f"({said}); no accepted lengths can be had from it; use the V1 engine: {_CURE} ({line.where})"
    )
