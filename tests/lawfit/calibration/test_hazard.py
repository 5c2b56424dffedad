from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from lawfit import FitError, NotIdentified, RoundLog
from lawfit.calibration.features import columns
from lawfit.calibration.hazard import PENALTIES, LogisticHazard
from lawfit.calibration.nodes import NodeTable, spine_nodes

NAMES = ("confidence", "offset", "prev_entropy")


def test_it_is_the_ridge_regression_of_scikit_learn_on_standardised_features(nodes: NodeTable) -> None:
    hazard = LogisticHazard.fit(nodes, features=NAMES, penalty=20.0)
    x = columns(nodes, NAMES)
    model = LogisticRegression(C=1 / 20.0, tol=1e-12, max_iter=5000).fit(
        (x - x.mean(axis=0)) / x.std(axis=0), nodes.accepted
    )
    assert hazard.coef == pytest.approx([*model.intercept_, *model.coef_[0]], abs=1e-5)
    assert hazard.probability(nodes) == pytest.approx(
        model.predict_proba((x - x.mean(axis=0)) / x.std(axis=0))[:, 1], abs=1e-5
    )


def test_a_weight_stands_for_repeated_rounds(nodes: NodeTable) -> None:
    weight = np.arange(len(nodes)) % 3 + 1
    weighted = NodeTable(nodes.frame.with_columns(weight=pl.Series(weight)))
    repeated = NodeTable(nodes.frame[np.repeat(np.arange(len(nodes)), weight).tolist()])
    fits = [LogisticHazard.fit(table, features=NAMES, penalty=5.0) for table in (weighted, repeated)]
    assert fits[0].coef == pytest.approx(fits[1].coef)
    assert fits[0].scale == pytest.approx(fits[1].scale)


def test_nodes_that_were_not_reached_do_not_count(chain: Callable[..., RoundLog]) -> None:
    every = spine_nodes(chain(5, prompts=6))
    assert len(every) > len(every.at_risk())
    fits = [LogisticHazard.fit(table, features=NAMES, penalty=1.0) for table in (every, every.at_risk())]
    assert fits[0] == fits[1]


def test_cross_validation_shrinks_features_of_noise_and_trusts_a_strong_one(chain: Callable[..., RoundLog]) -> None:
    strong = spine_nodes(chain(1, prompts=30))
    assert LogisticHazard.fit(strong).penalty <= 10.0
    rng = np.random.default_rng(0)
    noise = strong.at_risk().frame.head(60)
    noise = noise.with_columns(
        accepted=pl.Series(rng.random(60) < 0.5), prompt=pl.Series([f"p{k % 12}" for k in range(60)])
    )
    fitted = LogisticHazard.fit(NodeTable(noise))
    assert fitted.penalty in PENALTIES
    assert fitted.penalty >= 100.0
    assert np.abs(fitted.coef[1:]).max() < 0.1


def test_without_five_named_prompts_the_penalty_is_one(nodes: NodeTable) -> None:
    nameless = NodeTable(nodes.frame.with_columns(prompt=pl.lit(None, pl.String)))
    assert LogisticHazard.fit(nameless).penalty == 1.0
    assert LogisticHazard.fit(nodes.take((nodes.frame["prompt"] == "p0").to_numpy())).penalty == 1.0


def test_a_feature_that_splits_the_outcomes_stays_finite(nodes: NodeTable) -> None:
    split = NodeTable(nodes.frame.with_columns(prev_entropy=pl.col("accepted").cast(pl.Float64)))
    hazard = LogisticHazard.fit(split, features=("prev_entropy",), penalty=1.0)
    assert 1.0 < hazard.coef[1] < 20.0


def test_one_outcome_cannot_be_fitted(nodes: NodeTable) -> None:
    with pytest.raises(NotIdentified, match="every trial succeeded"):
        LogisticHazard.fit(NodeTable(nodes.frame.filter("accepted")), features=NAMES, penalty=1.0)


def test_an_unknown_feature_is_refused(nodes: NodeTable) -> None:
    with pytest.raises(FitError, match="feature 'root_entropy', expected one of confidence"):
        LogisticHazard.fit(nodes, features=("root_entropy",))


@pytest.mark.parametrize(
    "change",
    [
        {"features": ("confidence", "confidence", "offset")},
        {"features": ("confidence", "nonsense", "offset")},
        {"coef": (0.0, 1.0)},
        {"scale": (1.0, 0.0, 1.0)},
        {"centre": (float("nan"), 0.0, 0.0)},
        {"penalty": -1.0},
    ],
)
def test_values_that_no_fit_gives_are_refused(change: dict[str, object]) -> None:
    sound = LogisticHazard(NAMES, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (0.0, 1.0, 1.0, 1.0), 1.0)
    with pytest.raises(FitError):
        replace(sound, **change)  # type: ignore[arg-type]
