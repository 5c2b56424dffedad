"""Files written whole or not at all, and never over what was read."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from glob import escape, glob
from pathlib import Path

import polars as pl

from lawfit.errors import LawfitError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path; what is written there takes the place of ``path`` on success and vanishes on error.

    A link stays, and the file that it leads to is replaced. What is no regular file, such as a pipe or a device, is
    never replaced: it is given the bytes.

    Raises
    ------
    LawfitError
        ``path`` is a folder, its folder cannot be made, or the file not be written.
    """
    try:
        mode = _mode(path)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        target = Path(os.path.realpath(path)) if stat.S_ISREG(mode) else None
        folder = Path(tempfile.gettempdir()) if target is None else target.parent
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=folder)
    except IsADirectoryError as error:
        raise LawfitError(f"{path}: is a folder, expected a file name") from error
    except OSError as error:
        raise LawfitError(f"{path}: cannot be written ({error.strerror})") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        if target is None:
            _pour(temporary, path)
        else:
            _sync(temporary)
            temporary.chmod(0o644)
            temporary.replace(target)
    except OSError as error:
        raise LawfitError(f"{path}: cannot be written ({error.strerror or error})") from error
    except pl.exceptions.PolarsError as error:
        # polars words a full disk or a limit in its own way.
        raise LawfitError(f"{path}: cannot be written ({str(error).splitlines()[0][:160]})") from error
    finally:
        temporary.unlink(missing_ok=True)


def remove_unfinished(*paths: Path) -> None:
    """Remove what killed processes left of writing ``paths``; for paths that one process at a time writes."""
    for path in paths:
        for left in path.parent.glob(f".{escape(path.name)}.*.tmp"):
            left.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` in one step."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def require_apart(output: Path | None, inputs: Iterable[Path]) -> None:
    """Refuse an output that is an input, by whatever name or link.

    Parameters
    ----------
    output
        File to write; ``None`` is no file.
    inputs
        Files and patterns; folders stand for their Parquet files, as `lawfit.readers.folders.expand` leaves them.

    Raises
    ------
    LawfitError
        It is one.
    """
    if output is None:
        return
    for path in inputs:
        if any(_same(file, output) for file in _files(path)):
            raise LawfitError(f"{output}: is also an input, expected another file name")


def _files(path: Path) -> Iterable[Path]:
    if os.path.isdir(path):
        return path.glob("*.parquet")
    return (path,) if os.path.exists(path) else map(Path, glob(str(path)))


def _same(one: Path, other: Path) -> bool:
    """Tell whether two names lead to one file; a name that leads to none is no file's."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False


def _mode(path: Path) -> int:
    """Give the kind of file that ``path`` leads to; a regular one where there is none yet."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return stat.S_IFREG


def _pour(source: Path, target: Path) -> None:
    """Copy into what is there, and make no file where it has gone."""
    with source.open("rb") as reader, os.fdopen(os.open(target, os.O_WRONLY), "wb") as writer:
        shutil.copyfileobj(reader, writer)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
