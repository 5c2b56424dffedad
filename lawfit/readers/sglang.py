"""SGLang's responses: the speculative counts of a request, in any of its APIs and under any of its names.

They stand in ``meta_info`` of ``/generate`` (and of a choice, with ``return_meta_info``), or in
``sglext.spec_tokens_details`` of the OpenAI API (``return_spec_tokens_details``): one object, or one per choice.
The index of the histogram is the accepted drafts, bonus out; it grows with them, so that its length is no horizon.

The horizon is in none of them: the number of proposed drafts is the verified steps times the width last configured,
which is wrong where the step count adapts, and a tree's width is not its depth. It must be given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lawfit.errors import LogFormatError
from lawfit.readers.acceptance import LIMITS
from lawfit.readers.given import Given
from lawfit.readers.glimpse import Glimpse
from lawfit.readers.histogram import Stated, check_identities, read_counts, rows
from lawfit.readers.record import Record
from lawfit.readers.responses import Block, Made, Response, choices, completion_tokens, keys_of, read_blocks, text
from lawfit.readers.sheet import Sheet, gathered

# Newest first: since 0.5.12, 0.5.11, and before.
_ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
_HISTOGRAM = ("spec_correct_drafts_histogram", "spec_acceptance_histogram", "spec_accept_histogram")
_PROPOSED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
_STEPS = "spec_verify_ct"
_EXPECTED = f"{_STEPS} in meta_info, in sglext.spec_tokens_details or in choices[].meta_info"
_CAPS = "spec_cap_lens_histogram"


def recognise(glimpse: Glimpse) -> bool:
    """Tell whether the first responses hold SGLang's blocks, with speculation or without."""
    return any("meta_info" in first or any(_details(first)) for first in glimpse.records)


def read(path: Path, given: Given) -> Sheet:
    """Read the responses; ``given`` must hold the horizon.

    Raises
    ------
    LogFormatError
        No response has a histogram, its counts contradict each other, or no horizon is given.
    """
    found = read_blocks(path, _blocks, lambda block: _rows(block.record, given), _EXPECTED)
    notes = (
        f"{path}: horizon {given.constants['horizon']} is taken for every round; the histogram does not tell it, and "
        "where the step count adapts a round may have had less",
        f"{path}: histograms of whole requests, without the order of rounds; {LIMITS}",
    )
    return gathered(found.rows, found.place, (*found.notes, *notes), engine="SGLang")


def _details(response: Response) -> list[Mapping[str, Any]]:
    """List the blocks of a response, one per sequence."""
    if isinstance(meta := response.get("meta_info"), dict):
        return [meta]
    extension = response.get("sglext")
    details = extension.get("spec_tokens_details") if isinstance(extension, dict) else None
    if isinstance(details, dict):
        return [details]
    if isinstance(details, list):
        return [detail if isinstance(detail, dict) else {} for detail in details]
    metas = [choice.get("meta_info") for choice in choices(response)]
    return [meta if isinstance(meta, dict) else {} for meta in metas]


def _blocks(response: Response, where: str) -> Iterator[Block]:
    listed = _details(response)
    for index, detail in enumerate(listed):
        if _STEPS not in detail:
            continue
        record = Record(detail, where)
        own = record.whole("completion_tokens") if detail.get("completion_tokens") is not None else None
        keys = keys_of(response, index, len(listed))
        if (name := text(detail.get("id"))) is not None:
            keys["request_id"] = name
        yield Block(record, keys, completion_tokens(response, len(listed)) if own is None else own)


def _rows(block: Record, given: Given) -> Made:
    steps = Stated(_STEPS, block.whole(_STEPS))
    if not steps.value:
        return Made([])
    name = _known(block, _HISTOGRAM)
    if name is None:
        said = f"spec_accept_length {block.values.get('spec_accept_length')}, " if steps.value else ""
        raise LogFormatError(
            f"{said}{steps.value} steps, and no histogram ({', '.join(_HISTOGRAM)}): a mean holds no rounds; use an "
            f"SGLang that returns spec_correct_drafts_histogram ({block.where})"
        )
    counts = read_counts(block, name)
    correct = _known(block, _ACCEPTED)
    accepted = sum(length * count for length, count in counts.items()) if correct is None else block.whole(correct)
    check_identities(counts, name, block.where, steps, Stated(correct or "their sum", accepted))
    _check_caps(block)
    return Made(rows(counts, _horizon(block, given, counts, steps.value)))


def _known(block: Record, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if block.values.get(name) is not None), None)


def _horizon(block: Record, given: Given, counts: Mapping[int, int], steps: int) -> int:
    horizon = given.constants.get("horizon")
    if horizon is not None:
        return int(horizon)
    proposed = _known(block, _PROPOSED)
    hint = ""
    if proposed is not None and (number := block.whole(proposed)) % steps == 0:
        hint = (
            f" ({proposed} / {_STEPS} is {number // steps}: that, if the drafts are chains and the steps do not adapt)"
        )
    deepest = max((length for length, count in counts.items() if count), default=0)
    raise LogFormatError(
        f"the horizon is not in SGLang's histogram, which reaches {deepest}; give the number of speculative steps, "
        f"e.g. --set horizon={max(3, deepest)}{hint} ({block.where})"
    )


def _check_caps(block: Record) -> None:
    """Refuse a request whose verified lengths differed: the histogram does not say which round had which."""
    if block.values.get(_CAPS) is None:
        return
    lengths = [length for length, count in read_counts(block, _CAPS).items() if count]
    if len(lengths) > 1:
        raise LogFormatError(
            f"{_CAPS} shows verified lengths {lengths[0]} to {lengths[-1]}, and nothing says which round had which; "
            f"convert the server's dspark_info_record instead ({block.where})"
        )
