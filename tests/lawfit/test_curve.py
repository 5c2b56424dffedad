from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lawfit import AffineLogit, FitError, FreeHazard, NotIdentified, Observations, RoundLog, observe
from lawfit.curve import entropy_curve, round_r_squared, survival_curve


def plain(a: list[int], entropy: list[float] | None, weight: list[float] | None = None) -> Observations:
    return Observations(
        np.array(a),
        np.full(len(a), 4),
        np.array(a) < 4,
        np.array(weight or [1.0] * len(a)),
        None if entropy is None else np.array(entropy),
    )


def test_bins_hold_equally_many_rounds() -> None:
    curve = entropy_curve(plain([4, 3, 2, 1, 0, 0], [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]), bins=3)
    assert curve.accept_len.tolist() == [3.5, 1.5, 0.0]
    assert curve.entropy == pytest.approx([0.05, 0.25, 0.45])
    assert curve.low.tolist() == [0.0, 0.2, 0.4]


@pytest.mark.parametrize("edges", ["count", "quantile"])
def test_a_weight_stands_for_repeated_rounds(edges: str) -> None:
    rng = np.random.default_rng(0)
    a, entropy, weight = rng.integers(0, 5, 50), rng.random(50), rng.integers(1, 5, 50)
    weight[:] = 2
    rows = np.repeat(np.arange(50), weight)
    once = entropy_curve(plain(a.tolist(), entropy.tolist(), weight.tolist()), bins=5, edges=edges)  # type: ignore[arg-type]
    again = entropy_curve(plain(a[rows].tolist(), entropy[rows].tolist()), bins=5, edges=edges)  # type: ignore[arg-type]
    assert once.accept_len == pytest.approx(again.accept_len)
    assert once.rounds == pytest.approx(again.rounds)
    assert once.se == pytest.approx(again.se)


def test_quantile_edges_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    a, entropy = rng.integers(0, 5, 97), np.round(rng.random(97), 2)
    curve = entropy_curve(plain(a.tolist(), entropy.tolist()), edges="quantile")
    cuts = np.quantile(entropy, np.linspace(0, 1, 11))[1:-1]
    bins = np.searchsorted(cuts, entropy, side="right")
    assert curve.accept_len == pytest.approx([a[bins == d].mean() for d in range(10)])


def test_tied_entropies_leave_empty_quantile_bins_out() -> None:
    curve = entropy_curve(plain([4, 3, 2, 1], [0.0, 0.0, 0.0, 1.0]), edges="quantile")
    assert curve.rounds.sum() == 4
    assert len(curve.rounds) < 10


def test_the_curve_r2_of_a_law_that_hits_every_bin_mean_is_one() -> None:
    law = AffineLogit(1.0, 1.0, 4)
    curve = entropy_curve(plain([4, 3, 1, 0], [0.0, 0.2, 1.0, 2.0]), bins=4)
    exact = replace(curve, accept_len=law.mean(curve.entropy))
    assert exact.r_squared(law) == pytest.approx(1.0)
    assert curve.r_squared(law) < 1.0


def test_bins_of_mixed_horizons_expect_the_mixture() -> None:
    seen = replace(plain([1, 1, 1, 1], [0.5] * 4), horizon=np.array([1, 1, 1, 3]))
    law = AffineLogit(1.0, 1.0)
    curve = entropy_curve(seen, bins=1)
    expected = 0.75 * law.mean(0.5, 1) + 0.25 * law.mean(0.5, 3)
    assert curve.expected(lambda cap: law.mean(curve.entropy, cap)) == pytest.approx([expected])


def test_the_mean_interval_covers_repeated_clusters_no_tighter_than_the_clusters() -> None:
    a = [0, 4, 0, 4, 0, 4, 4, 0]
    once = replace(plain(a, [0.1] * 8), cluster=np.arange(8))
    tenfold = replace(plain(a * 10, [0.1] * 80), cluster=np.tile(np.arange(8), 10))
    assert entropy_curve(tenfold, bins=1).se == pytest.approx(entropy_curve(once, bins=1).se, rel=1e-12)


def test_round_r2_of_the_mean_is_zero_and_of_a_constant_undefined() -> None:
    seen = plain([0, 1, 2, 3], None)
    law = FreeHazard((0.75, 2 / 3, 0.5, 0.0))
    assert law.mean() == pytest.approx(1.5)
    assert round_r_squared(law, seen) == pytest.approx(0.0)
    assert np.isnan(round_r_squared(law, plain([2, 2], None)))


def test_observed_survival_is_the_product_limit_estimate() -> None:
    seen = replace(plain([0, 1, 2, 4, 1], None), missed=np.array([True, True, True, False, False]))
    curve = survival_curve(seen)
    assert curve.survival == pytest.approx([4 / 5, 4 / 5 * 2 / 3, 4 / 5 * 2 / 3 / 2, 4 / 5 * 2 / 3 / 2])
    assert (curve.low <= curve.survival).all()
    assert (curve.high <= 1.0).all()


def test_without_censoring_survival_errors_are_those_of_a_share() -> None:
    a = [0] * 30 + [1] * 20 + [2] * 50
    curve = survival_curve(replace(plain(a, None), horizon=np.full(100, 2), missed=np.array(a) < 2))
    assert np.log(curve.high[1] / curve.survival[1]) / 1.96 == pytest.approx(0.05 / 0.5, rel=1e-3)


def test_expected_survival_averages_a_law_over_the_rounds(synthetic: RoundLog) -> None:
    seen = observe(synthetic)
    law = AffineLogit.fit(seen)
    curve = survival_curve(seen)
    assert seen.entropy is not None
    assert curve.expected(law) == pytest.approx(law.survival(seen.entropy, 8).mean(axis=0))
    free = FreeHazard.fit(seen)
    assert curve.expected(free) == pytest.approx(curve.survival)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(NotIdentified):
        entropy_curve(plain([1], None))
    with pytest.raises(FitError, match="bins is 0"):
        entropy_curve(plain([1], [0.1]), bins=0)
    with pytest.raises(NotIdentified, match="no round saw"):
        survival_curve(replace(plain([0], None), missed=np.array([False])))


def test_equal_means_that_binary_fractions_cannot_write_have_no_r_squared() -> None:
    from lawfit.curve import r_squared

    means = np.array([0.1 + 0.2, 0.3, 0.3])
    assert np.isnan(r_squared(means, np.full(3, 0.4), np.ones(3)))
