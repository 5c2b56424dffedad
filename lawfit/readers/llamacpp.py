"""llama.cpp's responses: ``timings`` with ``draft_n``, ``draft_n_accepted`` and ``predicted_n``.

They are sums of a request: the steps are ``predicted_n - draft_n_accepted``, and there is neither histogram nor
horizon. So they are reported, and never fitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lawfit.errors import LogFormatError
from lawfit.readers.given import Given
from lawfit.readers.glimpse import Glimpse
from lawfit.readers.record import Record
from lawfit.readers.sheet import Sheet
from lawfit.readers.table import load_records
from lawfit.readers.walk import objects
from lawfit.words import counted

_DRAFTED, _ACCEPTED, _PREDICTED = "draft_n", "draft_n_accepted", "predicted_n"
_CURE = (
    "convert the server's log instead: since June 2026 its 'draft acceptance' line has the acceptance rate per position"
)


def recognise(glimpse: Glimpse) -> bool:
    """Tell whether such sums stand anywhere in the first objects, or timings without them."""
    return any(_ACCEPTED in found or _PREDICTED in found for first in glimpse.records for _, found in objects(first))


def read(path: Path, given: Given) -> Sheet:
    """Report what the sums say.

    Raises
    ------
    LogFormatError
        Always: sums hold no rounds.
    """
    records, place = load_records(path)
    blocks = [block for number, values in enumerate(records) for block in _timings(values, place.of(number))]
    if not blocks:
        raise LogFormatError(f"{path}: timings of llama.cpp without draft_n: no speculation")
    drafted, accepted = (sum(block.whole(name) for block in blocks) for name in (_DRAFTED, _ACCEPTED))
    steps = [_steps(block) for block in blocks]
    total = sum(number for number in steps if number is not None)
    known = total and None not in steps
    mean = f", {accepted / total:.4f} accepted a step (bonus excluded) over {counted(total, 'step')}" if known else ""
    raise LogFormatError(
        f"{counted(len(blocks), 'request')} of llama.cpp: {accepted} tokens accepted of {drafted} drafted{mean}: sums "
        f"without a histogram, which no law can be fitted to; {_CURE} ({blocks[0].where})"
    )


def _timings(values: Any, where: str) -> Iterator[Record]:
    """Yield the sums of requests that speculated."""
    for name, found in objects(values):
        if found.get(_DRAFTED) is not None and found.get(_ACCEPTED) is not None:
            yield Record(found, f"{where}{name}")


def _steps(block: Record) -> int | None:
    """Count the steps of a request after checking its sums; None where its tokens are not told."""
    drafted, accepted = block.whole(_DRAFTED), block.whole(_ACCEPTED)
    if accepted > drafted:
        raise LogFormatError(f"{accepted} draft tokens accepted of {drafted} drafted ({block.where})")
    if block.values.get(_PREDICTED) is None:
        return None
    predicted = block.whole(_PREDICTED)
    if predicted < accepted:
        raise LogFormatError(f"{_PREDICTED} is {predicted}, below {_ACCEPTED} {accepted} ({block.where})")
    return predicted - accepted
