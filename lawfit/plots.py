"""Figures: what was observed, and what laws say about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from lawfit.arrays import Floats
from lawfit.curve import Curve, SurvivalCurve
from lawfit.laws.base import Law
from lawfit.survival import MeanForm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart under every common colour blindness; dashes carry the same in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), "-", (0, (5, 1.5)))
INK, FAINT = "#222222", "#D9D9D9"


def plot_curve(curve: Curve, laws: Mapping[str, Law] | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the mean accepted length against entropy: bin means with 95% intervals, and laws as lines.

    Parameters
    ----------
    curve
        Observed bin means, from `lawfit.curve.entropy_curve`.
    laws
        Laws by the label to show.
    ax
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        The axes drawn on.
    """
    axes = plain_axes(ax)
    low, high = curve.interval()
    right = float(curve.entropy[-1]) * 1.04 or 1.0
    grid = np.linspace(0.0, right, 2000)  # fine enough for the steps of an isotonic law
    for k, (label, law) in enumerate((laws or {}).items()):
        form: MeanForm = law.fitted.mean if law.fitted else "truncated"
        axes.plot(grid, _over_horizons(curve, law, grid, form), label=label, **_line(k))
    spread = np.vstack([curve.accept_len - low, high - curve.accept_len])
    label = f"means of {len(curve.entropy)} bins, 95%" + (" by prompt" if curve.clustered else "")
    axes.errorbar(curve.entropy, curve.accept_len, yerr=spread, label=label, zorder=5, **_points())
    axes.set_xlim(-0.02 * right, right)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel(f"{curve.signal.replace('_', ' ')} H (nats)")
    axes.set_ylabel("E[a | H]  (accepted draft tokens, no bonus)")
    _legend(axes)
    return axes


def _over_horizons(curve: Curve, law: Law, entropy: Floats, form: MeanForm) -> Floats:
    """Average the law's mean over the horizons of the observed rounds, so that line and points mean the same."""
    share = curve.rounds @ curve.shares / curve.rounds.sum()
    caps = np.minimum(curve.horizons, law.horizon) if law.ends else curve.horizons
    means = [part * law.mean(entropy, int(cap), form=form) for part, cap in zip(share, caps, strict=True)]
    return np.asarray(sum(means))


def plot_survival(observed: SurvivalCurve, laws: Mapping[str, Law] | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw P[a >= l] against the offset l: the product-limit estimate with 95% intervals, and laws as lines.

    Parameters
    ----------
    observed
        From `lawfit.curve.survival_curve`.
    laws
        Laws by the label to show; a law of entropy is averaged over the observed rounds.
    ax
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        The axes drawn on.
    """
    from matplotlib.ticker import MaxNLocator

    axes = plain_axes(ax)
    for k, (label, law) in enumerate((laws or {}).items()):
        expected = observed.expected(law)
        axes.plot(np.arange(len(expected) + 1), [1.0, *expected], label=label, **_line(k))
    spread = np.vstack([observed.survival - observed.low, observed.high - observed.survival])
    spread = np.nan_to_num(np.maximum(spread, 0.0))
    label = "observed, 95%" + (" by prompt" if observed.clustered else "")
    axes.errorbar(observed.offset, observed.survival, yerr=spread, label=label, zorder=5, **_points())
    axes.set_xlim(-0.1, observed.offset[-1] + 0.3)
    axes.set_ylim(0.0, 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("offset ℓ (draft tokens)")
    axes.set_ylabel("P[a ≥ ℓ]")
    _legend(axes)
    return axes


def new_figure() -> Figure:
    """Make an empty figure that needs no display, leaves no state behind, and saves itself."""
    from matplotlib.figure import Figure

    return Figure(figsize=(6.4, 4.2), dpi=150, layout="constrained")


def plain_axes(ax: Axes | None = None) -> Axes:
    """Make axes, or take ``ax``, in the plain style of all figures: two spines and a faint grid."""
    ax = new_figure().add_subplot() if ax is None else ax
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#8C8C8C")
    ax.tick_params(color="#8C8C8C", labelcolor=INK)
    ax.grid(axis="y", color=FAINT, linewidth=0.7)
    ax.set_axisbelow(True)
    return ax


def _line(k: int) -> dict[str, Any]:
    return {"color": COLOURS[k % len(COLOURS)], "linestyle": DASHES[k % len(DASHES)], "linewidth": 1.8}


def _points() -> dict[str, Any]:
    return {
        "fmt": "o",
        "color": INK,
        "markersize": 4.5,
        "elinewidth": 1.3,
        "capsize": 2.5,
    }


def _legend(axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    # The observed first: matplotlib lists error bars last.
    handles, labels = [handles[-1], *handles[:-1]], [labels[-1], *labels[:-1]]
    axes.legend(handles, labels, frameon=False, labelcolor=INK, handlelength=2.6, loc="upper right")
