"""The demo's page: law, cost, and speed by task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lawfit.curve import entropy_curve
from lawfit.laws import AffineLogit
from lawfit.log import RoundLog
from lawfit.observations import observe
from lawfit.page import Section, render
from lawfit.plots import plain_axes, plot_curve
from policy.cost import CostTable
from runtime.demo import FIXED
from runtime.demo_table import RESTLESS, Line, mean, to_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FIXED_COLOURS = ("#c9d3df", "#9fb1c6", "#7488a3")
_ADAPTIVE = "#0072b2"


def report(log: RoundLog, rows: Sequence[Line], same: tuple[int, int], cost: CostTable, facts: dict[str, Any]) -> str:
    """Lay out ``out/report.html``."""
    total = mean(rows)
    best = max(FIXED, key=lambda budget: total.fixed[budget])
    lead = (
        f"{facts['target']}, {facts['dtype']} on {facts['device']}: over the mean of the tasks the adaptive policy "
        f"decodes {total.adaptive:.2f} times as fast as plain decoding, the best fixed budget ({best}) "
        f"{total.fixed[best]:.2f} times. "
        f"Output in fp32 identical to plain decoding on {same[0]} of {same[1]} prompts."
    )
    if facts["plain_spread"] > RESTLESS:
        lead += (
            f" The machine was busy: plain decoding varied {facts['plain_spread']:.1f}-fold, so the ratios say little."
        )
    return render("lawfit demo", lead, [_speed(rows, facts), _law(log), _cost(cost)], _FOOTER)


_FOOTER = (
    "Every prompt is decoded by all arms from one prefill, interleaved in one process; prefill is not timed. "
    "The policy that decodes a prompt was fitted on the rounds of other prompts. tau counts tokens per round, "
    "bonus included, rounds without speculation too."
)


def _speed(rows: Sequence[Line], facts: dict[str, Any]) -> Section:
    axes = plot_speed(rows)
    text = (
        f"Tokens per second over plain decoding ({facts['plain_tokens_per_s']:.1f} per second here), "
        "with fixed budgets and with the adaptive policy; tau and the share of rounds that speculated are the policy's."
    )
    return Section("Speed by task", text, to_table(rows), axes.figure, total=True)


def _law(log: RoundLog) -> Section:
    observed = observe(log)
    law = AffineLogit.fit(observed)
    axes = plot_curve(entropy_curve(observed), {"affine-logit law": law})
    details = law.fitted
    errors = (details.cluster_se if details else None) or {}
    text = (
        f"logit p = b0 - b1 H fitted by maximum likelihood to the {len(observed)} rounds of the shipped log that "
        f"offered a draft (of {len(log)}): "
        f"b0 {law.b0:.3f} (prompt-cluster SE {errors.get('b0', float('nan')):.3f}), "
        f"b1 {law.b1:.3f} ({errors.get('b1', float('nan')):.3f}). Points are means of entropy deciles, "
        "with 95% intervals over prompts."
    )
    return Section("The entropy law on the shipped log", text, figure=axes.figure)


def _cost(cost: CostTable) -> Section:
    axes = plot_cost(cost)
    plain, wide = cost.round_ms[0], cost.round_ms[-1]
    text = (
        f"Median time of a round by the draft nodes it verifies, measured here before decoding: {plain:.1f} ms without "
        f"speculation, {wide / plain:.2f} times that at {cost.max_budget} nodes. The policy takes the budget whose "
        "expected tokens are worth their time."
    )
    return Section("What a round costs on this machine", text, figure=axes.figure)


def plot_speed(rows: Sequence[Line], *, ax: Axes | None = None) -> Axes:
    """Draw grouped bars: speed over plain decoding of the fixed budgets and the adaptive policy, per task."""
    ax = plain_axes(ax)
    place = np.arange(len(rows))
    width = 0.8 / (len(FIXED) + 1)
    for at, (budget, colour) in enumerate(zip(FIXED, _FIXED_COLOURS, strict=True)):
        heights = [row.fixed[budget] for row in rows]
        ax.bar(place + (at - 1.5) * width, heights, width, color=colour, label=f"fixed budget {budget}")
    adaptive = [row.adaptive for row in rows]
    bars = ax.bar(place + 1.5 * width, adaptive, width, color=_ADAPTIVE, label="adaptive")
    ax.bar_label(
        bars,
        labels=[f"{value:.2f}" for value in adaptive],
        fontsize=9,
        color=_ADAPTIVE,
        padding=2,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6},
    )
    ax.axhline(1.0, color="#1c2330", linewidth=0.9)
    ax.set_xticks(place, [row.task for row in rows])
    ax.set_ylabel("speed over plain decoding")
    ax.legend(frameon=False, ncols=len(FIXED) + 1, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=9)
    return ax


def plot_cost(cost: CostTable, *, ax: Axes | None = None) -> Axes:
    """Draw the cost table: time of a round against its budget."""
    ax = plain_axes(ax)
    ax.plot(cost.budgets, cost.round_ms, color=_ADAPTIVE, marker="o", markersize=4, linewidth=1.6)
    ax.set_xlabel("verified draft nodes (budget)")
    ax.set_ylabel("time of a round, ms")
    ax.set_ylim(bottom=0)
    return ax
