from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from lawfit import AffineLogit, FreeHazard, Isotonic, RoundLog, TwoState, observe
from lawfit.drift.refit import NO_ERRORS, Refit, refit
from lawfit.laws.details import matrix


def test_the_statistic_is_walds_with_both_covariances(world: Callable[..., RoundLog]) -> None:
    law, new = AffineLogit.fit(world(1)), AffineLogit.fit(world(2))
    found = refit(law, observe(world(2)))
    assert isinstance(found, Refit)
    assert found.fitted == (new.b0, new.b1)
    assert law.fitted is not None
    assert new.fitted is not None
    total = np.array(law.fitted.cluster_covariance) + np.array(new.fitted.cluster_covariance)
    move = np.array([new.b0 - law.b0, new.b1 - law.b1])
    assert found.wald == pytest.approx(move @ np.linalg.solve(total, move))


def test_recalibration_maps_the_stored_log_odds_to_the_new_ones(world: Callable[..., RoundLog]) -> None:
    law = AffineLogit.fit(world(1))
    found = refit(law, observe(world(2, slope=0.4)))
    assert isinstance(found, Refit)
    assert found.recalibration is not None
    intercept, slope = found.recalibration
    h = np.linspace(0, 4, 9)
    assert intercept + slope * (law.b0 - law.b1 * h) == pytest.approx(found.fitted[0] - found.fitted[1] * h)
    assert slope == pytest.approx(0.4 / 0.9, abs=0.1)


@pytest.mark.parametrize("kind", [AffineLogit, FreeHazard])
def test_a_replication_is_rejected_as_often_as_the_level_says(kind: type, world: Callable[..., RoundLog]) -> None:
    rejected = 0
    for seed in range(100):
        found = refit(kind.fit(world(1000 + seed, rounds=15)), observe(world(seed, rounds=15)))
        assert isinstance(found, Refit)
        rejected += found.p_value < 0.05
    assert binom.cdf(rejected, 100, 0.05) > 0.001
    assert binom.sf(rejected - 1, 100, 0.05) > 0.001


def test_why_there_is_no_comparison_is_said(world: Callable[..., RoundLog]) -> None:
    seen = observe(world(1))
    assert seen.cluster is not None
    assert refit(AffineLogit.fit(seen), seen.take(seen.cluster < 3)) == "3 prompts are too few for 2 coefficients"
    assert refit(Isotonic.fit(seen), seen) == "no errors by prompt"
    nameless = replace(seen, cluster=None)
    assert refit(Isotonic.fit(seen), nameless) == "no standard errors"
    assert "at infinity" in str(refit(AffineLogit(1.0, 1.0, 8), seen.take(seen.accept_len == 8)))


def test_without_prompts_the_errors_are_those_of_independent_rounds(world: Callable[..., RoundLog]) -> None:
    law, nameless = AffineLogit(1.2, 0.9, 8), replace(observe(world(2)), cluster=None)
    found = refit(law, nameless)
    assert isinstance(found, Refit)
    new = AffineLogit.fit(nameless)
    assert new.fitted is not None
    move = np.array([new.b0 - law.b0, new.b1 - law.b1])
    assert found.wald == pytest.approx(move @ np.linalg.solve(np.array(new.fitted.covariance), move))


def test_where_the_stored_coefficients_have_no_errors_there_is_no_shape_test(world: Callable[..., RoundLog]) -> None:
    law = TwoState.fit(world(1))
    assert law.fitted is not None
    bare = replace(law, fitted=replace(law.fitted, covariance=None, cluster_covariance=None))
    assert refit(bare, observe(world(2))) == NO_ERRORS


def test_a_coefficient_stored_on_its_edge_is_not_tested(world: Callable[..., RoundLog]) -> None:
    law, seen = FreeHazard.fit(world(1)), observe(world(2))
    assert law.fitted is not None
    assert law.fitted.cluster_covariance is not None
    wide = np.array(law.fitted.cluster_covariance)
    wide[0, :] = wide[:, 0] = np.nan
    edge = replace(law, hazards=(1.0, *law.hazards[1:]), fitted=replace(law.fitted, cluster_covariance=matrix(wide)))
    whole, part = refit(law, seen), refit(edge, seen)
    assert isinstance(whole, Refit)
    assert isinstance(part, Refit)
    assert part.wald <= whole.wald
    assert part.p_value > 0.001


def test_two_states_that_hardly_differ_are_rejected_no_more_often_than_the_level_says(
    world: Callable[..., RoundLog],
) -> None:
    found = [refit(TwoState.fit(world(1000 + k, rounds=15)), observe(world(k, rounds=15))) for k in range(40)]
    tested = [part for part in found if isinstance(part, Refit)]
    assert len(tested) > 10
    assert binom.sf(sum(part.p_value < 0.05 for part in tested) - 1, len(tested), 0.05) > 0.01
