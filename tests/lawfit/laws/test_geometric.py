from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from lawfit import FitError, Geometric, NotIdentified, RoundLog
from lawfit.logistic import fit_logistic
from lawfit.observations import observe


def rounds(a: list[int], **more: object) -> RoundLog:
    return RoundLog.from_frame(pl.DataFrame({"accept_len": a, "horizon": [4] * len(a), **more}))


def test_the_estimate_is_matches_over_offsets_seen() -> None:
    # 0: miss; 2: two matches and a miss; 4: four matches, censored.
    assert Geometric.fit(rounds([0, 2, 4])).match_prob == pytest.approx(6 / 8)


def test_its_errors_are_the_logistic_ones_by_the_delta_method(synthetic: RoundLog) -> None:
    law, seen = Geometric.fit(synthetic), observe(synthetic)
    logit = fit_logistic(np.ones((len(seen), 1)), seen.accept_len, seen.trials, cluster=seen.cluster)
    slope = law.match_prob * (1 - law.match_prob)
    details = law.fitted
    assert details is not None
    assert details.se is not None
    assert details.cluster_se is not None
    assert logit.cluster_covariance is not None
    assert details.se["match_prob"] == pytest.approx(slope * np.sqrt(logit.covariance[0, 0]))
    assert details.cluster_se["match_prob"] == pytest.approx(slope * np.sqrt(logit.cluster_covariance[0, 0]))
    assert details.log_likelihood == pytest.approx(logit.log_likelihood)


@pytest.mark.parametrize(("a", "match_prob"), [([4, 4, 4], 1.0), ([0, 0], 0.0)])
def test_at_the_boundary_the_estimate_has_no_standard_error(a: list[int], match_prob: float) -> None:
    law = Geometric.fit(rounds(a))
    assert law.match_prob == match_prob
    assert law.fitted is not None
    assert law.fitted.se is None
    assert "boundary" in law.fitted.notes[-1]
    assert law.fitted.log_likelihood == 0.0


def test_it_needs_no_entropy_but_follows_its_shape() -> None:
    law = Geometric(0.5, 3)
    assert law.survival().tolist() == [0.5, 0.25, 0.125]
    assert law.mean([0.1, 9.0]).tolist() == [0.875, 0.875]


def test_rounds_cut_before_offset_one_say_nothing() -> None:
    with pytest.raises(NotIdentified, match="cut before its first offset"):
        Geometric.fit(rounds([0], truncated=[True]))
    with pytest.raises(NotIdentified, match="every horizon is 0"):
        Geometric.fit(RoundLog.from_frame(pl.DataFrame({"accept_len": [0], "horizon": [0]})))


def test_a_hazard_is_a_probability() -> None:
    for match_prob in (-0.1, 1.1, np.nan):
        with pytest.raises(FitError, match="expected a probability"):
            Geometric(match_prob)
