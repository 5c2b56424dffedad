from __future__ import annotations

import numpy as np
import pytest

from lawfit import Geometric, Observations
from lawfit.calibration.pit import place, uniformity
from lawfit.calibration.plots import plot_pit, plot_reliability
from lawfit.calibration.reliability import Forecast, reliability
from lawfit.plots import new_figure


def test_the_reliability_figure_shows_the_curves_points_and_errors() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(400)
    curve = reliability(Forecast.of(p, rng.random(400) < p, None, np.arange(400) % 20), resamples=50)
    ax = new_figure().add_subplot()
    assert plot_reliability({"draft": curve, "other": curve}, ax=ax) is ax
    points = ax.containers[0].lines[0]  # type: ignore[union-attr]
    assert points.get_xdata() == pytest.approx(curve.predicted)
    assert points.get_ydata() == pytest.approx(curve.observed)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]  # type: ignore[union-attr]
    assert labels[0] == f"draft: ECE {curve.ece:.3f} (if calibrated {curve.ece_perfect:.3f})"
    ax.figure.savefig("/dev/null", format="png")


def test_the_pit_figure_shows_the_masses_as_densities() -> None:
    a = np.array([0, 1, 2, 0, 1, 3] * 10)
    rows = Observations(a, np.full(60, 3), a < 3, np.ones(60), None, np.arange(60) % 6)
    test = uniformity(place(Geometric(0.5), rows), resamples=50)
    ax = plot_pit(test)
    assert [bar.get_height() for bar in ax.patches] == pytest.approx(test.masses * 20)
    assert np.sum([bar.get_height() / 20 for bar in ax.patches]) == pytest.approx(1.0)
