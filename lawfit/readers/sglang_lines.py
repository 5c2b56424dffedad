"""SGLang's server log: ``Decode batch, #running-req: 8, ..., accept len: 2.47, accept rate: 0.49, ...``.

(``Decode batch.`` before November 2025.) ``accept len`` is a mean over the requests of a batch since the line before,
bonus in; the number of rounds is not there, and the rate has had two definitions. So it is reported, and never fitted.
"""

from __future__ import annotations

import re
from pathlib import Path

from lawfit.errors import LogFormatError
from lawfit.readers.given import Given
from lawfit.readers.glimpse import Glimpse
from lawfit.readers.lines import Line, find_lines
from lawfit.readers.sheet import Sheet
from lawfit.words import counted

_MARK = re.compile(r"Decode batch[.,]? .{0,40}#running-req")
_LENGTH = re.compile(r"accept len: (\d{1,9}(?:\.\d{1,9})?)")
_CURE = (
    "convert the responses instead: meta_info of /generate has spec_correct_drafts_histogram, and the OpenAI API has "
    "it with return_spec_tokens_details"
)


def recognise(glimpse: Glimpse) -> bool:
    """Tell whether a log has such lines."""
    return _MARK.search(glimpse.text) is not None


def read(path: Path, given: Given) -> Sheet:
    """Report what the lines say.

    Raises
    ------
    LogFormatError
        Always: the lines hold no rounds.
    """
    found = find_lines(path, _MARK, _length)
    lengths = [length for length in found.items if length is not None]
    if not lengths:
        raise LogFormatError(
            f"{path}: {counted(len(found.items), 'decode line')} of SGLang, none with an accept len: no speculation"
        )
    first = next(number for number, length in zip(found.numbers, found.items, strict=True) if length is not None)
    mean = sum(lengths) / len(lengths)
    raise LogFormatError(
        f"{counted(len(lengths), 'line')} of SGLang: accept len {min(lengths):.2f} to {max(lengths):.2f} (mean of the "
        f"lines {mean:.2f}, bonus included): each a mean over a batch without its number of rounds, which no law can "
        f"be fitted to; {_CURE} ({path}:{first})"
    )


def _length(line: Line) -> float | None:
    found = _LENGTH.search(line.text)
    return float(found[1]) if found else None
