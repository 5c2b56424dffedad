from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, kstest

from lawfit import AffineLogit, FreeHazard, Geometric, NotIdentified, Observations
from lawfit.calibration.pit import place, uniformity, within

LAW = AffineLogit(1.3, 0.8, horizon=7)


def rounds(seed: int, n: int = 600, prompts: int = 30, bend: float = 0.0, sd: float = 0.0) -> Observations:
    """Rounds of ``LAW`` with three horizons, some cut at random; ``bend`` moves the log odds by offset."""
    rng = np.random.default_rng(seed)
    entropy, horizon = rng.gamma(0.8, 0.9, n), rng.choice([2, 4, 7], n)
    prompt = np.arange(n) % prompts
    level = rng.normal(0, sd, prompts)[prompt] if sd else 0.0
    logit = (LAW.b0 - LAW.b1 * entropy + level)[:, None] + bend * (np.arange(7) - 2.0)
    run = np.cumprod(rng.random((n, 7)) < 1 / (1 + np.exp(-logit)), axis=1).sum(axis=1)
    cut = np.where(rng.random(n) < 0.2, rng.integers(0, 7, n), 7)
    last = np.minimum(horizon, cut)
    a = np.minimum(run, last)
    return Observations(a, horizon, run < last, np.ones(n), entropy, prompt)


def test_places_are_the_laws_own_probabilities() -> None:
    seen = rounds(1, n=50)
    pit = place(LAW, seen)
    for at in range(50):
        chain = [1.0, *LAW.survival(seen.entropy[at], 8).tolist()]  # type: ignore[index]
        a = int(seen.accept_len[at])
        assert pit.low[at] == pytest.approx(1 - chain[a])
        assert pit.high[at] == pytest.approx(1 - chain[a + 1] if seen.missed[at] else 1.0)


def test_under_the_true_law_draws_are_uniform_censored_rounds_too() -> None:
    rejected = sum(kstest(place(LAW, rounds(seed)).draw(seed), "uniform").pvalue < 0.05 for seed in range(200))
    assert binom.cdf(rejected, 200, 0.05) > 0.001
    assert binom.sf(rejected - 1, 200, 0.05) > 0.001


def test_under_a_wrong_law_they_are_not() -> None:
    assert kstest(place(LAW, rounds(0, bend=0.5)).draw(), "uniform").pvalue < 1e-4
    assert kstest(place(Geometric(0.4), rounds(0)).draw(), "uniform").pvalue < 1e-4


def test_the_test_by_prompts_rejects_the_true_law_as_often_as_it_says() -> None:
    p_values = [uniformity(place(LAW, rounds(seed)), resamples=199, seed=seed).p_value for seed in range(120)]
    rejected = sum(p <= 0.05 for p in p_values)
    assert binom.cdf(rejected, 120, 0.05) > 0.001
    assert binom.sf(rejected - 1, 120, 0.05) > 0.001
    wrong = [uniformity(place(LAW, rounds(seed, bend=0.5)), resamples=199, seed=seed).p_value for seed in range(20)]
    assert sum(p <= 0.05 for p in wrong) >= 18


def test_prompts_with_levels_of_their_own_widen_the_interval() -> None:
    seen = rounds(3, sd=1.0)
    own_rows = replace(seen, cluster=np.arange(len(seen)))
    by_prompt, by_row = (uniformity(place(LAW, either)) for either in (seen, own_rows))
    assert by_prompt.below == pytest.approx(by_row.below)
    assert ((by_prompt.high - by_prompt.low) > (by_row.high - by_row.low)).mean() > 0.8
    assert by_prompt.masses.sum() == pytest.approx(1.0)


def test_the_transform_without_noise_is_the_mean_of_its_draws() -> None:
    pit = place(LAW, rounds(4))
    drawn = np.mean([[(pit.draw(seed) < u).mean() for u in (0.2, 0.5, 0.9)] for seed in range(300)], axis=0)
    assert pit.share_below(np.array([0.2, 0.5, 0.9])).mean(axis=0) == pytest.approx(drawn, abs=0.004)


def test_a_weight_stands_for_repeated_rounds() -> None:
    seen = rounds(5, n=200)
    weight = np.arange(200) % 3 + 1
    rows = np.repeat(np.arange(200), weight)
    repeated = replace(
        seen.take(np.ones(200, dtype=bool)),
        **{
            name: getattr(seen, name)[rows]
            for name in ("accept_len", "horizon", "missed", "weight", "entropy", "cluster")
        },
    )
    a, b = (uniformity(place(LAW, s), resamples=99) for s in (replace(seen, weight=weight.astype(float)), repeated))
    assert a.below == pytest.approx(b.below)
    assert a.p_value == b.p_value


def test_rounds_beyond_a_laws_end_are_censored_there() -> None:
    law = FreeHazard((0.8, 0.7, 0.6))
    seen = within(law, rounds(6))
    assert seen.horizon.max() == seen.accept_len.max() == 3
    assert not seen.missed[seen.accept_len == 3].any()
    assert (place(law, rounds(6)).high[seen.accept_len == 3] == 1.0).all()


def test_nameless_rounds_are_tested_as_independent() -> None:
    seen = replace(rounds(7), cluster=None)
    weight = np.arange(len(seen)) % 3 + 1.0
    one_by_one = np.repeat(np.arange(len(seen)), weight.astype(int))
    names = ("accept_len", "horizon", "missed", "entropy")
    repeated = replace(
        seen, weight=np.ones(len(one_by_one)), **{name: getattr(seen, name)[one_by_one] for name in names}
    )
    a, b = (uniformity(place(LAW, either)) for either in (replace(seen, weight=weight), repeated))
    assert not a.clustered
    assert a.below == pytest.approx(b.below)
    assert a.high - a.low == pytest.approx(b.high - b.low, rel=0.15)
    assert a.p_value == pytest.approx(b.p_value, abs=0.05)
    assert uniformity(place(LAW, rounds(7))).clustered


def test_of_one_prompt_or_round_there_is_no_test() -> None:
    seen = rounds(7)
    for alone in (seen.take(seen.cluster == 3), replace(seen, cluster=None).take(np.arange(len(seen)) == 3)):
        with pytest.raises(NotIdentified, match="at least two prompts, or rounds"):
            uniformity(place(LAW, alone))
    with pytest.raises(NotIdentified, match="needs"):
        place(LAW, replace(seen, entropy=None))
