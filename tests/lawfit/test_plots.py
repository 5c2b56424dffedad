from __future__ import annotations

from pathlib import Path

import numpy as np

from lawfit import LAWS, RoundLog, observe
from lawfit.curve import entropy_curve, survival_curve
from lawfit.plots import new_figure, plot_curve, plot_survival


def test_figures_name_their_axes_with_units_and_every_law(synthetic: RoundLog, tmp_path: Path) -> None:
    seen = observe(synthetic)
    laws = {name: law.fit(seen) for name, law in LAWS.items()}
    for axes, x, y in (
        (
            plot_curve(entropy_curve(seen), laws),
            "root entropy H (nats)",
            "E[a | H]  (accepted draft tokens, no bonus)",
        ),
        (plot_survival(survival_curve(seen), laws), "offset ℓ (draft tokens)", "P[a ≥ ℓ]"),
    ):
        assert (axes.get_xlabel(), axes.get_ylabel()) == (x, y)
        legend = axes.get_legend()
        assert legend is not None
        texts = [text.get_text() for text in legend.get_texts()]
        assert "by prompt" in texts[0]
        assert texts[1:] == list(LAWS)
        axes.figure.savefig(tmp_path / "figure.png")  # type: ignore[union-attr]


def test_a_given_axes_is_drawn_on_and_laws_are_optional(synthetic: RoundLog) -> None:
    axes = new_figure().add_subplot()
    assert plot_curve(entropy_curve(observe(synthetic)), ax=axes) is axes


def test_one_prompt_draws_no_interval_and_raises_no_warning(synthetic: RoundLog, tmp_path: Path) -> None:
    seen = observe(synthetic)
    assert seen.cluster is not None
    one = seen.take(seen.cluster == 0)
    for axes in (plot_curve(entropy_curve(one)), plot_survival(survival_curve(one))):
        axes.figure.savefig(tmp_path / "figure.png")  # type: ignore[union-attr]
    assert np.isnan(entropy_curve(one).se).all()
