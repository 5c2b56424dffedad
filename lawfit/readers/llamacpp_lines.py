"""llama.cpp's log: the draft statistics that a server prints after each request.

- Since June 2026 ``draft acceptance = 0.64 ( 167 accepted / 259 generated), mean acceptance length = 2.92, acceptance
  rate per position = (0.805, 0.632, 0.483)``: the rates are survival, over the request's verified drafts; the line is a
  histogram within the rounding of its digits. One line is one request.
- Later builds print the rates only in ``statistics ...: #gen drafts = 203, ..., #acc rate/pos = (0.847, 0.670)``, which
  counts since the server started: the last such line of each drafter is the histogram.
- Earlier lines (``draft acceptance rate = ...``, ``n_drafted / n_accept / accept``) are sums, and refused.

The horizon is the number of positions unless it is given. Drafts are shorter near the end of a request, and with
``--spec-draft-p-min``; where that may change the counts by more than a little the line is refused.
"""

from __future__ import annotations

import re
from pathlib import Path

from lawfit.errors import LogFormatError
from lawfit.readers.given import Given
from lawfit.readers.glimpse import Glimpse
from lawfit.readers.lines import Found, Line, find_lines
from lawfit.readers.sheet import Sheet
from lawfit.readers.windows import Print, Window, make_window, window_sheet
from lawfit.words import counted

_NUMBER = r"\d{1,9}(?:\.\d{1,12})?"
_RATES = rf"\(\s*({_NUMBER}(?:,\s*{_NUMBER})*)\s*\)"
_SUMS = re.compile(
    r"draft acceptance(?: rate)?\s*=[^(\n]{0,40}\(\s*(\d{1,15})\s+accepted\s*/\s*(\d{1,15})\s+generated\s*\)"
)
_MEAN = re.compile(rf"mean (?:acceptance length|len)\s*=\s*({_NUMBER})")
_PER_POSITION = re.compile(rf"acceptance rate per position\s*=\s*{_RATES}")
_TASK = re.compile(r"id\s+(\d+)\s*\|\s*task\s+(-?\d+)\s*\|")
_STATISTICS = re.compile(r"statistics\s+\S{1,60}:.{0,400}#acc rate/pos\s*=")
_TOTALS = re.compile(
    r"statistics\s+(?P<drafter>\S{1,60}):.{0,40}#calls\(b,g,a\)\s*=\s*\d+\s+\d+\s+(?P<drafts>\d{1,15}),"
    r".{0,200}#gen tokens\s*=\s*(?P<drafted>\d{1,15}),\s*#acc tokens\s*=\s*(?P<accepted>\d{1,15}),"
    rf".{{0,200}}#acc rate/pos\s*=\s*{_RATES}"
)
_MARK = re.compile(r"draft acceptance(?: rate)?\s*=")
_EXAMPLE = re.compile(r"\bn_(?:drafted|accept)\s*=\s*(\d{1,15})")
_CURE = "keep drafts at full length (--spec-draft-p-min 0), or log each round"
_NEWER = "use a llama.cpp of June 2026 or later, whose line has the acceptance rate per position"


def recognise(glimpse: Glimpse) -> bool:
    """Tell whether a log has such lines."""
    return any(mark.search(glimpse.text) for mark in (_MARK, _STATISTICS, _EXAMPLE))


def read(path: Path, given: Given) -> Sheet:
    """Read the lines of the requests, or else the server's last totals.

    Raises
    ------
    LogFormatError
        The lines are sums without positions, contradict themselves, or their drafts share no horizon.
    """
    horizon = given.constants.get("horizon")
    text = Glimpse(path).text
    if _PER_POSITION.search(text):
        found = find_lines(path, _MARK, lambda line: _request(line, horizon))
        limits = f"{path}: one line is one request, without the order of its rounds; no entropy, no prompt"
        return window_sheet(path, _renamed(found), (limits,), engine="llama.cpp", shape="chain")
    if _STATISTICS.search(text):
        totals = find_lines(path, _STATISTICS, lambda line: _totals(line, horizon))
        limits = f"{path}: totals since the server started, of each drafter the last: requests are pooled, no clusters"
        return window_sheet(path, _last(totals), (limits,), engine="llama.cpp", shape="chain")
    raise _sums(path)


def _request(line: Line, horizon: int | None) -> Window | None:
    sums, rates, mean = _SUMS.search(line.text), _PER_POSITION.search(line.text), _MEAN.search(line.text)
    if sums is None or (rates is None and sums[2] != "0"):
        raise line.unreadable("a line of llama.cpp's draft acceptance with rates per position")
    task = _TASK.search(line.text)
    printed = _split(rates[1]) if rates else ()
    said = Print(printed, int(sums[1]), int(sums[2]), mean[1] if mean else None)
    request = f"task {task[2]}" if task else f"line {line.number}"
    return make_window(said, horizon or len(printed), line.where, _CURE, request_id=request)


def _totals(line: Line, horizon: int | None) -> Window | None:
    found = _TOTALS.search(line.text)
    if found is None:
        raise line.unreadable("a statistics line of llama.cpp")
    printed = _split(found[5])
    said = Print(printed, int(found["accepted"]), int(found["drafted"]), None, int(found["drafts"]))
    return make_window(said, horizon or len(printed), line.where, _CURE, drafter=found["drafter"])


def _split(rates: str) -> tuple[str, ...]:
    return tuple(rate.strip() for rate in rates.split(","))


def _renamed(found: Found[Window | None]) -> Found[Window | None]:
    """Tell apart the tasks of one name: a server that was restarted counts them anew."""
    seen: dict[str, int] = {}
    for window in filter(None, found.items):
        name = window.keys["request_id"]
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            window.keys["request_id"] = f"{name} ({seen[name]})"
    return found


def _last(found: Found[Window | None]) -> Found[Window | None]:
    """Keep the last totals of each drafter.

    Raises
    ------
    LogFormatError
        They fell: the server was restarted, and the last would leave out what came before.
    """
    last: dict[str, int] = {}
    for number, window in enumerate(found.items):
        if window is None:
            continue
        drafter = window.keys["drafter"]
        before = found.items[last[drafter]] if drafter in last else None
        if before is not None and before.drafts > window.drafts:
            raise LogFormatError(
                f"the totals of {drafter} fell from {before.drafts} to {window.drafts} drafts at line "
                f"{found.numbers[number]}: the server was restarted; split the log there"
            )
        last[drafter] = number
    kept = sorted(last.values())
    return Found(tuple(found.items[k] for k in kept), tuple(found.numbers[k] for k in kept), found.notes)


def _sums(path: Path) -> LogFormatError:
    """Report the sums of lines without positions."""
    found = find_lines(path, re.compile(f"{_MARK.pattern}|{_EXAMPLE.pattern}"), _pair)
    totals = [sum(column) for column in zip(*found.items, strict=True)]
    return LogFormatError(
        f"{counted(len(found.items), 'line')} of llama.cpp: {totals[0]} tokens accepted of {totals[1]} drafted: sums "
        f"without the number of rounds, which no law can be fitted to; {_NEWER} ({path}:{found.numbers[0]})"
    )


def _pair(line: Line) -> tuple[int, int]:
    """Read accepted and drafted tokens; the speculative example prints each on a line of its own."""
    if sums := _SUMS.search(line.text):
        return int(sums[1]), int(sums[2])
    if number := _EXAMPLE.search(line.text):
        return (0, int(number[1])) if "n_drafted" in number[0] else (int(number[1]), 0)
    raise line.unreadable("a line of llama.cpp's draft acceptance")
