from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import betabinom, binom

from lawfit import FitError, NotIdentified, RoundLog
from lawfit.calibration.shrinkage import BetaBinomial, Levels
from lawfit.survival import expit


def test_humaneval_offset_one_has_the_reference_prior(humaneval: RoundLog) -> None:
    """The notes' Beta(103.0, 66.5): maximum likelihood over 164 prompts, the spurious last rounds kept."""
    frame = humaneval.frame
    by_prompt = [part["accept_len"].to_numpy() for part in frame.partition_by("prompt_id")]
    prior = BetaBinomial.fit([(a > 0).sum() for a in by_prompt], [len(a) for a in by_prompt])
    assert (prior.alpha, prior.beta) == (pytest.approx(103.0, abs=0.05), pytest.approx(66.5, abs=0.05))
    assert prior.rho == pytest.approx(0.0059, abs=5e-5)


def test_the_fit_is_the_top_of_scipys_likelihood() -> None:
    rng = np.random.default_rng(4)
    n = rng.integers(5, 80, 60)
    s = rng.binomial(n, rng.beta(6.0, 3.0, 60))
    prior = BetaBinomial.fit(s, n)
    top = betabinom.logpmf(s, n, prior.alpha, prior.beta).sum()
    for alpha, beta in ((1.02, 1.0), (1.0, 1.02), (0.98, 1.0), (1.0, 0.98), (1.05, 1.05), (0.95, 0.95)):
        assert betabinom.logpmf(s, n, alpha * prior.alpha, beta * prior.beta).sum() < top


def test_shrunken_rates_err_less_than_raw_and_than_pooled_ones() -> None:
    rng = np.random.default_rng(8)
    errors = np.zeros(3)
    for _ in range(20):
        n = rng.integers(2, 40, 50)
        truth = rng.beta(12.0, 6.0, 50)
        s = rng.binomial(n, truth)
        estimates = (BetaBinomial.fit(s, n).shrink(s, n), s / n, np.full(50, s.sum() / n.sum()))
        errors += [np.mean((estimate - truth) ** 2) for estimate in estimates]
    assert errors[0] < 0.9 * min(errors[1], errors[2])


def test_posterior_intervals_cover_the_rates_as_often_as_they_say() -> None:
    rng = np.random.default_rng(9)
    n = rng.integers(2, 40, 400)
    truth = rng.beta(12.0, 6.0, 400)
    s = rng.binomial(n, truth)
    low, high = BetaBinomial.fit(s, n).interval(s, n)
    covered = int(((low <= truth) & (truth <= high)).sum())
    assert binom.cdf(covered, 400, 0.95) > 0.001
    assert binom.sf(covered - 1, 400, 0.95) > 0.001


def test_no_spread_is_said_and_not_estimated() -> None:
    with pytest.raises(NotIdentified, match="differ no more than chance"):
        BetaBinomial.fit([5, 5, 5, 5], [10, 10, 10, 10])
    with pytest.raises(NotIdentified, match="no spread of rates"):
        BetaBinomial.fit([10, 10], [10, 10])
    with pytest.raises(NotIdentified, match="1 prompts"):
        BetaBinomial.fit([3, 0], [10, 0])
    with pytest.raises(FitError, match="0 <= successes <= trials"):
        BetaBinomial.fit([3, 5], [2, 9])
    with pytest.raises(FitError, match="finite numbers above 0"):
        BetaBinomial(0.0, 1.0)


def simulate(seed: int, tasks: int = 6, prompts: int = 10) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    truth = (0.2 + rng.normal(0, 0.8, tasks)[:, None] + rng.normal(0, 0.5, (tasks, prompts))).ravel()
    prompt = np.repeat(np.arange(tasks * prompts), rng.integers(2, 60, tasks * prompts))
    logit = 0.3 + rng.normal(0, 1, len(prompt))
    accepted = (rng.random(len(prompt)) < expit(logit + truth[prompt])).astype(float)
    return truth, prompt, prompt // prompts, logit, accepted


def fit(prompt: np.ndarray, task: np.ndarray, logit: np.ndarray, accepted: np.ndarray) -> Levels:
    names = [f"t{k}" for k in task], [f"p{k}" for k in prompt]
    return Levels.fit(logit, accepted, np.ones(len(prompt)), *names)


