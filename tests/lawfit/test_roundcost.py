"""The regression of round time on draft passes."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from lawfit import FitError, NotIdentified, RoundLog
from lawfit.roundcost import RoundCost, fit_round_cost


def rounds(seed: int = 0, n: int = 400) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    prompt, passes = rng.integers(0, 20, n), rng.choice([3, 5, 8, 10], n)
    ms = 24.8 + 1.82 * passes + rng.normal(0, 1.0, 20)[prompt] + rng.normal(0, 0.5, n)
    return pl.DataFrame(
        {
            "prompt_id": [f"p{k}" for k in prompt],
            "accept_len": np.zeros(n, dtype=int),
            "horizon": np.ones(n, dtype=int),
            "draft_passes": passes,
            "round_ms": ms,
        }
    )


def test_the_papers_line_grows_by_38_4_percent_from_two_passes_to_eight() -> None:
    cost = RoundCost(24.8, 1.82)
    assert cost.growth(2, 8) == pytest.approx(0.384, abs=5e-5)
    assert cost.ms([2, 8]) == pytest.approx([28.44, 39.36])
    assert np.isnan(cost.se).all()


@pytest.mark.parametrize("clustered", [True, False])
def test_estimate_and_errors_are_those_of_statsmodels(clustered: bool) -> None:
    import statsmodels.api as sm

    frame = rounds()
    cost = fit_round_cost(RoundLog.from_frame(frame if clustered else frame.drop("prompt_id")))
    model = sm.OLS(frame["round_ms"].to_numpy(), sm.add_constant(frame["draft_passes"].to_numpy().astype(float)))
    groups = frame["prompt_id"].rank("dense").to_numpy()
    fit = model.fit(cov_type="cluster", cov_kwds={"groups": groups}) if clustered else model.fit()
    assert (cost.base_ms, cost.pass_ms) == pytest.approx(tuple(fit.params))
    assert cost.se == pytest.approx(tuple(fit.bse))
    assert cost.clustered is clustered


def test_a_row_of_count_two_is_two_rows_and_rows_without_a_time_are_left_out() -> None:
    frame = rounds(n=60).drop("prompt_id")
    holes = frame.with_columns(round_ms=pl.lit(None, pl.Float64))
    doubled = fit_round_cost(
        RoundLog.from_frame(pl.concat([frame.with_columns(count=pl.lit(2)).select(*frame.columns), holes]))
    )
    assert doubled.rounds == 60
    counted = fit_round_cost(RoundLog.from_frame(frame.with_columns(count=pl.lit(2))))
    written_out = fit_round_cost(RoundLog.from_frame(pl.concat([frame, frame])))
    assert counted.covariance == pytest.approx(written_out.covariance)
    assert counted.rounds == written_out.rounds == 120


def test_what_cannot_be_told_is_refused() -> None:
    frame = rounds(n=30)
    with pytest.raises(NotIdentified, match="every round has 4 draft passes"):
        fit_round_cost(RoundLog.from_frame(frame.with_columns(draft_passes=pl.lit(4))))
    with pytest.raises(NotIdentified, match="no round has both"):
        fit_round_cost(RoundLog.from_frame(frame.drop("round_ms")))
    with pytest.raises(FitError, match="2 rounds"):
        fit_round_cost(RoundLog.from_frame(frame.unique("draft_passes", maintain_order=True).head(2)))
