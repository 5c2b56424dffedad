"""The ``proposals.jsonl`` of the public EAGLE3 experiment on vLLM: one JSON object per verified position.

The positions of a round end at its first rejection (``recovered``), or with a ``bonus`` record after all its
drafts; that record's ``pos_in_round`` is therefore the round's own horizon. Where all bonus records agree,
their position is taken as the horizon of every round; else a constant ``horizon`` must be given for the
rounds that ended in a rejection, of which the file shows no horizon.

One file is one request, named by its stem, unless its rows name several in ``batch``. The first token of the
answer, which the prompt's own pass gives, is not in the file: so ``output_position`` at position 0 counts the
tokens before the round's root. ``q`` is 1 for a greedy drafter, whatever its confidence: it is left out.

The files of the experiment hold one spurious round after the end of the text, the last. It is kept: fitting
with ``--last-round drop`` removes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl

from lawfit.errors import LogFormatError
from lawfit.place import Place
from lawfit.readers.given import Given
from lawfit.readers.glimpse import Glimpse
from lawfit.readers.record import Record
from lawfit.readers.sheet import Sheet
from lawfit.readers.table import load_records

_END = {"recovered": "rejection", "bonus": "bonus", "accepted_draft": "cut"}


@dataclass(frozen=True)
class _Round:
    """The records of one round, in order; ``line`` is the number of the first among the file's records."""

    records: tuple[Record, ...]
    line: int

    @property
    def first(self) -> Record:
        return self.records[0]

    @property
    def last(self) -> Record:
        return self.records[-1]

    @property
    def end(self) -> str:
        """Say how the round ended: rejection, bonus or cut."""
        return _END[str(self.last.values["emission_source"])]

    @property
    def batch(self) -> int:
        return _batch(self.first)

    @property
    def accept_len(self) -> int:
        return len(self.records) - (self.end != "cut")


def recognise(glimpse: Glimpse) -> bool:
    """Tell whether the first object is a position of this format."""
    return any({"pos_in_round", "output_position", "emission_source"} <= first.keys() for first in glimpse.records[:1])


def read(path: Path, given: Given) -> Sheet:
    """Gather the positions into rounds.

    Raises
    ------
    LogFormatError
        The positions do not form rounds, or no horizon is known.
    """
    records, place = load_records(path)
    rounds = list(_rounds([Record(values, place.of(k)) for k, values in enumerate(records)]))
    horizon, notes = _horizon(rounds, given, path)
    several = len({round_.batch for round_ in rounds}) > 1
    rows = []
    before: dict[int, _Round] = {}
    for round_ in rounds:
        name = f"{path.stem}/{round_.batch}" if several else path.stem
        rows.append({"request_id": name, **_row(round_, horizon, before.get(round_.batch))})
        before[round_.batch] = round_
    frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(
        engine=pl.lit("vLLM"), shape=pl.lit("chain"), budget="horizon"
    )
    if "prompt_id" not in given.constants:
        frame = frame.with_columns(prompt_id="request_id")
    if "request_id" in given.constants and not several:
        frame = frame.drop("request_id")
    lines = None if place.lines is None else [place.lines[round_.line] for round_ in rounds]
    last = f"{path}: kept the last round of each request, spurious in these files: fit with --last-round drop"
    return Sheet(frame, Place(place.source, lines), (*notes, last))


def _rounds(records: list[Record]) -> Iterator[_Round]:
    """Split the records where round or batch changes, and check each round."""
    line = 0
    for _, group in groupby(records, key=lambda record: (record.whole("round"), _batch(record))):
        members = tuple(group)
        for number, record in enumerate(members):
            position, source = record.whole("pos_in_round"), record.values.get("emission_source")
            if position != number:
                record.refuse("pos_in_round", position, str(number))
            expected = ("accepted_draft",) if record is not members[-1] else tuple(_END)
            if source not in expected:
                record.refuse("emission_source", source, " or ".join(expected))
        round_ = _Round(members, line)
        if round_.last.whole("consecutive_accepted_length") != round_.accept_len:
            found = round_.last.values["consecutive_accepted_length"]
            round_.last.refuse("consecutive_accepted_length", found, str(round_.accept_len))
        yield round_
        line += len(members)


def _batch(record: Record) -> int:
    return record.whole("batch") if "batch" in record.values else 0


def _horizon(rounds: list[_Round], given: Given, path: Path) -> tuple[int, tuple[str, ...]]:
    """Take the horizon of the rounds without a bonus record, and say whence."""
    shown = {round_.accept_len for round_ in rounds if round_.end == "bonus"}
    if "horizon" in given.constants:
        horizon = int(given.constants["horizon"])
        if shown and max(shown) > horizon:
            raise LogFormatError(f"{path}: --set horizon={horizon}, but a bonus record stands at {max(shown)}")
        return horizon, ()
    if len(shown) != 1:
        found = f"its bonus records show {sorted(shown)}" if shown else "it has no bonus record to show it"
        raise LogFormatError(f"{path}: the horizon is not in the file ({found}); give it, e.g. --set horizon=6")
    horizon = shown.pop()
    return horizon, (f"{path}: every bonus record stands at {horizon}: taken as the horizon of all rounds",)


def _row(round_: _Round, horizon: int, before: _Round | None) -> dict[str, Any]:
    drafts = round_.records[:-1] if round_.end == "bonus" else round_.records
    entropies = [record.real("draft_entropy") for record in drafts]
    position = round_.first.whole("output_position")
    # The root is the last token of the round before, drawn from the row of that position.
    follows = before is not None and before.last.whole("output_position") + 1 == position
    return {
        "round": round_.first.whole("round"),
        "position": position,
        "horizon": round_.accept_len if round_.end == "bonus" else horizon,
        "accept_len": round_.accept_len,
        "truncated": round_.end == "cut" and round_.accept_len < horizon,
        "root_entropy": round_.first.real("target_entropy"),
        "prev_entropy": before.last.real("target_entropy") if before is not None and follows else None,
        "draft_entropy": entropies[0] if entropies else None,
        "draft_entropies": entropies if entropies and None not in entropies else None,
    }
