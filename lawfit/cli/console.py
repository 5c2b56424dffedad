"""What commands share: results on stdout, notes on stderr, errors as one line with exit code 2."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


def note(text: str) -> None:
    """Write a remark to stderr; where that cannot be written the work goes on without remarks."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Turn a stream to nowhere: what could not be written would be tried again, and fail again, when Python ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_json(value: Any) -> None:
    """Write ``value`` to stdout as JSON; a number that is not finite becomes null."""
    print(json.dumps(_finite(value), indent=2, allow_nan=False))


@contextmanager
def progress(description: str, total: int) -> Iterator[Any]:
    """Show a bar on stderr; yields a function that advances it, by one or by a given amount.

    On a stderr that is no terminal it writes plain lines instead: at equal steps of a tenth or more, and the last.
    """
    if sys.stderr.isatty():
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
            task = bar.add_task(description, total=total)
            yield lambda step=1: bar.advance(task, step)
        return
    done, said, every = 0, 0, max(1, -(-total // 10))

    def advance(step: int = 1) -> None:
        nonlocal done, said
        done += step
        if done // every > said // every or done == total:
            said = done
            note(f"{description}: {done}/{total}")

    yield advance
    if said < done:
        note(f"{description}: {done}/{total}")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value
