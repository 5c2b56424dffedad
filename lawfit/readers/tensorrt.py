"""TensorRT-LLM's responses: ``choices[].speculative_decoding`` with a dense ``acceptance_histogram``.

By its place it differs from vLLM's block, and by its totals ``total_accepted_draft_tokens`` and ``total_draft_tokens``;
the bonus is out. ``num_spec_tokens`` is the horizon, null where the draft length is scheduled. There are no single
rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lawfit.readers.acceptance import LIMITS, Form, step_rows
from lawfit.readers.given import Given
from lawfit.readers.glimpse import Glimpse
from lawfit.readers.record import Record
from lawfit.readers.responses import Block, Response, choices, completion_tokens, keys_of, read_blocks
from lawfit.readers.sheet import Sheet, gathered

_BLOCK = "speculative_decoding"
_FORM = Form(
    "TensorRT-LLM's choices[].speculative_decoding",
    "total_accepted_draft_tokens",
    "total_draft_tokens",
    "run without a draft_len_schedule",
)


def recognise(glimpse: Glimpse) -> bool:
    """Tell whether a choice of the first responses has the block; vLLM's stands elsewhere, or under another name."""
    return any(_BLOCK in choice for first in glimpse.records for choice in choices(first))


def read(path: Path, given: Given) -> Sheet:
    """Read the responses; a constant ``horizon`` serves blocks without ``num_spec_tokens``.

    Raises
    ------
    LogFormatError
        No response has the block, its counts contradict each other, or its horizon is not known.
    """
    found = read_blocks(path, _blocks, lambda block: step_rows(block.record, _FORM, given), _FORM.name)
    notes = (*found.notes, f"{path}: histograms of whole requests, without the order of rounds; {LIMITS}")
    return gathered(found.rows, found.place, notes, engine="TensorRT-LLM")


def _blocks(response: Response, where: str) -> Iterator[Block]:
    listed = choices(response)
    tokens = completion_tokens(response, len(listed))
    for index, choice in enumerate(listed):
        if isinstance(block := choice.get(_BLOCK), dict):
            yield Block(Record(block, where), keys_of(response, index, len(listed)), tokens)
