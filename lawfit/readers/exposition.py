"""Counters of speculative decoding in Prometheus' text, or under the same names in JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lawfit.errors import LogFormatError
from lawfit.readers.glimpse import Glimpse
from lawfit.readers.lines import decoded
from lawfit.readers.table import load_records
from lawfit.readers.walk import objects

NAME = re.compile(r"(?:vllm|llamacpp):spec_decode_num_\w+")
DRAFTS, DRAFTED, ACCEPTED = "drafts", "draft_tokens", "accepted_tokens"
_SAMPLE = re.compile(
    r"\s*(?P<engine>vllm|llamacpp):spec_decode_num_(?P<name>accepted_tokens_per_pos|accepted_tokens|draft_tokens|drafts)"
    r'(?P<kind>_total|_created)?(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?\s+(?P<value>\S+)(?:\s+\S+)?\s*'
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_POSITION = "position"
_MOST = 2**53  # whole numbers beyond it are not exact in a float


@dataclass(frozen=True)
class Scrape:
    """The counters of one engine at one time.

    Attributes
    ----------
    engine, labels
        Prefix and labels, by which two scrapes are known to be of one server.
    where, line
        Place of the first counter, and its line in a text file.
    totals
        Drafts, drafted and accepted tokens.
    survivors
        Drafts that accepted more than j tokens, by position j.
    started
        When the engine made the counters, where it says so.
    delta
        Whether they are a difference already.
    """

    engine: str
    labels: tuple[tuple[str, str], ...]
    where: str
    line: int | None
    totals: Mapping[str, int]
    survivors: Mapping[int, int]
    started: str | None
    delta: bool


class _Text(NamedTuple):
    """One line of counters and its place."""

    text: str
    where: str
    line: int | None = None


def read_scrapes(path: Path) -> list[Scrape]:
    """Read all scrapes of a file: a counter that recurs starts the next one.

    Raises
    ------
    LogFormatError
        A counter or a position is no whole number >= 0.
    """
    if not Glimpse(path).records:
        lines = enumerate(decoded(path).split("\n"), 1)
        return list(
            _split([_Text(text, f"{path}:{number}", number) for number, text in lines if "spec_decode" in text])
        )
    records, place = load_records(path)
    found: list[Scrape] = []
    for number, values in enumerate(records):
        for name, item in objects(values):
            texts = [_Text(f"{key} {value}", f"{place.of(number)}{name}") for key, value in item.items()]
            found += _split(texts, "delta" in name.rpartition(".")[2])
    return found


def _split(texts: Iterable[_Text], delta: bool = False) -> Iterator[Scrape]:
    """Gather samples into scrapes, one for each engine and time."""
    Key = tuple[str, tuple[tuple[str, str], ...]]
    values: dict[Key, dict[str | int, int]] = {}
    first: dict[Key, _Text] = {}
    started: dict[Key, str] = {}

    def closed(key: Key) -> Scrape:
        held = values.pop(key)
        totals = {name: value for name, value in held.items() if isinstance(name, str)}
        survivors = {name: value for name, value in held.items() if isinstance(name, int)}
        at = first.pop(key)
        return Scrape(*key, at.where, at.line, totals, survivors, started.pop(key, None), delta)

    for text in texts:
        sample = _SAMPLE.fullmatch(text.text)
        if sample is None:
            continue
        labels = dict(_LABEL.findall(sample["labels"] or ""))
        series = _position(labels, text) if sample["name"].endswith("_pos") else sample["name"]
        key = (sample["engine"], tuple(sorted(labels.items())))
        if sample["kind"] == "_created":
            started.setdefault(key, sample["value"])
            continue
        if series in values.get(key, ()):
            yield closed(key)
        values.setdefault(key, {})[series] = _whole(sample["value"], text)
        first.setdefault(key, text)
    for key in list(values):
        yield closed(key)


def _position(labels: dict[str, str], text: _Text) -> int:
    """Take the position out of the labels."""
    position = labels.pop(_POSITION, "")
    if not (position.isascii() and position.isdecimal() and len(position) < 6):
        raise LogFormatError(f"position is {position!r}, expected 0, 1, ... ({text.where})")
    return int(position)


def _whole(value: str, text: _Text) -> int:
    try:
        number = float(value)
        if 0 <= number < _MOST and number.is_integer():
            return int(number)
    except ValueError:
        pass
    raise LogFormatError(f"a counter is {value[:40]!r}, expected a whole number >= 0 ({text.where})")
