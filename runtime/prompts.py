"""Prompt files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lawfit.errors import LogFormatError
from lawfit.readers.table import load_records


@dataclass(frozen=True)
class Prompt:
    """One user message, with its name and workload."""

    prompt_id: str
    task: str
    text: str


def load_prompts(path: Path) -> list[Prompt]:
    """Read JSON Lines of ``{"prompt_id", "task", "prompt"}``; only ``prompt`` is required.

    Raises
    ------
    LogFormatError
        The file is no such file, a prompt is absent or empty, or a ``prompt_id`` is used twice.
    """
    records, place = load_records(path)
    prompts: list[Prompt] = []
    seen: set[str] = set()
    for at, record in enumerate(records):
        text = record.get("prompt")
        if not isinstance(text, str) or not text.strip():
            raise LogFormatError(f'prompt is {text!r:.60}, expected text under the key "prompt" ({place.of(at)})')
        name = str(record.get("prompt_id", f"{path.stem}-{at + 1}"))
        if name in seen:
            raise LogFormatError(f"prompt_id {name!r} is used twice ({place.of(at)})")
        seen.add(name)
        prompts.append(Prompt(name, str(record.get("task", "prompt")), text))
    return prompts
