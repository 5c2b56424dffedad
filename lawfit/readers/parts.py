"""Parts: the whole Parquet files in which a recorder keeps rows until it is closed."""

from __future__ import annotations

import json
from pathlib import Path

from lawfit.errors import LogFormatError
from lawfit.readers.table import parquet_metadata

SUFFIX = ".parts"
MERGED_KEY = "lawfit.merged_parts"


def folder_of(path: Path) -> Path:
    """Folder of the parts of the round log ``path``."""
    return path.parent / (path.name + SUFFIX)


def pending(path: Path) -> list[Path]:
    """List the parts of ``path`` that are not in the file yet, oldest first.

    ``path`` may be the round log, present or not, or the folder of parts itself. A recorder killed between merging its
    parts and removing them leaves parts that the file already holds: the file names them, and they are passed over.
    """
    merged = _merged(path)
    return [part for part in _parts(path) if part.name not in merged]


def stale(path: Path) -> list[Path]:
    """List the parts that are left though the file holds their rows."""
    merged = _merged(path)
    return [part for part in _parts(path) if part.name in merged]


def _parts(path: Path) -> list[Path]:
    folder = path if path.is_dir() else folder_of(path)
    return sorted(part for part in folder.glob("*.parquet") if not part.name.startswith("."))


def _merged(path: Path) -> set[str]:
    file = path.parent / path.name.removesuffix(SUFFIX) if path.is_dir() else path
    if file.suffix.lower() != ".parquet" or not file.is_file():
        return set()
    try:
        return set(json.loads(parquet_metadata(file).get(MERGED_KEY, "[]")))
    except (ValueError, TypeError) as error:
        raise LogFormatError(f"{file}: the list of merged parts in its metadata is damaged") from error
