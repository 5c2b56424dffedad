"""`lawfit check`: does a stored law still hold on new rounds, and where does it break."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from lawfit.cli.check_words import broken_by, cells, sentence
from lawfit.cli.console import note, print_json
from lawfit.drift.check import Check, GroupCheck, Options, Verdict, check
from lawfit.drift.groups import KEYS
from lawfit.errors import LawfitError
from lawfit.json_object import LIMIT
from lawfit.laws import Law
from lawfit.observations import LastRound, Signal, require
from lawfit.readers import read_with_notes

# A law with a step for each of a hundred thousand entropies fits into this.
_COUNTED: dict[Verdict, str] = {"broken": "broken", "holds": "hold", "cannot tell": "cannot tell"}
_HELP = f"""Check whether a stored law still holds on new rounds: overall, and by model, temperature, task and the like.

A group is broken where a difference is both one that chance does not explain (prompts resampled, Holm's correction for
all tests of the check) and one that matters: of the mean accepted length, or of its shape, the coefficients fitted
again.
It holds where the whole interval of the difference lies within the tolerance. Elsewhere no break is seen, but one could
hide: how large, and how many prompts more would tell, is said.

Tolerance: by default 5% of the promised tokens per round, bonus included, since speed goes with those: 0.10 accepted
tokens at a mean of 1, 0.135 at 1.7, 0.35 at 6. Take more for rough monitoring, less where budgets hang on it.

Exit code 0 while it is broken nowhere (with --strict: holds everywhere), 1 where it is broken (or does not hold), 2 on
bad input.

Keys of --by: {", ".join(KEYS)}, or any plain column of the log; by default all of these that vary.

Examples:

lawfit check fits/affine.json rounds.parquet

lawfit check affine.json new/ --by task,temperature --tolerance 0.2 --json
"""


def register(app: typer.Typer) -> None:
    """Add the sub-command to ``app``."""
    app.command("check", help=_HELP, no_args_is_help=True)(check_command)


def check_command(
    *,
    law: Annotated[Path, typer.Argument(metavar="LAW.json", help="What `lawfit fit -o` wrote.")],
    rounds: Annotated[list[Path], typer.Argument(metavar="ROUNDS...", help="Logs of any known format.")],
    by: Annotated[str | None, typer.Option(help="Keys to check by, see above.", metavar="KEY,KEY,...")] = None,
    level: Annotated[float, typer.Option(help="Chance of any false alarm.")] = 0.05,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Difference in accepted tokens that does not matter; 5% of the tokens per round."),
    ] = None,
    last_round: Annotated[
        str | None, typer.Option(help="Last round of each request; as the law's fit.", metavar="drop|censor|keep")
    ] = None,
    signal: Annotated[
        str | None,
        typer.Option(help="The entropy to use; as the law's fit.", metavar="root_entropy|prev_entropy|draft_entropy"),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 unless every group holds.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run `lawfit check`."""
    if last_round is not None:
        require(last_round, LastRound, "last-round")
    if signal is not None:
        require(signal, Signal, "signal")
    keys = None if by is None else [key.strip() for key in by.split(",") if key.strip()]
    options = Options(level=level, tolerance=tolerance)
    stored = _read_law(law)
    reading = read_with_notes(rounds)
    found = check(
        stored,
        reading.log,
        keys,
        options=options,
        last_round=cast("LastRound | None", last_round),
        signal=cast("Signal | None", signal),
    )
    for line in dict.fromkeys([*reading.notes, *found.notes]):
        note(line)
    if as_json:
        print_json(_record(found))
    else:
        _print(found)
    unproven = strict and any(part.verdict != "holds" for part in found.groups)
    raise typer.Exit(1 if found.broken or unproven else 0)


def _read_law(path: Path) -> Law:
    try:
        # A pipe or a device may never end.
        if path.exists() and not path.is_file():
            raise LawfitError(f"{path}: cannot be read (no regular file)")
        with path.open("rb") as file:
            content = file.read(LIMIT + 1)
        if len(content) > LIMIT:
            raise LawfitError(f"{path}: more than {LIMIT} bytes, expected a law of at most so many")
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LawfitError(f"{path}: not a text file (byte {error.start} is not UTF-8)") from error
    except OSError as error:
        raise LawfitError(f"{path}: cannot be read ({error.strerror or error})") from error
    try:
        return Law.from_json(text, str(path))
    except OverflowError as error:
        raise LawfitError(f"{path}: holds a number too large for a float") from error


def _record(found: Check) -> dict[str, Any]:
    return {
        "law": found.law.name,
        "params": found.law.params,
        "level": found.options.level,
        "broken": [part.name for part in found.broken],
        "groups": [_group_record(part) for part in found.groups],
        "notes": list(found.notes),
    }


def _group_record(part: GroupCheck) -> dict[str, Any]:
    new = None if isinstance(part.refit, str) else part.refit
    recalibration = new.recalibration if new else None
    wanting = part.wanting if part.verdict == "cannot tell" else None
    return {
        "key": part.key,
        "value": part.value,
        "rounds": part.rounds,
        "prompts": part.prompts,
        "predicted": part.gap.predicted,
        "predicted_se": part.gap.predicted_se,
        "observed": part.gap.observed,
        "observed_low": part.gap.observed_low,
        "observed_high": part.gap.observed_high,
        "observed_se": part.gap.observed_se,
        "difference": part.gap.difference,
        "difference_low": part.gap.difference_low,
        "difference_high": part.gap.difference_high,
        "se": part.gap.se,
        "p_holm": part.level_p,
        "refit": dict(zip(new.names, new.fitted, strict=True)) if new else None,
        "refit_missing": part.refit if isinstance(part.refit, str) else None,
        "calibration_intercept": recalibration[0] if recalibration else None,
        "calibration_slope": recalibration[1] if recalibration else None,
        "wald": new.wald if new else None,
        "shape_p_holm": part.shape_p,
        "shift": new.shift if new else None,
        "tolerance": part.allowance,
        "broken_by": broken_by(part),
        "could_hide": part.gap.farthest if part.verdict == "cannot tell" else None,
        "more_to_tell": wanting if isinstance(wanting, int) else None,
        "more_to_tell_unit": "rounds" if part.prompts is None else "prompts",
        "verdict": part.verdict,
        "sentence": sentence(part),
    }


def _print(found: Check) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("group", overflow="fold")
    for header in ("rounds", "prompts", "predicted", "observed", "difference", "p, mean", "p, shape"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for part in found.groups:
        # Text, not markup: a group may be called [red].
        table.add_row(*(Text(cell) for cell in cells(part)))
    console = Console()
    # A pipe has no width: let no line fold.
    (console if console.is_terminal else Console(width=160)).print(table)
    print(
        f"mean accepted draft tokens per round; {1 - found.options.level:.0%} intervals, of observed from the rounds"
        " alone, of the difference with the law's own error (±) too; p after Holm"
    )
    verdicts = [part.verdict for part in found.groups]
    counts = (f"{verdicts.count(word)} {shown}" for word, shown in _COUNTED.items())
    print(", ".join(counts))
    for verdict in ("broken", "cannot tell"):
        for part in found.groups:
            if part.verdict == verdict:
                print(sentence(part))
