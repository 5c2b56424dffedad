from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm

from lawfit import FitError, FreeHazard, NotIdentified, RoundLog, observe


def rounds(a: list[int], **more: object) -> RoundLog:
    return RoundLog.from_frame(pl.DataFrame({"accept_len": a, "horizon": [4] * len(a), **more}))


def test_hazards_are_the_shares_that_continue_among_those_at_risk() -> None:
    assert FreeHazard.fit(rounds([0, 1, 2, 4])).hazards == pytest.approx((3 / 4, 2 / 3, 1 / 2, 1.0))


def test_covariances_equal_those_of_a_saturated_cluster_glm(synthetic: RoundLog) -> None:
    seen = observe(synthetic)
    law = FreeHazard.fit(seen)
    rows = np.repeat(np.arange(len(seen)), seen.trials)
    offset = np.concatenate([np.arange(t) for t in seen.trials])
    matched = (offset < seen.accept_len[rows]).astype(float)
    assert seen.cluster is not None
    model = sm.OLS(matched, np.eye(8)[offset])  # linear in the hazards, so its sandwich is theirs
    oracle = model.fit(cov_type="cluster", cov_kwds={"groups": seen.cluster[rows]})
    assert law.fitted is not None
    assert law.hazards == pytest.approx(oracle.params)
    assert np.array(law.fitted.cluster_covariance) == pytest.approx(oracle.cov_params(), abs=1e-12)
    h, at_risk = np.array(law.hazards), np.bincount(offset)
    assert np.diag(law.fitted.covariance) == pytest.approx(h * (1 - h) / at_risk)  # type: ignore[arg-type]


def test_the_law_ends_at_the_last_offset_that_was_reached() -> None:
    law = FreeHazard.fit(rounds([0, 1, 1]))
    assert law.hazards == pytest.approx((2 / 3, 0.0))
    assert law.fitted is not None
    assert "no round reached offset 3 of 4" in law.fitted.notes[-1]
    assert np.isnan(law.fitted.se["h2"])  # type: ignore[index]
    assert law.mean(horizon=2) == pytest.approx(2 / 3)
    with pytest.raises(NotIdentified, match="ends at 2"):
        law.mean(horizon=3)
    with pytest.raises(NotIdentified, match="offset 4 was asked for"):
        law.log_likelihood(rounds([4]))


def test_rounds_that_saw_no_offset_identify_nothing() -> None:
    with pytest.raises(NotIdentified, match="no round saw offset 1"):
        FreeHazard.fit(rounds([0], truncated=[True]))


def test_a_law_from_printed_hazards_is_checked() -> None:
    assert FreeHazard((0.5, 0.25)).survival().tolist() == [0.5, 0.125]
    for hazards in ((), (0.5, 1.5)):
        with pytest.raises(FitError):
            FreeHazard(hazards)


def test_no_law_of_one_hazard_per_offset_has_a_larger_likelihood(synthetic: RoundLog) -> None:
    law = FreeHazard.fit(synthetic)
    for k in range(law.horizon):
        moved = list(law.hazards)
        moved[k] -= 0.01
        assert FreeHazard(tuple(moved)).log_likelihood(synthetic) < law.log_likelihood(synthetic)


def test_a_deep_log_is_fitted_without_errors_and_says_so() -> None:
    deep = RoundLog.from_frame(
        pl.DataFrame({"accept_len": [9_990, 3, 0], "horizon": 10_000, "prompt_id": ["a", "b", "c"]})
    )
    law = FreeHazard.fit(deep)
    assert law.fitted is not None
    assert law.horizon == 9_991
    assert law.fitted.se is law.fitted.cluster_se is None
    assert "9991 offsets: no standard errors, which are given up to 128 offsets" in law.fitted.notes
    assert len(law.to_json()) < 1_000_000
