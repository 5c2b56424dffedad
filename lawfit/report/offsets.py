"""Survival and hazards by offset, and whether one law serves them all."""

from __future__ import annotations

from lawfit.chi_square import in_words
from lawfit.curve import Z95, survival_curve
from lawfit.errors import LawfitError
from lawfit.hazard_trend import hazard_trend
from lawfit.laws import LAWS, FreeHazard, Law
from lawfit.observations import Observations
from lawfit.offset_test import offset_test
from lawfit.page import Finding, Section
from lawfit.plots import new_figure, plot_survival
from lawfit.report.part import Part, Settings, spread
from lawfit.risk import risk_table


def offsets(observations: Observations, settings: Settings) -> Part:
    """Tabulate hazards, draw survival, and test whether the law is the same at every offset."""
    free = FreeHazard.fit(observations)
    errors = (free.fitted.cluster_se or free.fitted.se or {}) if free.fitted else {}
    table = risk_table(observations)
    rows = [["offset", "at risk", "missed", "hazard (goes on)"]]
    for k, hazard in enumerate(free.hazards):
        error = errors.get(f"h{k + 1}", float("nan"))
        ends = spread(hazard, max(hazard - Z95 * error, 0.0), min(hazard + Z95 * error, 1.0))
        rows.append([str(k + 1), f"{table.at_risk[k]:.0f}", f"{table.misses[k]:.0f}", ends])
    figure = new_figure()
    plot_survival(survival_curve(observations), _laws(observations), ax=figure.add_subplot())
    text = (
        "The hazard is the share of the rounds at risk at an offset that go on, with 95% intervals "
        f"{settings.intervals}. {_direction(observations)} A hazard that rises over all rounds need be no property of "
        "the drafter: rounds in easy text last, so that they are what is left at deep offsets."
    )
    found = (_test(observations),) if observations.entropy is not None else ()
    return Part(Section("Hazard by offset", text, rows, figure), found)


def _laws(observations: Observations) -> dict[str, Law]:
    laws: dict[str, Law] = {}
    for name in ("affine", "two-state", "geometric"):
        try:
            laws[name] = LAWS[name].fit(observations)
        except LawfitError:
            continue
    return laws


def _direction(observations: Observations) -> str:
    try:
        trend = hazard_trend(observations)
    except LawfitError as error:
        return f"Which way it goes cannot be told: {error}."
    slope = spread(trend.slope, trend.slope - Z95 * trend.se, trend.slope + Z95 * trend.se)
    return f"It {trend.direction}: the log odds change by {slope} per offset."


def _test(observations: Observations) -> Finding:
    try:
        test = offset_test(observations)
    except LawfitError as error:
        return Finding("unknown", f"Whether one law holds at every offset cannot be told: {error}.")
    slopes = f"the slope goes from {test.slopes[0]:.2f} at offset 1 to {test.slopes[-1]:.2f} at {len(test.slopes)}"
    if test.wald_p_value is None:
        return Finding("unknown", f"Too few prompts to test whether one law holds at every offset; {slopes}.")
    if test.wald_p_value < 0.05:
        seen = f"{slopes} ({in_words(test.wald_p_value)} by prompt)"
        return Finding(
            "fails",
            f"One law does not serve all offsets: {seen}. The affine law is an average over offsets; where deep "
            "offsets matter, fit --law affine-by-offset beside it.",
        )
    return Finding(
        "holds", f"No sign that offsets differ at equal entropy ({in_words(test.wald_p_value)} by prompt); {slopes}."
    )
