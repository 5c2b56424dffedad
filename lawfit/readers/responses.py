"""Responses of servers: one JSON object, an array, or JSON Lines, each holding the metrics of its sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lawfit.errors import LogFormatError
from lawfit.place import Place
from lawfit.readers.columns import unicode
from lawfit.readers.histogram import Row, cut_note, emitted, tokens_note
from lawfit.readers.record import Record
from lawfit.readers.table import load_records
from lawfit.words import counted

Response = Mapping[str, Any]


@dataclass(frozen=True)
class Block:
    """The acceptance metrics of one sequence.

    Attributes
    ----------
    record
        The metrics.
    keys
        What the response says of all its rounds, by column of the log: request, model.
    tokens
        Completion tokens of the sequence, where the response tells them.
    """

    record: Record
    keys: Mapping[str, str | None]
    tokens: int | None = None


class Made(NamedTuple):
    """The rows of a block, and how many of their rounds may be a whole short draft counted as a miss."""

    rows: list[Row]
    cut: int = 0


@dataclass(frozen=True)
class Blocks:
    """The rows of all blocks of a file, with their places and what is to be told of them."""

    rows: list[Row]
    place: Place
    notes: tuple[str, ...]


def read_blocks(
    path: Path, find: Callable[[Response, str], Iterator[Block]], make: Callable[[Block], Made], expected: str
) -> Blocks:
    """Make rows of every block that ``find`` yields for a response and its place; ``expected`` names the blocks.

    Raises
    ------
    LogFormatError
        The file is no JSON, or no block makes rows.
    """
    records, place = load_records(path)
    rows: list[Row] = []
    where: list[int] = []
    differences: list[int] = []
    cut = 0
    for number, values in enumerate(records):
        for block in find(values, place.of(number)):
            made = make(block)
            rows += [{**block.keys, **row} for row in made.rows]
            where += [number] * len(made.rows)
            cut += made.cut
            if made.rows and block.tokens is not None:
                differences.append(block.tokens - emitted(made.rows))
    if not rows:
        raise LogFormatError(f"{path}: no response has speculative steps, expected {expected}")
    notes = [*tokens_note(path, differences), *cut_note(path, cut, sum(row.get("count", 1) for row in rows))]
    if idle := sorted(set(range(len(records))) - set(where)):
        others = f" (so it is with {counted(len(idle) - 1, 'other')})" if len(idle) > 1 else ""
        notes.append(f"{place.of(idle[0])}: a response without speculative steps gives no rows{others}")
    lines = None if place.lines is None else [place.lines[number] for number in where]
    return Blocks(rows, Place(place.source, lines), tuple(notes))


def keys_of(response: Response, index: int = 0, count: int = 1) -> dict[str, str | None]:
    """Name the request, one of ``count`` sequences of it, and the model of a response."""
    request = text(response.get("id"))
    named = request if request is None or count == 1 else f"{request}/{index}"
    return {"request_id": named, "target": text(response.get("model"))}


def choices(response: Response) -> list[Mapping[str, Any]]:
    """List the choices of a response; none where it holds none."""
    found = response.get("choices")
    return [choice for choice in found if isinstance(choice, dict)] if isinstance(found, list) else []


def text(value: Any) -> str | None:
    """Take a name, if it is one."""
    return unicode(value) if isinstance(value, str) else None


def completion_tokens(response: Response, sequences: int = 1) -> int | None:
    """Take the completion tokens of a response with one sequence; of several they are a sum that cannot be split."""
    usage = response.get("usage")
    found = usage.get("completion_tokens") if isinstance(usage, dict) and sequences == 1 else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None
