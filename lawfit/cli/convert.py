"""`lawfit convert`: logs of any known engine to the round log v1."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from lawfit.cli.console import note, print_json, progress
from lawfit.errors import LawfitError
from lawfit.files import require_apart
from lawfit.log import RoundLog
from lawfit.readers import FORMATS, own, read_with_notes
from lawfit.readers.folders import expand
from lawfit.readers.given import parse_pairs
from lawfit.readers.parts import folder_of
from lawfit.schema import COLUMNS, ENTROPIES, REQUIRED
from lawfit.words import counted

SUFFIXES = (".parquet", ".jsonl", ".ndjson")
LARGE = 64 * 2**20  # bytes, from which reading shows its progress; so do as many files
MANY = 10

_FORMATS_HELP = "\n".join(f"- {known.name}: {known.about}" for known in FORMATS)
_OTHERS_HELP = ", ".join(column.name for column in COLUMNS if column.name not in (*REQUIRED, *ENTROPIES, "prompt_id"))
_HELP = f"""Convert logs of speculative decoding to the round log v1.

Several inputs become one log; rows without a run_id are then named by their file. A folder stands for its logs.

Formats, recognised by themselves:

{_FORMATS_HELP}

A sample of each, what it recovers and how to make the engine write it: docs/formats.md.

Columns of the log, for --map and --set, which are for the tables among the inputs:

- accept_len (required): accepted draft tokens, bonus excluded
- horizon (required): the most that this round could have accepted
- prompt_id: the prompt, by which errors are clustered
- {", ".join(ENTROPIES)}: nats
- others, in docs/formats.md: {_OTHERS_HELP}

Examples:

lawfit convert rounds.jsonl --set horizon=15 -o rounds.parquet

lawfit convert responses/*.jsonl server.log before.prom after.prom -o rounds.parquet

lawfit convert t.csv --map accept_len=acc_len-1,prompt_id=prompt --set horizon=6 --where warmup=false -o rounds.parquet
"""


def register(app: typer.Typer) -> None:
    """Add the sub-command to ``app``."""
    app.command("convert", help=_HELP, no_args_is_help=True)(convert)


def convert(
    inputs: Annotated[
        list[Path], typer.Argument(metavar="INPUT...", help="Log files, folders of them, or a recorder's folder.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write: .parquet or .jsonl.")],
    name: Annotated[
        str,
        typer.Option("--format", help="auto, or the name of a format for all inputs.", metavar="NAME"),
    ] = "auto",
    mapping: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="COLUMN=SOURCE,...", help="Source of each log column; acc_len-1 shifts it."),
    ] = None,
    constants: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="COLUMN=VALUE,...", help="Value of log columns that the input does not hold."),
    ] = None,
    conditions: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="SOURCE=VALUE",
            help="Keep the rows of a table that satisfy it, by source column; also != < > <= >=. May be repeated.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Read, check and write the log, and print a summary."""
    sources, values = parse_pairs(mapping or [], "--map"), parse_pairs(constants or [], "--set")
    files = expand(inputs, apart=bool(sources or conditions)).paths
    _check_output(output, files)
    size = sum(path.stat().st_size for path in files if path.is_file())
    shown = progress("reading files", len(files)) if size > LARGE or len(files) >= MANY else nullcontext()
    with shown as advance:
        reading = read_with_notes(
            inputs, name, sources, values, conditions or (), on_read=lambda path: advance() if advance else None
        )
    for text in reading.notes:
        note(text)
    own.write(reading.log, output)
    facts = summary(reading.log)
    if as_json:
        print_json({**facts, "output": str(output), "notes": reading.notes})
    else:
        print(f"{_sentence(facts)} -> {output}")


def summary(log: RoundLog) -> dict[str, Any]:
    """Count what a log holds; a count is None where no row names its unit."""
    frame = log.frame
    weight = pl.col("count")
    known = weight.filter(pl.col("root_entropy").is_not_null()).sum()
    sums = frame.select(
        rounds=weight.sum(),
        mean_accept_len=(pl.col("accept_len") * weight).sum() / weight.sum(),
        entropy_share=known / weight.sum(),
    ).row(0, named=True)
    requests = frame.filter(pl.col("request_id").is_not_null()).select("run_id", "request_id")
    return {
        "rounds": sums["rounds"],
        "rows": len(log),
        "requests": requests.n_unique() if requests.height else None,
        "prompts": frame["prompt_id"].drop_nulls().n_unique() or None,
        "mean_accept_len": sums["mean_accept_len"],
        "entropy_share": sums["entropy_share"],
    }


def _sentence(facts: dict[str, Any]) -> str:
    requests, prompts = ("unknown" if facts[name] is None else facts[name] for name in ("requests", "prompts"))
    return (
        f"{counted(facts['rounds'], 'round')}, requests: {requests}, prompts: {prompts}, "
        f"mean accept_len {facts['mean_accept_len']:.4f}, with entropy: {facts['entropy_share']:.1%}"
    )


def _check_output(output: Path, files: Sequence[Path]) -> None:
    """Refuse a bad output before any input is read."""
    if output.suffix.lower() not in SUFFIXES:
        raise LawfitError(f"{output}: suffix {output.suffix!r}, expected .parquet or .jsonl")
    if output.is_dir():
        raise LawfitError(f"{output}: is a folder, expected a file name")
    require_apart(output, files)
    if (folder := folder_of(output)).is_dir():
        raise LawfitError(f"{output}: a recorder's {folder.name} beside it would be read as more of its rows")
