"""Time the free hazards against a statsmodels GLM on expanded rows, and the cluster bootstrap against a loop.

Usage: python benchmarks/statistics_speed.py [ROUNDS]   (a round log v1; by default the public HumanEval log)
"""

from __future__ import annotations

import sys
from statistics import median

import numpy as np
import statsmodels.api as sm
from fit_speed import load, timed

from lawfit import FreeHazard, Observations, observe
from lawfit.bootstrap import bootstrap, cluster_sums

REPEATS, RESAMPLES = 9, 2000


def fit_glm(seen: Observations) -> list[float]:
    """One dummy per offset on offset-expanded rows, with cluster errors."""
    assert seen.cluster is not None
    rows = np.repeat(np.arange(len(seen)), seen.trials)
    first = np.concatenate([[0], np.cumsum(seen.trials)[:-1]])
    offset = np.arange(len(rows)) - first[rows]
    x = (offset[:, None] == np.arange(offset.max() + 1)).astype(float)
    model = sm.GLM((offset < seen.accept_len[rows]).astype(float), x, family=sm.families.Binomial())
    fitted = model.fit(cov_type="cluster", cov_kwds={"groups": seen.cluster[rows]})
    hazard = 1.0 / (1.0 + np.exp(-fitted.params))
    return [*hazard, *(fitted.bse * hazard * (1.0 - hazard))]


def fit_hazards(seen: Observations) -> list[float]:
    """Fit with cluster errors, as the GLM does; R^2 values and the log-likelihood are left out."""
    estimate = FreeHazard._by_likelihood(seen)
    assert isinstance(estimate.law, FreeHazard)
    assert estimate.cluster_covariance is not None
    return [*estimate.law.hazards, *np.sqrt(np.diag(estimate.cluster_covariance))]


def fit_law(seen: Observations) -> list[float]:
    return list(FreeHazard.fit(seen).hazards)


def resampled(seen: Observations) -> list[float]:
    """Mean accepted length with its interval over prompts, from the rounds."""
    assert seen.cluster is not None
    columns = np.stack([np.ones(len(seen)), seen.accept_len.astype(float)], axis=1)
    sums = cluster_sums(columns, seen.cluster, seen.weight)
    interval = bootstrap(sums, lambda totals: totals[..., 1] / totals[..., 0], resamples=RESAMPLES)
    return [float(interval.low), float(interval.high)]


def looped(seen: Observations, draws: int) -> list[float]:
    """Do the same by drawing prompts and joining their rows, ``draws`` times."""
    assert seen.cluster is not None
    prompts = [seen.accept_len[seen.cluster == g] for g in np.unique(seen.cluster)]
    rng = np.random.default_rng(0)
    drawn = (rng.integers(0, len(prompts), len(prompts)) for _ in range(draws))
    means = [np.concatenate([prompts[g] for g in picked]).mean() for picked in drawn]
    return [float(end) for end in np.quantile(means, [0.025, 0.975])]


def main() -> None:
    seen = observe(load(sys.argv[1:]), last_round="drop")
    hazards, laws, glms, draws = [], [], [], []
    for _ in range(REPEATS):  # interleaved, so that all meet the same machine
        seconds, ours = timed(lambda: fit_hazards(seen))
        hazards.append(seconds)
        laws.append(timed(lambda: fit_law(seen))[0])
        seconds, theirs = timed(lambda: fit_glm(seen))
        glms.append(seconds)
        seconds, (low, high) = timed(lambda: resampled(seen))
        draws.append(seconds)
    loop, ends = timed(lambda: looped(seen, RESAMPLES // 10))
    difference = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    ratio = median(b / a for a, b in zip(hazards, glms, strict=True))
    print(f"rounds {len(seen)}; prompts {seen.clusters}; largest difference {difference:.1e}")
    print(f"statsmodels GLM   {median(glms):.4f} s  one dummy per offset: expand, fit, cluster errors")
    print(f"lawfit, the same  {median(hazards):.4f} s  fit, cluster errors")
    print(f"lawfit, all of it {median(laws):.4f} s  with log-likelihood and R^2 of curve and rounds")
    print(f"ratio             {ratio:.1f}  statsmodels over lawfit, the same")
    print(f"cluster bootstrap {median(draws):.4f} s  {RESAMPLES} resamples of prompts: {low:.4f} to {high:.4f}")
    print(f"by a loop         {10 * loop:.4f} s  from {RESAMPLES // 10} resamples: {ends[0]:.4f} to {ends[1]:.4f}")
    print(f"ratio             {10 * loop / median(draws):.1f}  loop over lawfit")


if __name__ == "__main__":
    main()
