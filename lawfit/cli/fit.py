"""`lawfit fit`: laws fitted to round logs, as a table, as JSON and as figures."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from lawfit.cli.compress import read_or_compress
from lawfit.cli.console import note, print_json
from lawfit.cli.outcome import EVERYTHING, Outcome, print_table, remarks
from lawfit.curve import entropy_curve, survival_curve
from lawfit.errors import FitError, NotIdentified
from lawfit.files import replacing, require_apart, write_text
from lawfit.laws import LAWS
from lawfit.laws.details import Method
from lawfit.log import NO_KEY, RoundLog
from lawfit.observations import LastRound, Observations, Signal, observe, require
from lawfit.readers.folders import expand
from lawfit.survival import MeanForm

FIGURES = ("survival.png", "curve.png")

_HELP = f"""Fit laws of acceptance to round logs.

Laws: {", ".join(LAWS)}, or all. The standard errors of the table are robust to dependence within prompts.

Examples:

lawfit fit rounds.parquet

lawfit fit rounds.parquet --law all --by task --last-round drop -o fits

lawfit fit rounds.parquet --method ls-rounds --mean capped --json
"""


@dataclass(frozen=True)
class Options:
    """How to fit."""

    method: Method
    mean: MeanForm
    last_round: LastRound
    signal: Signal


@dataclass(frozen=True)
class Group:
    """The rounds of one group, ``None`` where they cannot be used, and what became of its laws."""

    name: str
    observations: Observations | None
    outcomes: tuple[Outcome, ...]


def register(app: typer.Typer) -> None:
    """Add the sub-command to ``app``."""
    app.command("fit", help=_HELP, no_args_is_help=True)(fit)


def fit(
    *,
    rounds: Annotated[list[Path], typer.Argument(metavar="ROUNDS...", help="Logs of any known format.")],
    law: Annotated[str, typer.Option(help="The law to fit.", metavar="|".join((*LAWS, EVERYTHING)))] = "affine",
    by: Annotated[str | None, typer.Option(help="Fit each value of it apart.", metavar="COLUMN")] = None,
    method: Annotated[
        str, typer.Option(help="Likelihood, or least squares.", metavar="mle|ls-rounds|ls-deciles")
    ] = "mle",
    mean: Annotated[
        str, typer.Option(help="Form of the mean in least squares.", metavar="truncated|capped")
    ] = "truncated",
    last_round: Annotated[
        str, typer.Option(help="What becomes of each request's last round.", metavar="drop|censor|keep")
    ] = "keep",
    signal: Annotated[
        str, typer.Option(help="The entropy to use.", metavar="root_entropy|prev_entropy|draft_entropy")
    ] = "root_entropy",
    whole: Annotated[
        bool, typer.Option("--whole", help="Read all rounds, however many; else those of a large log are pooled.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Write laws and figures here.")
    ] = None,
) -> None:
    """Run `lawfit fit`."""
    options = _options(method, mean, last_round, signal)
    if law not in (*LAWS, EVERYTHING):
        raise FitError(f"law is {law!r}, expected one of {', '.join((*LAWS, EVERYTHING))}")
    names = tuple(LAWS) if law == EVERYTHING else (law,)
    reading, left_to_do = read_or_compress(
        rounds, by=by, signal=options.signal, last_round=options.last_round, whole=whole
    )
    log = reading.log
    parts = {EVERYTHING: log} if by is None else log.groups(by)
    folders = {} if output is None else _folders(output, by, parts)
    _check_apart(folders.values(), names, rounds)
    groups = [_fit_group(name, part, names, options, left_to_do) for name, part in parts.items()]
    outcomes = [outcome for group in groups for outcome in group.outcomes]
    errors = [outcome.error for outcome in outcomes if outcome.error]
    if len(errors) == len(outcomes):
        raise errors[0]
    for line in dict.fromkeys([*reading.notes, *remarks(outcomes)]):
        note(line)
    for group in groups:
        if group.name in folders:
            _write(group, folders[group.name])
    if as_json:
        print_json({"fits": [_record(outcome, options) for outcome in outcomes]})
    else:
        print_table(outcomes, grouped=by is not None)


def _folders(output: Path, by: str | None, groups: Collection[str]) -> dict[str, Path]:
    """Name the folder that each group is written to."""
    return {name: output if by is None else output / _folder(name, by, groups) for name in groups}


def _folder(group: str, by: str, groups: Collection[str]) -> str:
    """Name the folder of a group: that of the rows without a key is, for example, ``no-task``."""
    plain = f"no-{by}"
    return plain if group == NO_KEY and plain not in groups else safe_name(group)


def _check_apart(folders: Iterable[Path], laws: Sequence[str], rounds: Sequence[Path]) -> None:
    """Refuse folders where the laws or figures would take the place of an input."""
    inputs = expand(rounds).paths
    for folder in folders:
        for file in (*(f"{law}.json" for law in laws), *FIGURES):
            require_apart(folder / file, inputs)


def safe_name(text: str) -> str:
    """Make any text a file name: others keep their letters, and a digest tells apart what was replaced."""
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:80].lstrip(".")
    if safe == text and safe:
        return safe
    return f"{safe or '_'}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _options(method: str, mean: str, last_round: str, signal: str) -> Options:
    require(method, Method, "method")
    require(mean, MeanForm, "mean")
    require(last_round, LastRound, "last-round")
    require(signal, Signal, "signal")
    return Options(cast(Method, method), cast(MeanForm, mean), cast(LastRound, last_round), cast(Signal, signal))


def _fit_group(name: str, log: RoundLog, laws: tuple[str, ...], options: Options, left_to_do: LastRound) -> Group:
    """Fit the laws to one group; ``left_to_do`` is what reading has not done yet about last rounds."""
    try:
        observations = observe(log, last_round=left_to_do, signal=options.signal)
    except NotIdentified as error:
        return Group(name, None, tuple(Outcome(name, law, error=error) for law in laws))
    observations = replace(observations, last_round=options.last_round)
    return Group(name, observations, tuple(_fit_law(name, law, observations, options) for law in laws))


def _fit_law(group: str, name: str, observations: Observations, options: Options) -> Outcome:
    try:
        law = LAWS[name].fit(
            observations,
            method=options.method,
            mean=options.mean,
            last_round=options.last_round,
            signal=options.signal,
        )
    except (NotIdentified, FitError) as error:
        return Outcome(group, name, error=error)
    return Outcome(group, name, law)


def _record(outcome: Outcome, options: Options) -> dict[str, Any]:
    """Give one entry of the JSON output; every key is there, null where there is no fit."""
    law, details = outcome.law, outcome.law.fitted if outcome.law else None
    record: dict[str, Any] = {"group": outcome.group, "law": outcome.name, "method": options.method}
    record |= {
        "n": _whole(details.rounds) if details else None,
        "prompts": details.clusters if details else None,
        "horizon": law.horizon if law else None,
        "mean_accept_len": details.mean_accept_len if details else None,
        "params": law.params if law else None,
        "se": details.se if details else None,
        "cluster_se": details.cluster_se if details else None,
        "log_likelihood": details.log_likelihood if details else None,
        "curve_r2": details.curve_r2 if details else None,
        "round_r2": details.round_r2 if details else None,
        "mean": options.mean,
        "last_round": options.last_round,
        "signal": options.signal,
    }
    if details:
        record |= {
            "left_out": _whole(details.left_out),
            "status": details.status,
            "notes": list(details.notes),
        }
    if outcome.error:
        record["not_identified"] = str(outcome.error)
    return record


def _whole(value: float) -> int | float:
    return int(value) if value == int(value) else value


def _write(group: Group, folder: Path) -> None:
    """Write the laws of one group, and its figures."""
    from lawfit.plots import new_figure, plot_curve, plot_survival

    laws = {outcome.name: outcome.law for outcome in group.outcomes if outcome.law}
    if group.observations is None or not laws:
        return
    for name, law in laws.items():
        write_text(folder / f"{name}.json", law.to_json())
    survival, curve = FIGURES
    figures = {survival: new_figure()}
    plot_survival(survival_curve(group.observations), laws, ax=figures[survival].add_subplot())
    if group.observations.entropy is not None:
        figures[curve] = new_figure()
        plot_curve(entropy_curve(group.observations), laws, ax=figures[curve].add_subplot())
    title = f"{group.name} ({group.observations.rounds:.0f} rounds)"
    for name, figure in figures.items():
        figure.axes[0].set_title(title.replace("$", r"\$"), loc="left", fontsize="medium")
        with replacing(folder / name) as temporary:
            figure.savefig(temporary, format="png")
