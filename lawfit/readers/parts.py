"""Parts: the whole Parquet files in which a recorder keeps rows until it is closed."""

from __future__ import annotations

import json
from pathlib import Path

from lawfit.readers.table import parquet_metadata

SUFFIX = ".parts"
MERGED_KEY = "lawfit.merged_parts"


def folder_of(path: Path) -> Path:
    """Folder of the parts of the round log ``path``."""
    return path.with_name(path.name + SUFFIX)


def pending(path: Path) -> list[Path]:
    """List the parts of ``path`` that are not in the file yet, oldest first.

    ``path`` may be the round log, present or not, or the folder of parts itself. A recorder killed between merging its
    parts and removing them leaves parts that the file already holds: the file names them, and they are passed over.
    """
    folder = path if path.is_dir() else folder_of(path)
    if not folder.is_dir():
        return []
    file = folder.with_name(folder.name.removesuffix(SUFFIX))
    merged = set(json.loads(parquet_metadata(file).get(MERGED_KEY, "[]"))) if _is_parquet(file) else set()
    parts = (part for part in folder.glob("*.parquet") if not part.name.startswith("."))
    return sorted(part for part in parts if part.name not in merged)


def _is_parquet(file: Path) -> bool:
    return file.suffix.lower() == ".parquet" and file.is_file()
