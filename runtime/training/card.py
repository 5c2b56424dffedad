"""What is kept of a training run beside the head: the command, what it read, its curve, a plot."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lawfit.files import replacing, write_text
from lawfit.plots import COLOURS, FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from runtime.training.curve import CurvePoint
    from runtime.training.recipes import Recipe
    from runtime.training.session import Course

# Losses are drawn as means over so many steps, and kept as such.
_SMOOTH = 10


def write_card(
    folder: Path,
    recipe: Recipe,
    course: Course,
    corpora: Sequence[Path],
    points: Sequence[CurvePoint],
    command: Sequence[str],
) -> None:
    """Write ``training.json`` and ``training.png`` beside a head, from the log of its run."""
    log = [json.loads(line) for line in (folder / "work" / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    card = {
        "command": " ".join(["lawfit", *command]),
        "recipe": asdict(recipe),
        "course": asdict(course),
        "corpora": [[path.name, hashlib.sha256(path.read_bytes()).hexdigest()] for path in corpora],
        "seconds": round(sum(record["seconds"] for record in log), 1),
        "curve": [{name: finite(value) for name, value in asdict(point).items()} for point in points],
        "log": smoothed(log),
    }
    write_text(folder / "training.json", json.dumps(card, indent=1, allow_nan=False) + "\n")
    draw_card(card, folder / "training.png")


def finite(value: float) -> float | None:
    """Give a number that JSON can hold."""
    return value if math.isfinite(value) else None


def smoothed(log: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """Average the records of every ten steps; a value that some of them lack is averaged over the others."""
    kept = []
    for start in range(0, len(log), _SMOOTH):
        some = log[start : start + _SMOOTH]
        names = {name: None for record in some for name in record}
        held = {name: [record[name] for record in some if name in record] for name in names}
        kept.append({name: round(sum(values) / len(values), 5) for name, values in held.items()})
    return kept


def plot_losses(log: Sequence[dict[str, float]], *, ax: Axes) -> Axes:
    """Draw the loss of every pass against the step."""
    from matplotlib import colormaps

    names = sorted({name for record in log for name in record if name.startswith("token.")})
    # From dark to light along the passes: they are an order, not kinds.
    shades = colormaps["viridis"](np.linspace(0.05, 0.85, len(names)))
    for k, (name, shade) in enumerate(zip(names, shades, strict=True)):
        rows = [record for record in log if name in record]
        label = f"pass {k + 1}" if len(names) > 1 else "token loss"
        ax.plot([row["step"] for row in rows], [row[name] for row in rows], color=shade, linewidth=1.3, label=label)
    ax.set_xlabel("step")
    ax.set_ylabel("cross entropy, nats")
    ax.legend(frameon=False, ncols=1 + len(names) // 4)
    return ax


def plot_learning(points: Sequence[dict[str, float]], *, ax: Axes) -> Axes:
    """Draw tokens per target pass on held-out prompts, with 95% intervals, against the step."""
    steps, mean = [point["step"] for point in points], [point["tau"] for point in points]
    if all(point["low"] is not None for point in points):
        low, high = [point["low"] for point in points], [point["high"] for point in points]
        ax.fill_between(steps, low, high, color=COLOURS[0], alpha=0.15, linewidth=0)
    ax.plot(steps, mean, color=COLOURS[0], marker="o", markersize=4)
    ax.set_xlabel("step")
    ax.set_ylabel("tokens per target pass, held out")
    return ax


def draw_card(card: dict[str, Any], path: Path) -> None:
    """Draw the losses and the learning curve of a card as a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    plot_losses(card["log"], ax=left)
    plot_learning(card["curve"], ax=right)
    for ax in (left, right):
        ax.grid(color=FAINT, linewidth=0.6)
        ax.tick_params(colors=INK)
        ax.spines[["top", "right"]].set_visible(False)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)
