"""The direction of the hazard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm

from lawfit import FreeHazard, NotIdentified, Observations, RoundLog, observe
from lawfit.curve import entropy_curve
from lawfit.hazard_trend import hazard_trend

DFLASH = Path(__file__).parents[3] / "shared" / "data" / "public-logs" / "dflash_v5_rounds.csv"


def test_it_equals_the_glm_on_expanded_rows(synthetic: RoundLog) -> None:
    rows = observe(synthetic)
    assert rows.cluster is not None
    row = np.repeat(np.arange(len(rows)), rows.trials)
    offset = np.concatenate([np.arange(1, t + 1) for t in rows.trials])
    x = np.stack([np.ones(len(row)), offset], axis=1)
    y = (offset <= rows.accept_len[row]).astype(float)
    glm = sm.GLM(y, x, family=sm.families.Binomial()).fit(
        tol=1e-14, cov_type="cluster", cov_kwds={"groups": rows.cluster[row]}
    )
    trend = hazard_trend(rows)
    assert (trend.slope, trend.se) == pytest.approx((glm.params[1], glm.bse[1]), rel=1e-8)
    assert trend.first == pytest.approx(glm.predict([[1.0, 1.0]])[0])
    assert trend.clustered


@pytest.mark.parametrize(("dataset", "slope", "se"), [("gsm8k", -0.015, 0.011), ("math500", -0.001, 0.011)])
def test_the_hazard_of_the_dflash_log_is_constant(dataset: str, slope: float, se: float) -> None:
    if not DFLASH.exists():
        pytest.skip("the public DFlash log is not on this machine")
    frame = pl.read_csv(DFLASH).filter(~pl.col("is_warmup") & (pl.col("dataset") == dataset))
    prompt = pl.col("sample").cast(pl.String)
    trend = hazard_trend(observe(RoundLog.from_frame(frame.select(accept_len="a", horizon=15, prompt_id=prompt))))
    assert (trend.slope, trend.se) == pytest.approx((slope, se), abs=6e-4)
    assert trend.direction == "shows no trend"


def test_it_rises_over_all_of_humaneval_and_falls_in_its_lowest_decile(humaneval_rounds: Observations) -> None:
    assert hazard_trend(humaneval_rounds).direction == "rises"
    floor = humaneval_rounds.take(entropy_curve(humaneval_rounds).bin == 0)
    assert hazard_trend(floor).direction == "falls"
    hazards = FreeHazard.fit(floor).hazards
    assert (hazards[0], hazards[-1]) == pytest.approx((0.978, 0.850), abs=1e-3)


def test_one_offset_has_no_trend() -> None:
    rows = Observations(np.array([0, 1]), np.array([1, 1]), np.array([True, False]), np.ones(2))
    with pytest.raises(NotIdentified, match="1 offsets were seen, a trend needs two"):
        hazard_trend(rows)
