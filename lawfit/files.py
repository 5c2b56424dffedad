"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from lawfit.errors import LawfitError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; it takes its place on success and vanishes on error.

    Raises
    ------
    LawfitError
        The folder cannot be made, or the file not be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    except OSError as error:
        raise LawfitError(f"{path}: cannot be written ({error.strerror})") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _sync(temporary)
        temporary.chmod(0o644)
        temporary.replace(path)
    except IsADirectoryError as error:
        raise LawfitError(f"{path}: is a folder, expected a file name") from error
    except OSError as error:
        raise LawfitError(f"{path}: cannot be written ({error.strerror or error})") from error
    except pl.exceptions.PolarsError as error:
        # polars words a full disk or a limit in its own way.
        raise LawfitError(f"{path}: cannot be written ({str(error).splitlines()[0][:160]})") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` in one step."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
