"""vLLM's responses with per-request acceptance metrics: one JSON response, an array, or JSON Lines of them.

The server must run with ``--per-request-spec-decode-metrics detailed`` (or ``summary``); the block is then
``metrics.speculative_decoding`` of the response. Its counts exclude the bonus token.

- ``detailed`` gives ``per_step_accepted`` and ``per_step_drafted``: one row per step, the drafted count being
  that step's horizon.
- ``summary`` gives the histogram alone: one row, with its ``count``, per accepted length. That needs one
  horizon for all steps: ``num_spec_tokens``, if every step drafted so many.
- An earlier form of the same feature is ``choices[].speculative_decoding_stats``, its histogram a map without
  the zeros.

Responses name neither prompt nor entropy; the request is the response's ``id``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lawfit.errors import LogFormatError
from lawfit.readers.acceptance import LIMITS, Form, step_rows
from lawfit.readers.given import Given
from lawfit.readers.glimpse import Glimpse
from lawfit.readers.record import Record
from lawfit.readers.responses import Block, Response, choices, completion_tokens, keys_of, read_blocks
from lawfit.readers.sheet import Sheet, gathered

FLAG = "--per-request-spec-decode-metrics detailed"
_OLD_BLOCK = "speculative_decoding_stats"
_FORM = Form(
    "vLLM's metrics.speculative_decoding",
    "num_accepted_draft_tokens",
    "num_draft_tokens",
    f"start vLLM with {FLAG}",
    most_cut=0.0,
)


def recognise(glimpse: Glimpse) -> bool:
    """Tell whether a file holds responses of an OpenAI-like server, with the metrics or without."""
    return any("choices" in first or _block(first) is not None for first in glimpse.records)


def read(path: Path, given: Given) -> Sheet:
    """Read the responses; a constant ``horizon`` serves a summary that lacks ``num_spec_tokens``.

    Raises
    ------
    LogFormatError
        A response has no metrics, its counts contradict each other, or its horizon is not known.
    """
    found = read_blocks(path, _blocks, lambda block: step_rows(block.record, _FORM, given), _FORM.name)
    notes = (*found.notes, f"{path}: {LIMITS}")
    return gathered(found.rows, found.place, notes, engine="vLLM", shape="chain")


def _block(response: Response) -> object:
    metrics = response.get("metrics")
    return metrics.get("speculative_decoding") if isinstance(metrics, dict) else None


def _blocks(response: Response, where: str) -> Iterator[Block]:
    """Yield the metrics of a response, of each choice in the earlier form."""
    block = _block(response)
    if isinstance(block, dict):
        yield Block(Record(block, where), keys_of(response), completion_tokens(response))
        return
    olds = [choice.get(_OLD_BLOCK) for choice in choices(response)]
    if not any(isinstance(old, dict) for old in olds):
        raise LogFormatError(
            f"{where}: a response without metrics.speculative_decoding; "
            f"start vLLM with {FLAG} (it covers requests with n=1)"
        )
    tokens = completion_tokens(response, len(olds))
    for index, old in enumerate(olds):
        if isinstance(old, dict):
            yield Block(Record(old, where), keys_of(response, index, len(olds)), tokens)
