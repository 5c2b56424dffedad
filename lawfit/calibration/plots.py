"""Figures of calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lawfit.calibration.pit import PitTest
from lawfit.calibration.reliability import Reliability
from lawfit.chi_square import in_words
from lawfit.plots import COLOURS, FAINT, INK, plain_axes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

_MARKERS = ("o", "s", "^", "D", "v", "P")


def plot_reliability(curves: Mapping[str, Reliability], *, ax: Axes | None = None) -> Axes:
    """Draw the share accepted against the probability promised, in equal-count bins, with 95% intervals.

    Parameters
    ----------
    curves
        Reliability curves by the label to show, from `lawfit.calibration.reliability.reliability`.
    ax
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        The axes drawn on; calibrated points lie on the diagonal.
    """
    axes = plain_axes(ax)
    axes.plot([0.0, 1.0], [0.0, 1.0], color="#8C8C8C", linewidth=1.0, zorder=1)
    for k, (label, curve) in enumerate(curves.items()):
        spread = np.nan_to_num(np.vstack([curve.observed - curve.low, curve.high - curve.observed]))
        axes.errorbar(
            curve.predicted,
            curve.observed,
            yerr=np.maximum(spread, 0.0),
            label=f"{label}: ECE {curve.ece:.3f} (if calibrated {curve.ece_perfect:.3f})",
            fmt=_MARKERS[k % len(_MARKERS)],
            color=COLOURS[k % len(COLOURS)],
            markersize=4.5,
            elinewidth=1.2,
            capsize=2.0,
            zorder=5,
        )
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("acceptance probability promised")
    axes.set_ylabel("share accepted")
    axes.legend(frameon=False, labelcolor=INK, loc="lower right")
    return axes


def plot_pit(test: PitTest, *, ax: Axes | None = None) -> Axes:
    """Draw the histogram of the probability integral transform; level bars are a law that spreads a as observed.

    Parameters
    ----------
    test
        From `lawfit.calibration.pit.uniformity`.
    ax
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        The axes drawn on.
    """
    axes = plain_axes(ax)
    bars = len(test.masses)
    axes.bar((np.arange(bars) + 0.5) / bars, test.masses * bars, width=0.94 / bars, color=FAINT, edgecolor="#8C8C8C")
    axes.axhline(1.0, color=INK, linewidth=1.0)
    axes.set_xlim(0.0, 1.0)
    axes.set_xlabel("place of a in the law's distribution")
    axes.set_ylabel("density")
    title = f"largest gap {test.distance:.3f}, {in_words(test.p_value)} by {'prompts' if test.clustered else 'rounds'}"
    axes.set_title(title, loc="left", fontsize="medium")
    return axes
