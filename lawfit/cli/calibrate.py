"""`lawfit calibrate`: acceptance probabilities from a draft's confidence, and how far they come true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from lawfit.arrays import Floats
from lawfit.bootstrap import Interval
from lawfit.calibration.calibration import Calibration, Method, cross_fitted
from lawfit.calibration.judgement import in_words, judge, side
from lawfit.calibration.nodes import NodeTable, spine_nodes, trace_nodes
from lawfit.calibration.reliability import Forecast, Reliability, reliability
from lawfit.calibration.scores import Scores, score
from lawfit.cli.console import note, print_json
from lawfit.errors import FitError, NotIdentified
from lawfit.files import replacing, require_apart, write_text
from lawfit.observations import require
from lawfit.readers import read_with_notes
from lawfit.readers.folders import expand
from lawfit.readers.table import load_table
from lawfit.trace import CANDIDATES, Trace

_HELP = """Fit acceptance probabilities to what a draft knows before verification, and score them.

A trace gives every candidate, branches included; round logs give the drafter's top-1 path. Scores are cross-fitted:
each prompt is scored by a calibration that did not see it. They need five named prompts; else they are in-sample, and
say so.

Log score and Brier score: small is good. Skill: the share of the log score of always promising the share accepted that
is saved; below 0 is worse than that. ECE: mean distance of promise and share accepted over the bins; beside it what
chance alone gives where promises are right. A sentence sums up each row.

Exit code 0 when done, 2 on bad input.

Examples:

lawfit calibrate trace.parquet -o calibration.json

lawfit calibrate rounds.parquet --method isotonic --figure reliability.png
"""

MOST_BINS = 1000
# Why the share accepted is not that of the other kind of log.
_SHARE = {
    "trace": (
        "A trace drafts from every position and tests a token by every draft that reaches it, so that easy stretches"
        " count many times; a round log tests a token once and starts anew after each miss. The shares differ."
    ),
    "rounds": (
        "A round log tests a token once and starts anew after each miss; a trace drafts from every position and tests"
        " a token by every draft that reaches it, so that easy stretches count many times. The shares differ."
    ),
}


@dataclass(frozen=True, eq=False)
class Row:
    """One way to promise acceptance: its scores and its reliability."""

    name: str
    scores: Scores
    curve: Reliability

    @property
    def verdict(self) -> str:
        """Say whether it comes true, and how it compares with always promising the share accepted."""
        skill = self.scores.log_skill
        share, low, high = float(skill.estimate), float(skill.low), float(skill.high)
        if share != share:
            return in_words(self.curve)
        if share == float("-inf"):
            return f"{in_words(self.curve)}. It ruled out what happened: its log score is infinite"
        better = f"{abs(share):.0%} {'better' if share > 0 else 'worse'}"
        if not (low > 0 or high < 0):
            better = "neither better nor worse for sure"
        return f"{in_words(self.curve)}. Its log score is {better} than always promising {self.scores.base_rate:.3f}"


def register(app: typer.Typer) -> None:
    """Add the sub-command to ``app``."""
    app.command("calibrate", help=_HELP, no_args_is_help=True)(calibrate)


def calibrate(
    *,
    logs: Annotated[list[Path], typer.Argument(metavar="TRACE|ROUNDS...", help="One trace, or round logs.")],
    method: Annotated[str, typer.Option(help="What to fit.", metavar="logistic|isotonic")] = "logistic",
    bins: Annotated[int, typer.Option(help="Bins of the reliability curve.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the calibration here, as JSON.")
    ] = None,
    figure: Annotated[Path | None, typer.Option(metavar="PNG", help="Draw the reliability curves here.")] = None,
) -> None:
    """Run `lawfit calibrate`."""
    require(method, Method, "method")
    if not 2 <= bins <= MOST_BINS:
        raise FitError(f"bins is {bins if bins < 10**20 else 'beyond 10^20'}, expected 2 to {MOST_BINS}")
    chosen = cast(Method, method)
    for file in (output, figure):
        require_apart(file, expand(logs).paths)
    nodes = _read(logs).at_risk()
    fitted = Calibration.fit(nodes, method=chosen)
    promises, label = _promises(nodes, fitted, chosen)
    rows = [_row(name, probability, nodes, bins) for name, probability in promises.items()]
    if nodes.cluster is None:
        note(
            "prompts are not named: every node counts as independent; where those of a prompt are alike, the intervals"
            " are too narrow"
        )
    if output is not None:
        write_text(output, fitted.to_json())
    if figure is not None:
        _draw(rows, figure)
    if as_json:
        print_json(
            {"method": method, "scores": label, "nodes": fitted.nodes, "prompts": fitted.prompts}
            | {"forecasts": [_record(row) for row in rows]}
        )
    else:
        _print(rows, fitted, label)


def _read(paths: list[Path]) -> NodeTable:
    """Take a single file with candidates as a trace, and anything else as round logs."""
    if len(paths) == 1 and paths[0].suffix.lower() == ".parquet" and paths[0].is_file():
        table = load_table(paths[0])
        if all(name in table.frame.columns for name in CANDIDATES):
            note(f"{paths[0]}: read as trace")
            return trace_nodes(Trace.from_frame(table.frame, table.place))
    reading = read_with_notes(paths)
    for line in reading.notes:
        note(line)
    return spine_nodes(reading.log)


def _promises(nodes: NodeTable, fitted: Calibration, method: Method) -> tuple[dict[str, Floats], str]:
    """Give the draft's own probabilities and the calibrated ones, and say how the latter were made."""
    try:
        calibrated, label = cross_fitted(nodes, method=method), "cross-fitted"
    except NotIdentified as error:
        note(f"in-sample scores: {error}")
        calibrated, label = fitted.probability(nodes), "in-sample"
    return {"draft": nodes.draft_prob, f"{method}, {label}": calibrated}, label


