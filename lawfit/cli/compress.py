"""`lawfit compress`: logs that need not fit into memory, as counts; and what other commands read so."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from lawfit.cli.console import note, print_json, progress
from lawfit.cli.convert import SUFFIXES
from lawfit.compression import BINS, BY, KEEPABLE, SHARDS, compress
from lawfit.errors import FitError, LawfitError, LogFormatError
from lawfit.files import require_apart
from lawfit.log import RoundLog
from lawfit.observations import LastRound, Signal, require
from lawfit.readers import Reading, own, read_with_notes
from lawfit.readers.folders import real
from lawfit.scan import Scan, is_own, scan_files
from lawfit.words import counted

LARGE = 5_000_000  # rows, beyond which a log is pooled instead of being read whole
_HELP = """Pool like rounds of a log into rows with a count.

Laws without entropy are fitted from them exactly as from the rounds, coefficients of the affine laws within about
0.002. The isotonic law, deciles and curves are those of the bins of entropy: more --bins, less difference.

Takes Parquet files, folders of Parquet files and quoted patterns whose columns are those of the round log; they
may be larger than memory. Other formats become one by `lawfit convert`. docs/sql.md has the same as SQL.

Examples:

lawfit compress "logs/*.parquet" -o cells.parquet

lawfit compress rounds.parquet --last-round drop --by task,drafter -o cells.parquet
"""


def register(app: typer.Typer) -> None:
    """Add the sub-command to ``app``."""
    app.command("compress", help=_HELP, no_args_is_help=True)(run)


def run(
    *,
    rounds: Annotated[list[Path], typer.Argument(metavar="ROUNDS...", help="Parquet files, folders or patterns.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write: .parquet or .jsonl.")],
    bins: Annotated[int, typer.Option(help="Bins of the entropy below one nat; beyond, they widen.")] = BINS,
    shards: Annotated[int, typer.Option(help="Most sets of prompts; errors are clustered by them.")] = SHARDS,
    last_round: Annotated[
        str, typer.Option(help="What becomes of each request's last round.", metavar="drop|censor|keep")
    ] = "keep",
    by: Annotated[str, typer.Option(help="Columns to keep apart.", metavar="COLUMN,...")] = ",".join(BY),
    signal: Annotated[
        str, typer.Option(help="The entropy to keep.", metavar="root_entropy|prev_entropy|draft_entropy")
    ] = "root_entropy",
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Run `lawfit compress`."""
    require(last_round, LastRound, "last-round")
    require(signal, Signal, "signal")
    if output.suffix.lower() not in SUFFIXES:
        raise LawfitError(f"{output}: suffix {output.suffix!r}, expected .parquet or .jsonl")
    scan = scan_files(rounds)
    _check_apart(output, rounds, scan)
    for text in scan.notes:
        note(text)
    if not is_own(rounds):
        note(f"{scan.source}: not marked as a round log v1, its columns are taken by their names")
    columns = [name for name in (part.strip() for part in by.split(",")) if name]
    log = _compressed(scan, columns, cast(Signal, signal), cast(LastRound, last_round), bins=bins, shards=shards)
    own.write(log, output)
    facts = _summary(log, scan)
    if as_json:
        print_json({**facts, "output": str(output)})
    else:
        known = "unknown" if facts["clusters"] is None else facts["clusters"]
        size = f"{counted(facts['rounds'], 'round')} in {counted(facts['rows'], 'row')}"
        print(f"{size}, prompts or shards: {known} -> {output}")


def read_or_compress(
    paths: Sequence[Path], *, by: str | None, signal: Signal, last_round: LastRound, whole: bool
) -> tuple[Reading, LastRound]:
    """Read logs as `read_with_notes` does, or pool them where they are Parquet of many rounds.

    Returns
    -------
    tuple
        The reading, and what is left to do about last rounds: ``keep`` for a pooled log.
    """
    scan = None if whole else _large(paths)
    if scan is None:
        return read_with_notes(paths), last_round
    if by is not None and by not in KEEPABLE:
        raise FitError(
            f"by is {by!r}: a log of {scan.rows} rows is pooled, and counts cannot keep {by} apart; give --whole to"
            " read all of it"
        )
    log = _compressed(scan, [] if by is None else [by], signal, last_round)
    text = (
        f"{scan.source}: {scan.rows} rows, pooled into {len(log)} with counts (bins of {signal}, "
        f"at most {SHARDS} sets of prompts); --whole reads all into memory instead"
    )
    return Reading(log, (*scan.notes, text)), "keep"


def _large(paths: Sequence[Path]) -> Scan | None:
    """Open the logs if they are round logs v1 in Parquet, of more than `LARGE` rows in all."""
    try:
        scan = scan_files(paths) if is_own(paths) else None
    except LogFormatError:
        return None  # the reader of whole logs says what is wrong
    return scan if scan is not None and scan.rows > LARGE else None


def _compressed(scan: Scan, by: Sequence[str], signal: Signal, last_round: LastRound, **options: int) -> RoundLog:
    """Compress, with progress for a long log."""
    walks = 1 if last_round == "keep" else 2
    with progress("pooling rounds", walks * scan.rows) if scan.rows > LARGE else nullcontext() as advance:
        on_rows = advance or (lambda rows: None)
        return compress(scan, by=by, signal=signal, last_round=last_round, on_rows=on_rows, **options)


def _check_apart(output: Path, rounds: Sequence[Path], scan: Scan) -> None:
    """Refuse an output that is an input, or that would be read as one the next time."""
    require_apart(output, (Path(part.source) for part in scan.parts))
    if any(path.is_dir() and real(path) == real(output.parent) for path in rounds):
        raise LawfitError(f"{output}: lies in a folder that is an input, and would be read as more of its rows")


def _summary(log: RoundLog, scan: Scan) -> dict[str, Any]:
    names = log.frame["prompt_id"]
    return {
        "rounds": int(log.frame["count"].sum()),
        "rows": len(log),
        "read": scan.rows,
        "clusters": None if names.null_count() else names.n_unique(),
    }
