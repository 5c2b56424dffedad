"""Server logs: text in which lines of many kinds are mixed."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from lawfit.errors import LogFormatError
from lawfit.place import Place
from lawfit.readers.table import require_file
from lawfit.words import counted

T = TypeVar("T")

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SHOWN = 160  # characters of a line in a message
_BEFORE, _AFTER = 1_000, 4_000  # characters around the mark that are parsed
# What engines print ends with a share, a bracket or a unit, also within the JSON of a logger.
_WHOLE = re.compile(r"(?:%|\)|ms)[\"},\s]*$")


@dataclass(frozen=True)
class Line:
    """One line of a log, without its end and its colours; ``number`` is 1-based.

    ``cut`` says that the log breaks off in it.
    """

    text: str
    number: int
    path: Path
    cut: bool = False

    @property
    def where(self) -> str:
        """Name the line in a message."""
        return f"{self.path}:{self.number}"

    def unreadable(self, expected: str) -> LogFormatError:
        """Make the error that this line is not ``expected``."""
        return LogFormatError(f"{self.text.strip()[:_SHOWN]!r} is not {expected} ({self.where})")


@dataclass(frozen=True)
class Found(Generic[T]):
    """What was read from the lines of one kind.

    Attributes
    ----------
    items, numbers
        What each line said, and its line number.
    notes
        How many lines were read and skipped, and whether the last was cut.
    """

    items: tuple[T, ...]
    numbers: tuple[int, ...]
    notes: tuple[str, ...]

    def place(self, path: Path, rows_of: Sequence[int]) -> Place:
        """Place rows, given the item that each came from."""
        return Place(str(path), [self.numbers[item] for item in rows_of])


def decoded(path: Path) -> str:
    """Read text of any origin: a byte that is no UTF-8 becomes a mark, and PowerShell's UTF-16 is known by its start.

    Raises
    ------
    LogFormatError
        The file is absent, empty, a folder, or cannot be read.
    """
    require_file(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise LogFormatError(f"{path}: cannot be read ({error.strerror or error})") from error
    text = content.decode("utf-16" if content.startswith(_UTF16) else "utf-8-sig", "replace")
    return _ANSI.sub("", text) if "\x1b" in text else text


def find_lines(path: Path, mark: re.Pattern[str], parse: Callable[[Line], T]) -> Found[T]:
    """Parse every line that holds ``mark``, and skip the others.

    The last line of a log that was cut while it was written may be unreadable; that is a note.

    Raises
    ------
    LogFormatError
        A marked line that is not the last cannot be read, or none is left.
    """
    marked, total = _marked(path, mark)
    if not marked:
        raise LogFormatError(f"{path}: no line with {mark.pattern!r}")
    items, numbers, notes = [], [], []
    for line in marked:
        try:
            items.append(parse(line))
        except LogFormatError as error:
            if not line.cut or len(marked) == 1:
                raise
            notes.append(f"{line.where}: the last line is cut short and left out ({error})")
            continue
        numbers.append(line.number)
    told = (
        f"{path}: {counted(len(items), 'speculative line')} read, {counted(total - len(items), 'other line')} skipped"
    )
    return Found(tuple(items), tuple(numbers), (told, *notes))


def _marked(path: Path, mark: re.Pattern[str]) -> tuple[list[Line], int]:
    """List the lines with ``mark``, and count the lines with content."""
    lines = decoded(path).split("\n")
    found: list[Line] = []
    for number, text in enumerate(lines, 1):
        match = mark.search(text)
        if match is not None:
            part = text[max(0, match.start() - _BEFORE) : match.start() + _AFTER].rstrip("\r")
            cut = number == len(lines) and _WHOLE.search(text[-40:]) is None
            found.append(Line(part, number, path, cut))
    return found, sum(1 for text in lines if text.strip())
