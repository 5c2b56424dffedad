"""What became of laws that were fitted, in words and as a table."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from lawfit.errors import FitError, NotIdentified
from lawfit.laws import AffineLogit, FreeHazard, Isotonic, Law

EVERYTHING = "all"
_EDGES = {0.0: "no match seen", 1.0: "no miss seen"}


@dataclass(frozen=True)
class Outcome:
    """One law in one group: the fitted law, or why there is none."""

    group: str
    name: str
    law: Law | None = None
    error: NotIdentified | FitError | None = None


def remarks(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Give the notes of all fits, each once in its group, with the names of its laws where it is not of all."""
    for group in dict.fromkeys(outcome.group for outcome in outcomes):
        where = "" if group == EVERYTHING else f"{group}: "
        asked = [outcome for outcome in outcomes if outcome.group == group]
        fitted = [outcome for outcome in asked if outcome.law]
        said: dict[str, list[str]] = {}
        for outcome in fitted:
            for text in _remarks(outcome):
                said.setdefault(text, []).append(outcome.name)
        for text, names in said.items():
            of_all = len(asked) == 1 or len(names) == len(fitted) > 1
            yield f"{where}{'' if of_all else ', '.join(names) + ': '}{text}"
        yield from (f"{where}{outcome.name} is not identified: {outcome.error}" for outcome in asked if outcome.error)


def _remarks(outcome: Outcome) -> Iterator[str]:
    details = outcome.law.fitted if outcome.law else None
    if details is None:
        return
    yield from details.notes
    if details.clusters in (None, 1):
        why = "prompts are not named" if details.clusters is None else "one prompt"
        yield f"{why}: no errors by prompt"
    if isinstance(outcome.law, AffineLogit) and outcome.law.b1 < 0:
        yield "b1 is negative: here acceptance rises with entropy, against the entropy law"


def print_table(outcomes: Sequence[Outcome], *, grouped: bool) -> None:
    """Print the fits as a table, and below it their coefficients."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    if grouped:
        table.add_column("group", overflow="fold")
    table.add_column("law", no_wrap=True)
    for header in ("rounds", "prompts", "mean a", "log-lik", "curve R²", "round R²"):
        table.add_column(header, justify="right", no_wrap=True)
    for outcome in outcomes:
        # Text, not markup: a group may be called [red].
        cells = ([outcome.group] if grouped else []) + [outcome.name, *_cells(outcome)]
        table.add_row(*(Text(cell) for cell in cells))
    console = Console()
    # A pipe has no width: let no line fold.
    (console if console.is_terminal else Console(width=120)).print(table)
    sure = any(outcome.law.fitted.cluster_se for outcome in outcomes if outcome.law and outcome.law.fitted)
    print(f"coefficients, {'with' if sure else 'without'} standard errors by prompt")
    for outcome in outcomes:
        if outcome.law:
            label = f"{outcome.group} {outcome.name}" if grouped else outcome.name
            print(_wrapped(f"{label}: {_coefficients(outcome.law)}"))


def _wrapped(text: str) -> str:
    """Fill lines of 80 columns, keeping each coefficient with its name and error."""
    kept = re.sub(r"(?<! ) (?! )", "\xa0", text)
    return textwrap.fill(kept, 80, subsequent_indent="    ").replace("\xa0", " ")


def _cells(outcome: Outcome) -> list[str]:
    law, details = outcome.law, outcome.law.fitted if outcome.law else None
    if law is None or details is None:
        return ["", "", "", "not identified", "", ""]
    return [
        f"{details.rounds:.0f}",
        "?" if details.clusters is None else str(details.clusters),
        f"{details.mean_accept_len:.4f}",
        f"{details.log_likelihood:.2f}",
        *("" if value is None else f"{value:z.3f}" for value in (details.curve_r2, details.round_r2)),
    ]


def _coefficients(law: Law) -> str:
    if isinstance(law, Isotonic):
        return f"hazard {law.hazards[0]:.4f} falling to {law.hazards[-1]:.4f} in {len(law.hazards)} steps"
    errors = (law.fitted.cluster_se if law.fitted else None) or {}
    if isinstance(law, FreeHazard):
        return "  ".join(_hazards(law.hazards, errors))
    return "  ".join(_word(name, value, errors) for name, value in law.params.items())


def _word(name: str, value: float | list[float], errors: Mapping[str, float]) -> str:
    error = errors.get(name, math.nan)
    return f"{name} {value:.4f}" + ("" if math.isnan(error) else f" ({error:.4f})")


def _hazards(hazards: Sequence[float], errors: Mapping[str, float]) -> Iterator[str]:
    """Word the hazards; those on an edge, where all rounds went on or none, have no error and stand together."""
    offset = 1
    for value, same in groupby(hazards):
        last = offset + len(list(same)) - 1
        if value in _EDGES:
            to = f" to h{last}" if last > offset else ""
            yield f"h{offset}{to} {value:.4f} ({_EDGES[value]})"
        else:
            yield from (_word(f"h{k}", value, errors) for k in range(offset, last + 1))
        offset = last + 1
