"""Time an affine fit against the statsmodels GLM on offset-expanded rows; both end with cluster errors.

Usage: python benchmarks/fit_speed.py [ROUNDS]   (a round log v1; by default the public HumanEval log)
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import polars as pl
import statsmodels.api as sm

from lawfit import AffineLogit, Observations, RoundLog, observe
from lawfit.logistic import fit_logistic
from lawfit.readers import own

HUMANEVAL = Path(__file__).parents[2] / "shared" / "data" / "public-logs" / "humaneval_strict_rounds.parquet"
REPEATS = 15


def load(arguments: list[str]) -> RoundLog:
    if arguments:
        return own.read(Path(arguments[0]))
    if not HUMANEVAL.exists():
        sys.exit(f"{HUMANEVAL}: no such file; give a round log")
    columns = {"a": "accept_len", "H": "root_entropy", "prompt": "prompt_id", "L": "horizon"}
    frame = pl.read_parquet(HUMANEVAL).rename(columns)
    return RoundLog.from_frame(frame.select(*columns.values(), "round", "task"))


def fit_glm(seen: Observations) -> list[float]:
    assert seen.entropy is not None
    assert seen.cluster is not None
    rows = np.repeat(np.arange(len(seen)), seen.trials)
    first = np.concatenate([[0], np.cumsum(seen.trials)[:-1]])
    matched = np.arange(len(rows)) - first[rows] < seen.accept_len[rows]
    x = np.column_stack([np.ones(len(rows)), -seen.entropy[rows]])
    model = sm.GLM(matched.astype(float), x, family=sm.families.Binomial())
    fitted = model.fit(cov_type="cluster", cov_kwds={"groups": seen.cluster[rows]})
    return [*fitted.params, *fitted.bse]


def fit_logit(seen: Observations) -> list[float]:
    assert seen.entropy is not None
    design = np.stack([np.ones(len(seen)), -seen.entropy]).T
    fit = fit_logistic(design, seen.accept_len, seen.trials, weight=seen.weight, cluster=seen.cluster)
    assert fit.cluster_covariance is not None
    return [*fit.coef, *np.sqrt(np.diag(fit.cluster_covariance))]


def fit_law(log: RoundLog) -> list[float]:
    law = AffineLogit.fit(log, last_round="drop")
    assert law.fitted is not None
    return [law.b0, law.b1, *(law.fitted.cluster_se or {}).values()]


def timed(run: Callable[[], list[float]]) -> tuple[float, list[float]]:
    start = perf_counter()
    values = run()
    return perf_counter() - start, values


def main() -> None:
    log = load(sys.argv[1:])
    seen = observe(log, last_round="drop").with_entropy()
    ours, whole, theirs = [], [], []
    for _ in range(REPEATS):  # interleaved, so that all meet the same machine
        seconds, logit = timed(lambda: fit_logit(seen))
        ours.append(seconds)
        seconds, law = timed(lambda: fit_law(log))
        whole.append(seconds)
        seconds, glm = timed(lambda: fit_glm(seen))
        theirs.append(seconds)
    difference = max(abs(a - b) for values in (logit, law) for a, b in zip(values, glm, strict=True))
    print(f"rounds {len(log)}; trials {int(seen.trials.sum())}; largest difference {difference:.1e}")
    print(f"statsmodels GLM   {median(theirs):.4f} s  from observations: expand, fit, cluster errors")
    print(f"lawfit, the same  {median(ours):.4f} s  from observations: fit, cluster errors, log-likelihood")
    print(f"lawfit, all of it {median(whole):.4f} s  from the log: observations, fit, errors, R^2 of curve and rounds")
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    print(f"ratio             {median(ratios):.1f}  statsmodels over lawfit, the same")


if __name__ == "__main__":
    main()
