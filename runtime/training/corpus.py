"""The rows that heads are trained on: the target's own greedy output, kept in a file that grows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from lawfit.files import replacing
from runtime.errors import TrainingError
from runtime.loops import loops
from runtime.prompts import Prompt
from runtime.slots import generate_many
from runtime.target import Target

SHORTEST = 12
_SCHEMA = MappingProxyType(
    {
        "prompt_id": pl.String,
        "task": pl.String,
        "prompt": pl.List(pl.UInt32),
        "output": pl.List(pl.UInt32),
        "kept": pl.Boolean,
    }
)


@dataclass(frozen=True)
class Text:
    """One prompt with the target's output, as tokens.

    Attributes
    ----------
    prompt_id, task
        Of the prompt.
    prompt, output
        Token ids.
    kept
        Whether heads are trained on it: not a loop, not too short, not one token over and over.
    """

    prompt_id: str
    task: str
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    kept: bool


def worth_keeping(output: Sequence[int]) -> bool:
    """Tell whether an output teaches anything: no loop, at least `SHORTEST` tokens, no token in half of its places."""
    if len(output) < SHORTEST or loops(output):
        return False
    return Counter(output).most_common(1)[0][1] <= len(output) // 2


def grow_corpus(
    target: Target,
    prompts: Iterator[Prompt],
    path: Path,
    tokens: int,
    *,
    slots: int = 64,
    max_new_tokens: int = 256,
    on_text: Callable[[int], object] = lambda kept: None,
) -> int:
    """Append texts to ``path`` until it holds ``tokens`` kept output tokens; return how many it holds.

    A file that is there already is gone on with: its prompts are passed over. Texts are written as they end, one line
    each, so that a killed run loses those in flight only.

    Parameters
    ----------
    target
        In bf16 where that is fast: rows need not be the reference output.
    prompts
        Without end, in an order that a seed fixes.
    path, tokens
        JSON Lines of `Text`; kept output tokens wanted.
    slots, max_new_tokens
        Requests in step, and the longest output.
    on_text
        Called with the kept tokens after each text.
    """
    done = read_corpus(path) if path.exists() else []
    kept = sum(len(text.output) for text in done if text.kept)
    seen = {text.prompt_id for text in done}
    names: dict[tuple[int, ...], list[Prompt]] = {}

    def encoded() -> Iterator[Sequence[int]]:
        for prompt in prompts:
            if prompt.prompt_id not in seen:
                ids = tuple(target.encode(prompt.text))
                names.setdefault(ids, []).append(prompt)
                yield ids

    if kept >= tokens:
        return kept
    _cut_last_line(path)
    with path.open("a", encoding="utf-8") as file:
        for ids, output in generate_many(target, encoded(), slots, max_new_tokens):
            prompt = names[tuple(ids)].pop()
            text = Text(prompt.prompt_id, prompt.task, tuple(ids), tuple(output), worth_keeping(output))
            file.write(json.dumps(asdict(text)) + "\n")
            file.flush()
            kept += len(output) if text.kept else 0
            on_text(kept)
            if kept >= tokens:
                return kept
    return kept


def _cut_last_line(path: Path) -> None:
    """Remove a line that a kill cut short: what is appended would become a part of it."""
    if path.exists():
        with path.open("rb+") as file:
            file.truncate(file.read().rfind(b"\n") + 1)


def read_corpus(path: Path, limit: int | None = None) -> list[Text]:
    """Read texts from JSON Lines, or from Parquet as `pack_corpus` writes it.

    A last line of JSON that a kill cut short is left out.

    Raises
    ------
    TrainingError
        The file is absent, or another line is not a text.
    """
    if not path.is_file():
        raise TrainingError(f"{path}: no such file, expected a corpus")
    if path.suffix == ".parquet":
        try:
            table = pl.read_parquet(path).select(*_SCHEMA)
            for name in ("prompt", "output"):
                kind = table.schema[name]
                if not (isinstance(kind, pl.List) and kind.inner.is_integer()):
                    raise TrainingError(f"{path}: not a corpus: {name} is {kind}, expected lists of token ids")
            rows = table.cast(dict(_SCHEMA)).head(limit or 1 << 40)  # type: ignore[arg-type]
        except (pl.exceptions.PolarsError, OSError) as error:
            raise TrainingError(f"{path}: not a corpus ({str(error).splitlines()[0]:.160})") from error
        columns = list(rows.iter_rows())
        if any(value is None or (isinstance(value, list) and None in value) for row in columns for value in row):
            raise TrainingError(f"{path}: not a corpus: a value is absent")
        return [Text(name, task, tuple(ids), tuple(out), kept) for name, task, ids, out, kept in columns]
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except UnicodeDecodeError as error:
        raise TrainingError(f"{path}: not a corpus: not UTF-8 ({error})") from error
    whole = [line for line in lines if line.endswith("\n")]
    return [_text(line, f"{path}:{number}") for number, line in enumerate(islice(whole, limit), 1)]


def pack_corpus(texts: Sequence[Text], path: Path) -> None:
    """Write texts as Parquet, a quarter of the size of their lines."""
    frame = pl.DataFrame([asdict(text) for text in texts], schema=dict(_SCHEMA))
    with replacing(path) as temporary:
        frame.write_parquet(temporary, compression="zstd", compression_level=19)


def _text(line: str, where: str) -> Text:
    try:
        record = json.loads(line)
        return Text(
            str(record["prompt_id"]),
            str(record["task"]),
            _ids(record["prompt"]),
            _ids(record["output"]),
            bool(record["kept"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TrainingError(f"{where}: not a text of a corpus ({error})") from error


def _ids(values: list[Any]) -> tuple[int, ...]:
    if strange := [value for value in values if type(value) is not int]:
        raise ValueError(f"token {strange[0]!r:.40}, expected a whole number")
    return tuple(values)
