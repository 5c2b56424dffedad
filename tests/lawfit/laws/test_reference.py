"""The reference values of public logs: HumanEval (strict verification) and DFlash."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from lawfit import AffineLogit, FreeHazard, Geometric, Isotonic, Observations, RoundLog
from lawfit.curve import entropy_curve, round_r_squared, survival_curve
from lawfit.risk import risk_table

PUBLIC = Path(__file__).parents[3] / ".." / "shared" / "data" / "public-logs"
DFLASH = PUBLIC / "dflash_v5_rounds.csv"


def test_sample(humaneval_rounds: Observations) -> None:
    assert humaneval_rounds.rounds == 54798
    assert humaneval_rounds.clusters == 164
    assert humaneval_rounds.mean_accept_len == pytest.approx(1.757601, abs=1e-6)
    assert survival_curve(humaneval_rounds).survival[-1] == pytest.approx(0.132943, abs=1e-6)


def test_risk_table_and_hazards(humaneval_rounds: Observations) -> None:
    table = risk_table(humaneval_rounds)
    assert table.at_risk.tolist() == [54798, 32739, 21213, 14872, 11178, 9026]
    assert table.misses.tolist() == [22059, 11526, 6341, 3694, 2152, 1741]
    hazards = FreeHazard.fit(humaneval_rounds).hazards
    assert hazards == pytest.approx((0.5975, 0.6479, 0.7011, 0.7516, 0.8075, 0.8071), abs=1e-4)


def test_geometric_and_the_ratio_against_free_hazards(humaneval_rounds: Observations) -> None:
    geometric, free = Geometric.fit(humaneval_rounds), FreeHazard.fit(humaneval_rounds)
    assert geometric.match_prob == pytest.approx(0.669649, abs=1e-6)
    gain = free.log_likelihood(humaneval_rounds) - geometric.log_likelihood(humaneval_rounds)
    assert 2 * gain == pytest.approx(3792.12, abs=0.01)


def test_maximum_likelihood(humaneval: RoundLog) -> None:
    law = AffineLogit.fit(humaneval, last_round="drop")
    details = law.fitted
    assert details is not None
    assert (law.b0, law.b1, law.horizon) == (
        pytest.approx(1.500284, abs=1e-6),
        pytest.approx(1.145272, abs=1e-6),
        6,
    )
    assert details.se == pytest.approx({"b0": 0.0083, "b1": 0.0079}, abs=5e-5)
    assert details.cluster_se == pytest.approx({"b0": 0.0249, "b1": 0.0173}, abs=5e-5)
    # Read from single-precision entropies, as logged.
    assert details.log_likelihood == pytest.approx(-78208.849, abs=0.002)


def test_least_squares_on_deciles(humaneval_rounds: Observations) -> None:
    law = AffineLogit.fit(humaneval_rounds, method="ls-deciles")
    assert (law.b0, law.b1) == (pytest.approx(1.67071, abs=1e-4), pytest.approx(1.63286, abs=2e-4))
    assert law.fitted is not None
    assert law.fitted.curve_r2 == pytest.approx(0.88243, abs=1e-5)


@pytest.mark.parametrize(
    ("mean", "coefficients", "curve_r2", "round_r2"),
    [
        ("capped", (1.27348, 1.25867), 0.91274, 0.37619),
        ("truncated", (1.66770, 1.63263), 0.88212, 0.36390),
    ],
)
def test_least_squares_on_rounds(
    mean: str,
    coefficients: tuple[float, float],
    curve_r2: float,
    round_r2: float,
    humaneval_rounds: Observations,
) -> None:
    law = AffineLogit.fit(humaneval_rounds, method="ls-rounds", mean=mean)  # type: ignore[arg-type]
    assert (law.b0, law.b1) == pytest.approx(coefficients, abs=1e-5)
    quantiles = entropy_curve(humaneval_rounds, edges="quantile")
    assert quantiles.r_squared(law, mean) == pytest.approx(curve_r2, abs=1e-5)  # type: ignore[arg-type]
    assert law.fitted is not None
    assert law.fitted.round_r2 == pytest.approx(round_r2, abs=1e-5)


def test_round_r2_of_both_estimators(humaneval_rounds: Observations) -> None:
    least_squares = AffineLogit.fit(humaneval_rounds, method="ls-deciles")
    assert round_r_squared(least_squares, humaneval_rounds) == pytest.approx(0.36389, abs=1e-5)
    assert round_r_squared(AffineLogit.fit(humaneval_rounds), humaneval_rounds) == pytest.approx(0.35234, abs=1e-5)


def test_isotonic_curve_r2_on_its_own_deciles_is_one(humaneval_rounds: Observations) -> None:
    law = Isotonic.fit(humaneval_rounds, method="ls-deciles")
    assert law.fitted is not None
    assert law.fitted.curve_r2 == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(
    ("dataset", "rounds", "mean", "match_prob"),
    [("gsm8k", 742, 4.919, 0.8408), ("math500", 611, 6.935, 0.8954)],
)
def test_dflash_geometric(dataset: str, rounds: int, mean: float, match_prob: float) -> None:
    if not DFLASH.exists():
        pytest.skip("the public DFlash log is not on this machine")
    frame = pl.read_csv(DFLASH).filter(~pl.col("is_warmup") & (pl.col("dataset") == dataset))
    law = Geometric.fit(RoundLog.from_frame(frame.select(accept_len="a", horizon=pl.lit(15))))
    assert law.fitted is not None
    assert law.fitted.rounds == rounds
    assert law.fitted.mean_accept_len == pytest.approx(mean, abs=1e-3)
    assert law.match_prob == pytest.approx(match_prob, abs=5e-5)
