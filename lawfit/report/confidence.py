"""Whether the drafter's own confidence comes true."""

from __future__ import annotations

from lawfit.calibration.nodes import spine_nodes
from lawfit.calibration.plots import plot_reliability
from lawfit.calibration.reliability import Forecast, reliability
from lawfit.calibration.scores import score
from lawfit.log import RoundLog
from lawfit.page import Finding, Section
from lawfit.plots import new_figure
from lawfit.report.part import Part, Settings


def confidence(log: RoundLog, settings: Settings) -> Part:
    """Draw how often draft tokens are accepted against the drafter's own probability of them."""
    nodes = spine_nodes(log).at_risk()
    forecast = Forecast.of(nodes.draft_prob, nodes.accepted, weight=nodes.weight, cluster=nodes.cluster)
    options = {"resamples": settings.resamples, "seed": settings.seed}
    curve, scores = reliability(forecast, **options), score(forecast, **options)
    figure = new_figure()
    plot_reliability({"draft probability": curve}, ax=figure.add_subplot())
    off = curve.ece > curve.ece_limit
    text = (
        f"Draft tokens on the top path whose parent was accepted: {scores.weight:.0f}. Expected calibration error "
        f"{curve.ece:.4f}, against {curve.ece_perfect:.4f} if the probabilities were right; Brier score "
        f"{float(scores.brier.estimate):.4f}, log score {float(scores.log_score.estimate):.4f} nats."
    )
    sentence = (
        f"The drafter's confidence does not come true as it stands (calibration error {curve.ece:.3f}): calibrate it "
        "before trees are sized by it (lawfit calibrate)."
        if off
        else f"The drafter's confidence comes true within noise (calibration error {curve.ece:.3f})."
    )
    return Part(
        Section("The drafter's confidence", text, figure=figure), (Finding("fails" if off else "holds", sentence),)
    )