def _row(name: str, probability: Floats, nodes: NodeTable, bins: int) -> Row:
    # A log-probability may round to just above 0.
    forecast = Forecast.of(probability.clip(0.0, 1.0), nodes.accepted, nodes.weight, nodes.cluster)
    return Row(name, score(forecast, bins=bins), reliability(forecast, bins=bins))


def _record(row: Row) -> dict[str, Any]:
    scores, curve = row.scores, row.curve
    named = {
        "brier": scores.brier,
        "log_score": scores.log_score,
        "brier_skill": scores.brier_skill,
        "log_skill": scores.log_skill,
    }
    record: dict[str, Any] = {"name": row.name, "base_rate": scores.base_rate}
    for name, interval in named.items():
        record[name] = {"value": float(interval.estimate), "low": float(interval.low), "high": float(interval.high)}
    parts = scores.murphy
    record["murphy"] = {
        "reliability": parts.reliability,
        "resolution": parts.resolution,
        "uncertainty": parts.uncertainty,
        "within": parts.within,
    }
    found = judge(curve)
    record["verdict"] = {
        "lean": found.lean,
        "promised_less_accepted": found.excess,
        "bins_off": sorted(found.off),
        "sentence": row.verdict,
    }
    record["ece"] = {"value": curve.ece, "if_calibrated": curve.ece_perfect, "limit_95": curve.ece_limit}
    columns = ("predicted", "observed", "low", "high", "weight")
    values = zip(*(getattr(curve, name).tolist() for name in columns), strict=True)
    record["reliability"] = [dict(zip(columns, row_, strict=True)) for row_ in values]
    return record


def _print(rows: list[Row], fitted: Calibration, label: str) -> None:
    prompts = "prompts not named" if fitted.prompts is None else f"{fitted.prompts} prompts"
    print(
        f"{fitted.nodes:.0f} nodes reached, {prompts}, {rows[0].scores.base_rate:.4f} accepted; 95% intervals by prompt"
    )
    print(_SHARE["trace" if fitted.source == "trace" else "rounds"])
    header = ("", "log score, nats", "skill", "Brier", "ECE", "ECE by chance")
    table = [header] + [
        (
            row.name,
            _interval(row.scores.log_score, 4),
            _interval(row.scores.log_skill, 3),
            _interval(row.scores.brier, 4),
            f"{row.curve.ece:.4f}",
            f"{row.curve.ece_perfect:.4f}, up to {row.curve.ece_limit:.4f}",
        )
        for row in rows
    ]
    _columns(table)
    for row in rows:
        print(f"{row.name}: {row.verdict}.")
    curve = rows[-1].curve
    print(f"reliability, {label}")
    lines = zip(curve.predicted, curve.observed, curve.low, curve.high, curve.weight, strict=True)
    body = [
        (f"{p:.3f}", f"{o:.3f}", "" if low != low else f"{low:.3f} to {high:.3f}", f"{w:.0f}", side(curve, k))
        for k, (p, o, low, high, w) in enumerate(lines)
    ]
    _columns([("promised", "accepted", "95%", "nodes", ""), *body])


def _interval(interval: Interval, digits: int) -> str:
    value, low, high = float(interval.estimate), float(interval.low), float(interval.high)
    if value != value:
        return "unknown"
    shown = f"{value:.{digits}f}"
    return shown if low != low else f"{shown} ({low:.{digits}f} to {high:.{digits}f})"


def _columns(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _draw(rows: list[Row], path: Path) -> None:
    from lawfit.calibration.plots import plot_reliability
    from lawfit.plots import new_figure

    drawn = new_figure()
    plot_reliability({row.name: row.curve for row in rows}, ax=drawn.add_subplot())
    with replacing(path) as temporary:
        drawn.savefig(temporary, format="png")
