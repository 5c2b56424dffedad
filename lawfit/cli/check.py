"""`lawfit check`: does a stored law still hold on new rounds, and where does it break."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from lawfit.cli.console import note, print_json
from lawfit.drift.check import Check, GroupCheck, Options, check
from lawfit.drift.groups import KEYS
from lawfit.errors import LawfitError
from lawfit.laws import Law
from lawfit.observations import LastRound, Signal, require
from lawfit.readers import read_with_notes

# A law with a step for each of a hundred thousand entropies fits into this.
LIMIT = 20_000_000
_HELP = f"""Check whether a stored law still holds on new rounds: overall, and by model, temperature, task and the like.

Exit code 0 while it is broken nowhere, 1 where it is. Broken means both: a difference that chance does not explain
(prompts resampled, corrected for the number of groups), and one that matters. Groups too small to tell are named.

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
    by: Annotated[str | None, typer.Option(help="Keys to check by.", metavar="KEY,KEY,...")] = None,
    level: Annotated[float, typer.Option(help="Chance of any false alarm.")] = 0.05,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Difference in accepted tokens that does not matter; 0.1, or 5% of the promise if more."),
    ] = None,
    last_round: Annotated[
        str | None, typer.Option(help="Last round of each request; as the law's fit.", metavar="drop|censor|keep")
    ] = None,
    signal: Annotated[
        str | None,
        typer.Option(help="The entropy to use; as the law's fit.", metavar="root_entropy|prev_entropy|draft_entropy"),
    ] = None,
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
    raise typer.Exit(1 if found.broken else 0)


def sentence(part: GroupCheck) -> str:
    """Say what is wrong with the law in a group, or why that cannot be told."""
    gap = part.gap
    numbers = f"predicted {gap.predicted:.2f}, observed {gap.observed:.2f}"
    if gap.se == gap.se:
        numbers += f" ({gap.low:.2f} to {gap.high:.2f})"
    if part.level_broken:
        return f"{part.name}: {numbers}: the law promises too {'much' if gap.difference < 0 else 'little'}"
    if part.shape_broken and not isinstance(part.refit, str):
        change = ", ".join(
            f"{name} {old:.2f} is now {new:.2f}"
            for name, old, new in zip(part.refit.names, part.refit.stored, part.refit.fitted, strict=True)
        )
        return f"{part.name}: the mean agrees, but {change}: E[a | H] is off by {part.refit.shift:.2f} on average"
    if part.verdict == "cannot tell":
        prompts = "unnamed prompts" if part.prompts is None else f"{part.prompts} prompts"
        return f"{part.name}: {numbers}: cannot tell from {prompts} within {part.allowance:.2f}"
    return f"{part.name}: {numbers}: holds within {part.allowance:.2f}"


def _read_law(path: Path) -> Law:
    try:
        size = path.stat().st_size
        if size > LIMIT:
            raise LawfitError(f"{path}: {size} bytes, expected a law of at most {LIMIT}")
        text = path.read_text(encoding="utf-8-sig")
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
    return {
        "key": part.key,
        "value": part.value,
        "rounds": part.rounds,
        "prompts": part.prompts,
        "predicted": part.gap.predicted,
        "observed": part.gap.observed,
        "observed_low": part.gap.low,
        "observed_high": part.gap.high,
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
        "verdict": part.verdict,
        "sentence": sentence(part),
    }


def _print(found: Check) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("group", overflow="fold")
    for header in ("rounds", "prompts", "predicted", "observed", f"{1 - found.options.level:.0%} interval", "p, Holm"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("refitted", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for part in found.groups:
        # Text, not markup: a group may be called [red].
        table.add_row(*(Text(cell) for cell in _cells(part)))
    console = Console()
    # A pipe has no width: let no line fold.
    (console if console.is_terminal else Console(width=140)).print(table)
    verdicts = [part.verdict for part in found.groups]
    print(
        f"{verdicts.count('broken')} broken, {verdicts.count('holds')} hold, "
        f"{verdicts.count('cannot tell')} too small to tell"
    )
    for part in found.broken:
        print(sentence(part))
    unclear = [part.name for part in found.groups if part.verdict == "cannot tell"]
    if unclear:
        print(f"too small to tell (the interval reaches beyond the tolerance): {', '.join(unclear)}")


def _cells(part: GroupCheck) -> list[str]:
    gap = part.gap
    known = gap.se == gap.se
    return [
        part.name,
        f"{part.rounds:.0f}",
        "?" if part.prompts is None else str(part.prompts),
        f"{gap.predicted:.3f}",
        f"{gap.observed:.3f}",
        f"{gap.low:.3f} to {gap.high:.3f}" if known else "",
        f"{part.level_p:.3f}" if part.level_p == part.level_p else "",
        _coefficients(part),
        part.verdict,
    ]


def _coefficients(part: GroupCheck) -> str:
    """Show up to three coefficients; more are in the JSON."""
    if isinstance(part.refit, str):
        return ""
    pairs = list(zip(part.refit.names, part.refit.fitted, strict=True))
    shown = " ".join(f"{name} {value:.2f}" for name, value in pairs[:3])
    return shown + (" ..." if len(pairs) > 3 else "")
