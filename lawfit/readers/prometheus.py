"""Prometheus counters of speculative decoding, as vLLM and llama.cpp expose them.

``..:spec_decode_num_drafts``, ``.._num_draft_tokens``, ``.._num_accepted_tokens`` and
``.._num_accepted_tokens_per_pos{position}``, with or without ``_total``: all whole numbers, so that the histogram
is exact. The accepted tokens at a position count the drafts that accepted at least that many.

Counters run since the server started. One scrape is all of that; of several scrapes, in one file or in several, the
difference of last and first is taken. JSON objects that hold the same names are scrapes too, and those under a key with
``delta`` in its name are differences already. vLLM V0 has no counter of drafts: refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from lawfit.errors import LogFormatError
from lawfit.place import Place
from lawfit.readers.exposition import ACCEPTED, DRAFTED, DRAFTS, NAME, Scrape, read_scrapes
from lawfit.readers.given import Given
from lawfit.readers.glimpse import Glimpse
from lawfit.readers.histogram import (
    Row,
    Stated,
    check_drafted,
    check_identities,
    check_one_horizon,
    cut_note,
    rows,
)
from lawfit.readers.sheet import Sheet, gathered

_ENGINES = {"vllm": "vLLM", "llamacpp": "llama.cpp"}
_CURE = "let the engine tell each round, as vLLM's --per-request-spec-decode-metrics detailed does"


def recognise(glimpse: Glimpse) -> bool:
    """Tell whether a scrape or a JSON file has such counters."""
    return NAME.search(glimpse.text) is not None


def read(path: Path, given: Given) -> Sheet:
    """Read one file; see `read_several`."""
    return read_several([path], given)


def read_several(paths: Sequence[Path], given: Given) -> Sheet:
    """Read the scrapes of all files, and take the difference where several are of one server.

    Raises
    ------
    LogFormatError
        There are no drafts, counters contradict each other or fell between two scrapes, or the drafts differ too
        much in length to share one horizon.
    """
    source = ", ".join(str(path) for path in paths)
    scrapes = [scrape for path in paths for scrape in read_scrapes(path)]
    if not scrapes:
        raise LogFormatError(f"{source}: no counter of speculative decoding")
    notes: list[str] = []
    made: list[Row] = []
    lines: list[int | None] = []
    spans = list(_spans(scrapes, notes))
    for number, span in enumerate(spans):
        run = {"run_id": f"{paths[0].stem}/{number}"} if len(spans) > 1 else {}
        target = dict(span.labels).get("model_name")
        drawn = _rows(span, given, notes)
        made += [{"engine": _ENGINES[span.engine], "target": target, **run, **row} for row in drawn]
        lines += [span.line] * len(drawn)
    notes += _repeats(source, spans)
    notes.append(f"{source}: counters pool all requests: no clusters, no order of rounds, no entropy, no prompt")
    known = [line for line in lines if line is not None]
    placed = known if len(paths) == 1 and len(known) == len(lines) else None
    return gathered(made, Place(source, placed), notes, shape="chain")


def _spans(scrapes: Sequence[Scrape], notes: list[str]) -> Iterator[Scrape]:
    """Yield what each server counted: between its first and last scrape, or since it started."""
    groups: dict[tuple[object, ...], list[Scrape]] = {}
    for number, scrape in enumerate(scrapes):
        alone = number if scrape.delta else None
        groups.setdefault((scrape.engine, scrape.labels, scrape.started, alone), []).append(scrape)
    for group in groups.values():
        last = group[-1]
        if len(group) > 1:
            steps = [_less(later, earlier) for earlier, later in pairwise(group)]
            for step in steps:
                _check_rose(step)
            notes.append(f"{last.where}: less the scrape at {group[0].where}")
            yield _less(last, group[0])
            continue
        if not last.delta:
            notes.append(f"{last.where}: one scrape: all drafts since the server started, warm-up included")
        yield last


def _less(later: Scrape, earlier: Scrape) -> Scrape:
    """Take the difference of two scrapes."""
    return replace(
        later,
        totals={name: value - earlier.totals.get(name, 0) for name, value in later.totals.items()},
        survivors={j: value - earlier.survivors.get(j, 0) for j, value in later.survivors.items()},
    )


def _check_rose(step: Scrape) -> None:
    fallen = min([*step.totals.values(), *step.survivors.values()])
    if fallen < 0:
        raise LogFormatError(
            f"a counter fell by {-fallen} between two scrapes: they are not in order, the server was restarted, or "
            f"these are two servers; convert the scrapes one by one ({step.where})"
        )


def _rows(span: Scrape, given: Given, notes: list[str]) -> list[Row]:
    """Make the rows of a server; none where it drafted nothing."""
    absent = [name for name in (DRAFTS, DRAFTED, ACCEPTED) if name not in span.totals]
    if absent or not span.survivors:
        missing = [*(f"num_{name}" for name in absent), *(() if span.survivors else ("num_accepted_tokens_per_pos",))]
        raise LogFormatError(
            f"no counter spec_decode_{' and no '.join(missing)}: sums without them hold no rounds (vLLM V0 has none); "
            f"scrape vLLM V1 or a llama.cpp of June 2026 or later ({span.where})"
        )
    if not span.totals[DRAFTED]:
        notes.append(f"{span.where}: nothing was drafted, no rows")
        return []
    counts = _counts(span)
    check_drafted(span.totals[ACCEPTED], span.totals[DRAFTED], span.where)
    horizon = int(given.constants.get("horizon", len(span.survivors)))
    cut = check_one_horizon(counts, span.totals[DRAFTED], horizon, span.where, _CURE)
    notes += cut_note(span.where, cut, span.totals[DRAFTS])
    return rows(counts, horizon)


def _counts(span: Scrape) -> dict[int, int]:
    """Take the differences of survivors as counts, after checking their order."""
    if sorted(span.survivors) != list(range(len(span.survivors))):
        raise LogFormatError(
            f"positions {sorted(span.survivors)}, expected 0 to {len(span.survivors) - 1} ({span.where})"
        )
    survivors = [span.totals[DRAFTS], *(span.survivors[j] for j in sorted(span.survivors)), 0]
    counts = {j: survivors[j] - survivors[j + 1] for j in range(len(survivors) - 1)}
    for j, count in counts.items():
        if count < 0:
            raise LogFormatError(
                f"{survivors[j + 1]} drafts accepted {j + 1} tokens, above the {survivors[j]} that got there "
                f"({span.where})"
            )
    drafts, accepted = Stated("num_drafts", survivors[0]), Stated("num_accepted_tokens", span.totals[ACCEPTED])
    check_identities(counts, "num_accepted_tokens_per_pos", span.where, drafts, accepted)
    return counts


def _repeats(source: str, spans: Sequence[Scrape]) -> list[str]:
    """Tell of spans with the very numbers of another: by chance, or a run that was repeated greedily."""
    seen = [(sorted(span.totals.items()), sorted(span.survivors.items())) for span in spans]
    again = sum(counters in seen[:number] for number, counters in enumerate(seen))
    if not again:
        return []
    return [
        f"{source}: {again} of {len(spans)} sets have the very numbers of another; all are kept as runs of their own. "
        "If that is one greedy run repeated, its rounds tell nothing new: convert one of them"
    ]
