"""`lawfit report`: one page about a round log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from lawfit.cli.compress import read_or_compress
from lawfit.cli.console import note, progress
from lawfit.errors import LawfitError
from lawfit.files import require_apart, write_text
from lawfit.observations import LastRound, Signal, require
from lawfit.readers.folders import expand


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report", no_args_is_help=True)(report)


def report(
    rounds: Annotated[list[Path], typer.Argument(help="Round logs of any known format.", metavar="ROUNDS...")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write.")] = Path("report.html"),
    by: Annotated[str, typer.Option(help="Key whose groups get rows of their own.")] = "task",
    last_round: Annotated[str, typer.Option(help="drop, censor or keep the last round of each request.")] = "keep",
    signal: Annotated[str, typer.Option(help="root_entropy, prev_entropy or draft_entropy.")] = "root_entropy",
    resamples: Annotated[int, typer.Option(min=1, max=1_000_000, help="Draws of each bootstrap over prompts.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    whole: Annotated[bool, typer.Option("--whole", help="Read a large log whole instead of pooling it.")] = False,
) -> None:
    """Write one self-contained HTML page: fits by task, curves, hazards, the copy regime, checks, calibration, budgets.

    Every figure stands with its interval over prompts, and plain sentences at the top say what holds, what fails and
    what to do. A part that the log cannot tell says so.

    Example: lawfit report rounds.parquet -o report.html
    """
    from lawfit.report.build import Options, build, parts

    require(last_round, LastRound, "--last-round")
    require(signal, Signal, "--signal")
    if output.is_dir():
        raise LawfitError(f"{output}: a folder, expected the name of a file")
    require_apart(output, expand(rounds).paths)
    kept, entropy = cast(LastRound, last_round), cast(Signal, signal)
    reading, left_to_do = read_or_compress(rounds, by=by, signal=entropy, last_round=kept, whole=whole)
    for remark in reading.notes:
        note(remark)
    options = Options(by, left_to_do, entropy, resamples, seed)
    with progress("report", len(parts(reading.log, options))) as advance:
        page = build(reading.log, options, advance)
    write_text(output, page)
    note(f"wrote {output}")
