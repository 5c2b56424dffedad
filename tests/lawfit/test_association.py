"""Correlations, gaps, the noise ceiling, and comparisons of groups by prompt."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, spearmanr

from lawfit import FitError, NotIdentified, Observations
from lawfit.association import decile_gap, midranks, partial_correlation, spearman, weighted_median, within_quintile_gap
from lawfit.ceiling import noise_ceiling
from lawfit.prompt_tests import compare

N = 1200


def rounds(seed: int, *, slope: float = 1.0, level: float = 0.0, prompts: int = 60) -> Observations:
    rng = np.random.default_rng(seed)
    prompt = rng.integers(0, prompts, N)
    entropy = np.round(rng.gamma(0.8, 1.0, N), 2)
    effect = rng.normal(0, level, prompts)[prompt]
    match = 1 / (1 + np.exp(-(1.0 + effect - slope * entropy)))
    a = np.minimum(rng.geometric(1 - match) - 1, 6)
    return Observations(a, np.full(N, 6), a < 6, np.ones(N), entropy, prompt)


def nats(rows: Observations) -> np.ndarray:
    assert rows.entropy is not None
    return rows.entropy


def test_spearman_equals_scipy() -> None:
    rows = rounds(1)
    found = spearman(rows)
    assert found.estimate == pytest.approx(spearmanr(nats(rows), rows.accept_len).statistic)
    assert found.interval is not None
    assert found.interval.low < found.estimate < found.interval.high < 0


def test_weights_stand_for_repeated_rows() -> None:
    rows = rounds(2)
    weight = np.random.default_rng(0).integers(1, 4, N)
    heavy = Observations(rows.accept_len, rows.horizon, rows.missed, weight.astype(float), rows.entropy, rows.cluster)
    again = np.repeat(np.arange(N), weight)
    oracle = spearmanr(nats(rows)[again], rows.accept_len[again]).statistic
    assert spearman(heavy).estimate == pytest.approx(oracle)
    values = np.array([3.0, 1.0, 3.0])
    assert midranks(values, np.array([1.0, 2.0, 3.0])).tolist() == [4.5, 1.5, 4.5]


def test_its_interval_covers_zero_at_its_level_under_independence() -> None:
    outside = 0
    for seed in range(100):
        found = spearman(rounds(seed, slope=0.0), resamples=300)
        assert found.interval is not None
        outside += not found.interval.low <= 0 <= found.interval.high
    assert outside <= 14


def test_partial_correlation_equals_that_of_regression_residuals() -> None:
    rows = rounds(3)
    v = nats(rows) + np.random.default_rng(1).normal(size=N)
    design = np.stack([np.ones(N), nats(rows)], axis=1)
    left = [y - design @ np.linalg.lstsq(design, y, rcond=None)[0] for y in (v, rows.accept_len.astype(float))]
    assert partial_correlation(rows, v).estimate == pytest.approx(np.corrcoef(*left)[0, 1])
    assert abs(partial_correlation(rows, v, ranks=True).estimate) < 0.1


def test_the_decile_gap_is_the_ratio_of_the_ends() -> None:
    rows = rounds(4)
    order = np.argsort(nats(rows), kind="stable")
    expected = rows.accept_len[order[: N // 10]].mean() / rows.accept_len[order[-N // 10 :]].mean()
    assert decile_gap(rows).estimate == pytest.approx(expected)


def test_the_quintile_gap_is_near_one_for_a_signal_that_follows_entropy_only() -> None:
    rows = rounds(5)
    noise = np.random.default_rng(2).normal(size=N)
    found = within_quintile_gap(rows, noise)
    assert found.interval is not None
    assert found.interval.low < 1 < found.interval.high
    strong = within_quintile_gap(rows, rows.accept_len + 0.1 * noise)
    assert strong.interval is not None
    assert strong.interval.low > 1.5


def test_signals_of_the_wrong_form_are_refused() -> None:
    rows = rounds(6)
    with pytest.raises(FitError, match="expected 1200 finite numbers"):
        partial_correlation(rows, np.ones(3))
    with pytest.raises(NotIdentified, match="does not vary"):
        partial_correlation(rows, np.ones(N))
    with pytest.raises(NotIdentified, match="does not vary within any"):
        within_quintile_gap(rows, np.ones(N))
    blind = Observations(rows.accept_len, rows.horizon, rows.missed, rows.weight)
    with pytest.raises(NotIdentified, match="no row has root_entropy"):
        spearman(blind)
    constant = Observations(rows.accept_len, rows.horizon, rows.missed, rows.weight, np.full(N, 0.5))
    with pytest.raises(NotIdentified, match="does not vary"):
        spearman(constant)


def test_reference_values_of_humaneval(humaneval_rounds: Observations) -> None:
    assert spearman(humaneval_rounds).estimate == pytest.approx(-0.652743, abs=1e-6)
    assert decile_gap(humaneval_rounds).estimate == pytest.approx(17.089, abs=0.02)
    equal = noise_ceiling(humaneval_rounds, edges="count", resamples=200)
    assert (equal.eta_squared, equal.epsilon_squared) == pytest.approx((0.41591, 0.41538), abs=2e-5)
    assert noise_ceiling(humaneval_rounds, resamples=1).eta_squared == pytest.approx(0.41574, abs=1e-5)


def test_the_ceiling_equals_the_analysis_of_variance() -> None:
    rows = rounds(7)
    found = noise_ceiling(rows, bins=20, edges="count")
    groups = np.array_split(rows.accept_len[np.argsort(nats(rows), kind="stable")].astype(float), 20)
    between = sum(len(g) * (g.mean() - rows.accept_len.mean()) ** 2 for g in groups)
    within = sum(((g - g.mean()) ** 2).sum() for g in groups)
    assert found.eta_squared == pytest.approx(between / (between + within))
    corrected = 1 - (within / (N - 20)) / ((between + within) / (N - 1))
    assert found.epsilon_squared == pytest.approx(corrected)
    assert found.share(0.1) == pytest.approx((0.1 / found.eta_squared, 0.1 / found.epsilon_squared))


def test_eta_squared_is_biased_under_the_null_and_epsilon_squared_is_not() -> None:
    found = [noise_ceiling(rounds(seed, slope=0.0), edges="count", resamples=1) for seed in range(40)]
    assert np.mean([c.eta_squared for c in found]) == pytest.approx(49 / (N - 1), abs=0.004)
    assert np.mean([c.epsilon_squared for c in found]) == pytest.approx(0.0, abs=0.004)


def test_few_rounds_take_fewer_bins_and_no_variance_is_refused() -> None:
    rows = rounds(8)
    few = rows.take(np.arange(N) < 90)
    assert noise_ceiling(few).bins <= 9
    flat = Observations(np.zeros(60, dtype=int), np.full(60, 6), np.ones(60, dtype=bool), np.ones(60), np.arange(60.0))
    with pytest.raises(NotIdentified, match="no variance to share"):
        noise_ceiling(flat)


def test_groups_are_compared_by_prompt_means() -> None:
    first, second = rounds(9, prompts=20), rounds(10, prompts=25, slope=2.0)
    found = compare(first, second)
    means = [[r.accept_len[r.cluster == g].mean() for g in np.unique(r.cluster)] for r in (first, second)]  # type: ignore[call-overload]
    assert found.mann_whitney_p_value == pytest.approx(mannwhitneyu(*means).pvalue)
    assert found.naive_p_value == pytest.approx(mannwhitneyu(first.accept_len, second.accept_len).pvalue)
    assert found.prompts == (20, 25)
    assert found.difference.estimate == pytest.approx(first.accept_len.mean() - second.accept_len.mean())


def test_prompts_that_differ_fool_the_naive_test_only() -> None:
    naive = honest = 0
    for seed in range(60):
        groups = [rounds(1000 + 2 * seed + k, level=1.0, prompts=15) for k in (0, 1)]
        found = compare(*groups, resamples=200)
        naive += found.naive_p_value < 0.05
        honest += found.mann_whitney_p_value < 0.05
    assert naive >= 20
    assert honest <= 9


def test_comparisons_need_two_prompts_in_each_group() -> None:
    rows = rounds(11)
    with pytest.raises(NotIdentified, match="name no prompt_id"):
        compare(rows, Observations(rows.accept_len, rows.horizon, rows.missed, rows.weight))
    one = Observations(rows.accept_len, rows.horizon, rows.missed, rows.weight, cluster=np.zeros(N, dtype=int))
    with pytest.raises(NotIdentified, match="one prompt only"):
        compare(rows, one)


def counted(seed: int) -> tuple[Observations, Observations, np.ndarray]:
    rows = rounds(seed)
    weight = np.random.default_rng(seed).integers(1, 6, N)
    heavy = Observations(rows.accept_len, rows.horizon, rows.missed, weight.astype(float), rows.entropy, rows.cluster)
    again = np.repeat(np.arange(N), weight)
    return heavy, rows.take(again), again  # type: ignore[arg-type]


def test_counts_equal_repeated_rows_in_gaps_ceilings_and_comparisons() -> None:
    heavy, repeated, again = counted(12)
    # Distinct entropies: deciles of tied rows are dealt by row order.
    entropy = np.argsort(np.argsort(nats(heavy), kind="stable")) / 1000
    heavy = Observations(heavy.accept_len, heavy.horizon, heavy.missed, heavy.weight, entropy, heavy.cluster)
    repeated = Observations(
        repeated.accept_len, repeated.horizon, repeated.missed, repeated.weight, entropy[again], repeated.cluster
    )
    v = np.random.default_rng(0).normal(size=N)
    # Bins between quantiles do not split equal entropies.
    one, other = noise_ceiling(heavy, resamples=1), noise_ceiling(repeated, resamples=1)
    assert (one.bins, one.eta_squared) == (other.bins, pytest.approx(other.eta_squared))
    assert spearman(heavy).estimate == pytest.approx(spearman(repeated).estimate)
    assert partial_correlation(heavy, v).estimate == pytest.approx(partial_correlation(repeated, v[again]).estimate)
    assert weighted_median(v, heavy.weight) == pytest.approx(float(np.median(v[again])))
    first, second = compare(heavy, heavy), compare(repeated, repeated)
    assert first.naive_p_value == pytest.approx(second.naive_p_value)
    assert first.mann_whitney_p_value == pytest.approx(second.mann_whitney_p_value)


def test_few_rows_that_stand_for_many_rounds_take_all_bins() -> None:
    entropy = np.arange(60.0)
    a = (np.arange(60) * 7) % 5
    heavy = Observations(a, np.full(60, 6), np.ones(60, dtype=bool), np.full(60, 500.0), entropy)
    assert noise_ceiling(heavy, resamples=1).bins > 40


def test_huge_counts_need_no_memory() -> None:
    first, second = rounds(1), rounds(2, slope=0.5)
    heavy = [
        Observations(r.accept_len, r.horizon, r.missed, r.weight * 1e9, r.entropy, r.cluster) for r in (first, second)
    ]
    assert compare(*heavy).naive_p_value < 1e-9


def test_a_signal_that_entropy_determines_is_refused() -> None:
    rows = rounds(13)
    with pytest.raises(NotIdentified, match="determined by another"):
        partial_correlation(rows, 3.0 * nats(rows) - 1.0)
    with pytest.raises(NotIdentified, match="does not vary"):
        partial_correlation(rows, np.full(N, 0.1))
