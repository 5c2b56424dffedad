"""Readers: what other engines write, as the round log v1.

`read_rounds` reads files of any known format; `read_with_notes` also tells what it found and decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from lawfit.errors import LawfitError
from lawfit.log import RoundLog, concat
from lawfit.readers import (
    aiperf,
    dspark,
    glance,
    llamacpp,
    llamacpp_adaptive,
    llamacpp_lines,
    mapped,
    own,
    prometheus,
    proposals,
    sglang,
    sglang_lines,
    tensorrt,
    vllm,
    vllm_lines,
)
from lawfit.readers.folders import expand, real, stem
from lawfit.readers.given import Given
from lawfit.readers.glimpse import Glimpse
from lawfit.readers.sheet import Sheet, fill
from lawfit.words import counted


@dataclass(frozen=True)
class Format:
    """A way to write rounds down.

    Attributes
    ----------
    name, about
        What the user calls it, and what it is.
    recognise
        Whether a file looks like it.
    read
        Reads a file.
    consumes
        Constants that the reader puts into the rows itself.
    read_several
        Reads several files as one, for formats whose files belong together.
    """

    name: str
    about: str
    recognise: Callable[[Glimpse], bool]
    read: Callable[[Path, Given], Sheet]
    consumes: tuple[str, ...] = ()
    read_several: Callable[[Sequence[Path], Given], Sheet] | None = None


@dataclass(frozen=True)
class Reading:
    """A log, and what its reader had to tell."""

    log: RoundLog
    notes: tuple[str, ...] = ()


def _any(glimpse: Glimpse) -> bool:
    return True


MAPPED = Format("mapped", "any CSV, TSV, JSON Lines or Parquet table, with a mapping", _any, mapped.read)
# A file is of the first format that recognises it: the narrow ones first, any response before any line, any table last.
FORMATS: tuple[Format, ...] = (
    Format("own", "round log v1 of lawfit, or a recorder's folder of parts", own.recognise, own.read_sheet),
    Format("glance", "round log of the GLANCE code", glance.recognise, glance.read, ("horizon",)),
    Format("proposals", "EAGLE3 proposals.jsonl", proposals.recognise, proposals.read, ("horizon",)),
    Format("dspark", "SGLang's dspark_info_record: rounds", dspark.recognise, dspark.read),
    Format("aiperf", "AIPerf acceptance records", aiperf.recognise, aiperf.read),
    Format("tensorrt", "TensorRT-LLM responses with acceptance metrics", tensorrt.recognise, tensorrt.read),
    Format("sglang", "SGLang responses, of /generate or the OpenAI API", sglang.recognise, sglang.read),
    Format(
        "prometheus",
        "Prometheus counters; of several scrapes the difference",
        prometheus.recognise,
        prometheus.read,
        read_several=prometheus.read_several,
    ),
    Format("llamacpp", "llama.cpp responses: sums, reported and refused", llamacpp.recognise, llamacpp.read),
    Format("vllm", "vLLM responses with acceptance metrics", vllm.recognise, vllm.read),
    Format("vllm-lines", "vLLM server log, SpecDecoding metrics", vllm_lines.recognise, vllm_lines.read),
    Format(
        "llamacpp-adaptive", "llama.cpp log, adaptive draft depth", llamacpp_adaptive.recognise, llamacpp_adaptive.read
    ),
    Format("llamacpp-lines", "llama.cpp log, draft acceptance", llamacpp_lines.recognise, llamacpp_lines.read),
    Format("sglang-lines", "SGLang server log: means, reported and refused", sglang_lines.recognise, sglang_lines.read),
    MAPPED,
)
BY_FORMAT: dict[str, Format] = {format_.name: format_ for format_ in FORMATS}


def read_rounds(
    paths: Path | str | Sequence[Path | str],
    format: str = "auto",
    mapping: Mapping[str, str] | None = None,
    constants: Mapping[str, Any] | None = None,
    where: Iterable[str] = (),
) -> RoundLog:
    """Read round logs of any known format as one.

    Parameters
    ----------
    paths
        Files, folders of recorder parts, or folders of files (see `lawfit.readers.folders.expand`).
    format
        ``auto``, or the name of one of `FORMATS` for all files.
    mapping
        Source column of each log column, for tables of other tools: ``{"accept_len": "acc_len-1"}``. It is for the
        files that have one of its columns, and for tables of no known format; others are read as what they are.
    constants
        Values of log columns that the files do not hold: ``{"horizon": 6}``.
    where
        Conditions on the source rows of a table: ``["is_warmup=false"]``.

    Raises
    ------
    LogFormatError
        A file is not what it should be.
    LawfitError
        The arguments do not fit together.
    """
    return read_with_notes(paths, format, mapping, constants, where).log


def read_with_notes(
    paths: Path | str | Sequence[Path | str],
    format: str = "auto",
    mapping: Mapping[str, str] | None = None,
    constants: Mapping[str, Any] | None = None,
    where: Iterable[str] = (),
    on_read: Callable[[Path], None] = lambda path: None,
) -> Reading:
    """Read as `read_rounds` does, and tell what was found; ``on_read`` is called after each file."""
    given = Given.checked(mapping, constants, where)
    inputs = expand([Path(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)], apart=given.maps)
    files = inputs.paths
    if not files:
        raise LawfitError("no input was given")
    names = dict(zip(files, _run_names(files), strict=True))
    groups = list(_groups(files, format, given))
    _check_mapped(groups, given)
    logs, notes = [], list(inputs.notes)
    for chosen, group in groups:
        several = chosen.read_several if len(group) > 1 else None
        sheet = chosen.read(group[0], given) if several is None else several(group, given)
        rest = {key: value for key, value in given.constants.items() if key not in chosen.consumes}
        sheet = fill(sheet, rest, others=given.maps and chosen is not MAPPED)
        log = RoundLog.from_frame(sheet.frame, sheet.place)
        logs.append(log if len(files) == 1 else _with_run(log, names[group[0]]))
        notes += [f"{', '.join(map(str, group))}: read as {chosen.name}", *sheet.notes]
        for file in group:
            on_read(file)
    log = logs[0] if len(logs) == 1 else concat(logs)
    return Reading(log, (*notes, *_repeated_rounds(log)))


def _groups(files: Sequence[Path], name: str, given: Given) -> Iterator[tuple[Format, list[Path]]]:
    """Choose the format of each file; files that belong together come together, in the place of the first."""
    groups: list[tuple[Format, list[Path]]] = []
    for file in files:
        chosen = _choose(file, name, given)
        together = next((group for known, group in groups if known is chosen and chosen.read_several), None)
        if together is None:
            groups.append((chosen, [file]))
        else:
            together.append(file)
    yield from groups


def _choose(path: Path, name: str, given: Given) -> Format:
    if name == "auto":
        glimpse = Glimpse(path)
        if given.maps and mapped.means(given, glimpse.columns):
            return MAPPED
        return next(known for known in FORMATS if known.recognise(glimpse))
    if name not in BY_FORMAT:
        raise LawfitError(f"no format {name!r}, expected auto, {', '.join(BY_FORMAT)}")
    if given.maps and name != MAPPED.name:
        raise LawfitError(f"{given.kind} was given with format {name}; it goes with format mapped")
    return BY_FORMAT[name]


def _check_mapped(groups: Sequence[tuple[Format, list[Path]]], given: Given) -> None:
    """Refuse a mapping that is for none of the files."""
    if not given.maps or any(chosen is MAPPED for chosen, _ in groups):
        return
    chosen, group = groups[0]
    raise LawfitError(
        f"{group[0]}: is {chosen.name} ({chosen.about}), which needs no mapping, and has no column "
        f"{' or '.join(given.sources)}; {given.kind} goes with tables (CSV, TSV, JSON Lines, Parquet)"
    )


def _run_names(files: Sequence[Path]) -> list[str]:
    """Name each file by its stem, or by its path where two stems are the same."""
    resolved = [real(file) for file in files]
    if twice := [file for k, file in enumerate(files) if resolved[k] in resolved[:k]]:
        raise LawfitError(f"{twice[0]}: given twice, its rounds would count double")
    stems = [stem(file) for file in files]
    return [name if stems.count(name) == 1 else str(file) for name, file in zip(stems, files, strict=True)]


def _with_run(log: RoundLog, name: str) -> RoundLog:
    """Name the run of rows that name none, so that equal request names of two files stay apart."""
    return RoundLog(log.frame.with_columns(pl.col("run_id").fill_null(name)), log.source)


def _repeated_rounds(log: RoundLog) -> list[str]:
    keys = ["run_id", "request_id", "round"]
    numbered = log.frame.filter(
        pl.col("request_id").is_not_null() & pl.col("round").is_not_null() & (pl.col("origin") == "round")
    ).select(keys)
    extra = numbered.height - numbered.n_unique() if numbered.height else 0
    if not extra:
        return []
    what = f"{counted(extra, 'row')} with a round that the request had already"
    return [f"{what}: several requests seem to share one request_id"]


__all__ = ["FORMATS", "Format", "Reading", "read_rounds", "read_with_notes"]