def test_levels_err_less_than_raw_ones_than_the_tasks_and_than_the_common_one() -> None:
    errors = np.zeros(4)
    for seed in range(12):
        truth, prompt, task, logit, accepted = simulate(seed)
        levels = fit(prompt, task, logit, accepted)
        names = [f"t{k // 10}" for k in range(60)], [f"p{k}" for k in range(60)]
        raw = np.array([unshrunken(logit[prompt == k], accepted[prompt == k]) for k in range(60)])
        for at, guess in enumerate((levels.at(*names), raw, levels.at(names[0], ["?"] * 60), np.full(60, levels.mu))):
            errors[at] += np.mean((guess - truth) ** 2)
    assert errors[0] < 0.7 * errors[1:].min()


def unshrunken(logit: np.ndarray, accepted: np.ndarray) -> float:
    """The maximum likelihood level, with half an outcome of each kind to keep it finite."""
    level = 0.0
    for _ in range(50):
        p = expit(logit + level)
        q = expit(level)
        level += ((accepted - p).sum() + 0.5 - q) / ((p * (1 - p)).sum() + q * (1 - q))
    return float(level)


def test_the_standard_deviations_of_levels_are_recovered() -> None:
    spreads = np.array([(f.task_sd, f.prompt_sd) for f in (fit(*simulate(seed, tasks=12)[1:]) for seed in range(12))])
    assert np.sqrt((spreads**2).mean(axis=0)) == pytest.approx([0.8, 0.5], rel=0.15)


def test_levels_stand_where_the_penalised_likelihood_has_no_slope() -> None:
    _, prompt, task, logit, accepted = simulate(3)
    levels = fit(prompt, task, logit, accepted)
    z = logit + levels.at([f"t{k}" for k in task], [f"p{k}" for k in prompt])
    residual = accepted - expit(z)
    assert residual.sum() == pytest.approx(0.0, abs=0.01)
    for name, u in levels.tasks:
        assert residual[task == int(name[1:])].sum() == pytest.approx(u / levels.task_sd**2, abs=0.01)
    for _, name, v in levels.prompts:
        assert residual[prompt == int(name[1:])].sum() == pytest.approx(v / levels.prompt_sd**2, abs=0.01)


def test_fewer_trials_pull_a_prompt_closer_to_its_task() -> None:
    _, prompt, task, logit, accepted = simulate(5)
    few = np.concatenate([np.flatnonzero(prompt != 0), np.flatnonzero(prompt == 0)[:1]])
    whole, part = fit(prompt, task, logit, accepted), fit(prompt[few], task[few], logit[few], accepted[few])
    effects = [{name: v for _, name, v in levels.prompts}["p0"] for levels in (whole, part)]
    assert abs(effects[1]) < abs(effects[0])


def test_one_task_has_no_level_beside_the_common_one() -> None:
    _, prompt, task, logit, accepted = simulate(6)
    levels = fit(prompt, np.zeros_like(task), logit, accepted)
    assert levels.tasks == (("t0", 0.0),)
    assert levels.task_sd == 0.0


def test_an_unknown_prompt_is_averaged_over_what_it_may_be() -> None:
    levels = Levels(0.4, (("t", 0.3),), (("t", "p", -0.2),), 0.9, 0.7)
    draws = np.random.default_rng(0).normal(0, 1, 400_000)
    base = np.array([1.1])
    known, new_prompt, new_task = (
        float(levels.probability(base, [task], [prompt])[0]) for task, prompt in (("t", "p"), ("t", "?"), ("?", "?"))
    )
    assert known == pytest.approx(float(expit(1.1 + 0.4 + 0.3 - 0.2)))
    assert new_prompt == pytest.approx(expit(1.1 + 0.7 + 0.7 * draws).mean(), abs=0.001)
    assert new_task == pytest.approx(expit(1.1 + 0.4 + np.hypot(0.9, 0.7) * draws).mean(), abs=0.001)


def test_all_accepted_still_gives_finite_levels() -> None:
    _, prompt, task, logit, _ = simulate(7)
    levels = fit(prompt, task, logit, np.ones(len(prompt)))
    assert np.isfinite([levels.mu, levels.prompt_sd, *(v for *_, v in levels.prompts)]).all()


def test_levels_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(FitError, match="finite numbers"):
        Levels(float("nan"), (), (), 0.0, 0.0)
    with pytest.raises(FitError, match="at least 0"):
        Levels(0.0, (), (), -1.0, 0.0)
