"""The entropy law by task: coefficients, fit, and the share of what entropy could explain (GLANCE Table 12)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from lawfit.copyregime import cap
from lawfit.curve import Z95, entropy_curve
from lawfit.errors import LawfitError, NotIdentified
from lawfit.laws import AffineLogit, Geometric, Isotonic
from lawfit.observations import Observations
from lawfit.page import Finding, Section
from lawfit.plots import new_figure, plot_curve
from lawfit.report.part import Part, Settings, spread

HEADER = ["", "rounds", "prompts", "mean a", "b0", "b1", "cap", "curve R²", "round R²"]
_PANELS = 6


def table(groups: Mapping[str, Observations], settings: Settings) -> Part:
    """Fit the affine law to each group; the groups are tasks and all rounds together, last."""
    everything = list(groups.values())[-1]
    if everything.entropy is None:
        return _without_entropy(groups, settings)
    rows = [HEADER]
    for name, observations in groups.items():
        try:
            rows.append([name, *_cells(observations)])
        except LawfitError:
            count = f"{observations.rounds:.0f}"
            rows.append(
                [name, count, _prompts(observations), f"{observations.mean_accept_len:.3f}", "not identified"]
                + [""] * 6
            )
    text = (
        f"logit p = b0 - b1 H by maximum likelihood, with 95% intervals {settings.intervals}. Mean a counts accepted "
        "draft tokens without the bonus token. The cap is the most that the law allows at zero entropy within the "
        "longest horizon. Curve R² is of ten decile means, round R² of single rounds."
    )
    return Part(Section("The law by task", text, rows, total=len(groups) > 1), _findings(everything))


def curves(groups: Mapping[str, Observations], settings: Settings) -> Part:
    """Draw the decile curve of all rounds, and of each task if there are several."""
    everything = list(groups.values())[-1].with_entropy()
    laws = {"affine-logit": AffineLogit.fit(everything), "isotonic": Isotonic.fit(everything)}
    figure = new_figure()
    names = [name for name, rows in groups.items() if rows.entropy is not None][:-1][:_PANELS]
    if len(names) < 2:
        plot_curve(entropy_curve(everything), laws, ax=figure.add_subplot())
        return Part(Section("Acceptance against entropy", _curve_text(settings), figure=figure))
    lines = math.ceil((len(names) + 1) / 2)
    figure.set_size_inches(9.0, 3.4 * lines)
    for k, name in enumerate(["all rounds", *names]):
        axes = figure.add_subplot(lines, 2, k + 1)
        rows = everything if name == "all rounds" else groups[name]
        fitted = _fitted(rows)
        plot_curve(entropy_curve(rows), fitted, ax=axes)
        axes.set_ylabel("E[a | H]")
        axes.set_title(name.replace("$", r"\$"), loc="left", fontsize="medium")
        if k:
            axes.legend().remove()
    return Part(Section("Acceptance against entropy", _curve_text(settings), figure=figure))


def _curve_text(settings: Settings) -> str:
    return (
        f"Mean accepted length in bins of equally many rounds by entropy, with 95% intervals {settings.intervals}, and "
        "what the laws say. Where the isotonic line, free but for its direction, leaves the affine one, the form of "
        "the law fails."
    )


def _without_entropy(groups: Mapping[str, Observations], settings: Settings) -> Part:
    """Fit one hazard to each group, which is what a log without entropy allows."""
    rows = [["", "rounds", "prompts", "mean a", "one hazard"]]
    for name, observations in groups.items():
        law = Geometric.fit(observations)
        error = ((law.fitted.cluster_se or law.fitted.se or {}) if law.fitted else {}).get("match_prob", math.nan)
        ends = spread(law.match_prob, law.match_prob - Z95 * error, law.match_prob + Z95 * error)
        counts = [f"{observations.rounds:.0f}", _prompts(observations), f"{observations.mean_accept_len:.3f}"]
        rows.append([name, *counts, ends])
    text = (
        "The log holds no entropy, so that the entropy law cannot be fitted: here is one hazard for all offsets, with "
        f"95% intervals {settings.intervals}. Mean a counts accepted draft tokens without the bonus token."
    )
    missing = Finding("unknown", "No row holds an entropy: whether entropy governs acceptance cannot be told.")
    return Part(Section("Acceptance by task", text, rows, total=len(groups) > 1), (missing,))


def _fitted(rows: Observations) -> dict[str, AffineLogit | Isotonic]:
    try:
        return {"affine-logit": AffineLogit.fit(rows), "isotonic": Isotonic.fit(rows)}
    except LawfitError:
        return {}


def _cells(observations: Observations) -> list[str]:
    rows = observations.with_entropy()
    law = AffineLogit.fit(rows)
    details = law.fitted
    if details is None:
        raise NotIdentified(f"{rows.source}: no details")
    errors = details.cluster_se or details.se or {}
    ends = [
        spread(value, value - Z95 * errors[name], value + Z95 * errors[name], 2)
        for name, value in (("b0", law.b0), ("b1", law.b1))
    ]
    round_r2 = math.nan if details.round_r2 is None else details.round_r2
    curve = "" if details.curve_r2 is None else f"{details.curve_r2:.3f}"
    return [
        f"{rows.rounds:.0f}",
        _prompts(rows),
        f"{rows.mean_accept_len:.3f}",
        *ends,
        f"{cap(law.b0, rows.longest):.2f}",
        curve,
        f"{round_r2:.3f}",
    ]


def _prompts(rows: Observations) -> str:
    return "?" if rows.clusters is None else str(rows.clusters)


def _findings(observations: Observations) -> tuple[Finding, ...]:
    try:
        law = AffineLogit.fit(observations)
    except LawfitError as error:
        return (Finding("unknown", f"The entropy law cannot be fitted: {error}."),)
    odds = math.exp(-law.b1)
    word = "lowers" if law.b1 > 0 else "raises"
    text = (
        f"Entropy {word} acceptance: each nat multiplies the odds that a draft token is accepted by {odds:.2f} "
        f"(b1 {law.b1:.3f}), from {1 / (1 + math.exp(-law.b0)):.0%} at zero entropy."
    )
    return (Finding("holds" if law.b1 > 0 else "fails", text),)
