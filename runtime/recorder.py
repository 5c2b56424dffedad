"""The recorder: rounds to a round log, so that a kill loses at most the rows not yet flushed."""

from __future__ import annotations

import shutil
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import polars as pl

from lawfit.errors import LogFormatError
from lawfit.files import replacing
from lawfit.readers import own, parts
from lawfit.schema import NAMES, POLARS_SCHEMA, SCHEMA_VERSION, VERSION_KEY


class Recorder:
    """Appends rows to the round log ``path``.

    Rows are buffered and flushed as whole Parquet parts, each renamed into place in the folder ``path + ".parts"``;
    `close` merges the parts into ``path`` in one step. After a kill the parts remain: reading ``path`` reads them too,
    and the next recorder on ``path`` takes them over.

    Parameters
    ----------
    path
        A ``.parquet`` file. Rows are appended where it exists. One recorder at a time.
    keys
        Key columns of every row, such as ``target`` or ``engine``; ``run_id`` is made up where absent.
    batch
        Rows between two flushes.

    Raises
    ------
    LogFormatError
        The suffix is not ``.parquet``, or the file exists and is no round log v1.
    """

    def __init__(self, path: Path, keys: dict[str, Any] | None = None, batch: int = 256) -> None:
        if path.suffix.lower() != ".parquet":
            raise LogFormatError(f"{path}: suffix {path.suffix!r}, expected .parquet")
        if path.is_dir():
            raise LogFormatError(f"{path}: is a folder, expected a .parquet file")
        if path.is_file():
            own.read(path)
        self.path = path
        self.keys = {"run_id": uuid.uuid4().hex[:12], **(keys or {})}
        self.batch = batch
        self._folder = parts.folder_of(path)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LogFormatError(f"{path}: cannot be written ({error.strerror or error})") from error
        self._buffer: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def record(self, row: dict[str, Any]) -> None:
        """Take one row; unknown columns are refused by name."""
        unknown = set(row) - set(NAMES)
        if unknown:
            raise LogFormatError(f"recorder: no column {', '.join(sorted(unknown))} in the round log")
        self._buffer.append({**self.keys, **row})
        if len(self._buffer) >= self.batch:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows as one part."""
        if not self._buffer:
            return
        frame = pl.DataFrame(self._buffer, schema=POLARS_SCHEMA)
        # Named by time, so that parts sort in the order written, and never like a part merged before.
        with replacing(self._folder / f"{time.time_ns():020d}.parquet") as temporary:
            frame.write_parquet(temporary, metadata={VERSION_KEY: str(SCHEMA_VERSION)})
        self._buffer = []

    def close(self) -> None:
        """Flush, merge the parts behind the rows of ``path``, and remove the parts."""
        self.flush()
        # Before the file forgets their names: parts that a killed recorder merged and did not remove.
        for part in parts.stale(self.path):
            part.unlink(missing_ok=True)
        pending = parts.pending(self.path)
        if pending:
            own.write(own.read(self.path), self.path, merged=[part.name for part in pending])
            for part in pending:
                part.unlink(missing_ok=True)
        if not parts.pending(self.path):
            # Only what a killed recorder left half-written can still be there.
            shutil.rmtree(self._folder, ignore_errors=True)
