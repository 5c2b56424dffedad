"""How laws predict prompts that they have not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lawfit import survival
from lawfit.arrays import Flags, Floats, Ints
from lawfit.bootstrap import Interval, bootstrap, cluster_sums
from lawfit.curve import entropy_curve, r_squared
from lawfit.errors import FitError, NotIdentified
from lawfit.folds import prompt_folds
from lawfit.laws.base import Law
from lawfit.laws.details import Method
from lawfit.observations import Observations
from lawfit.survival import MeanForm


@dataclass(frozen=True)
class Candidate:
    """A law and a way to fit it."""

    law: type[Law]
    method: Method = "mle"
    mean: MeanForm = "truncated"

    @property
    def label(self) -> str:
        """Name it in tables."""
        extra = "" if self.mean == "truncated" else f", {self.mean}"
        return f"{self.law.name} ({self.method}{extra})"


@dataclass(frozen=True, eq=False)
class Validation:
    """Scores of candidates on prompts that they were not fitted on.

    Attributes
    ----------
    labels
        (C,) of the candidates.
    log_score
        Mean log-likelihood per round, nats, with intervals over prompts; estimates (C,). It is -inf where a candidate
        had given no chance to what a held-out round did, as a hazard of 0 or 1 does.
    gain
        Log score of each candidate less that of the first, (C,), with intervals over prompts; -inf likewise.
        A first candidate that is ruled out counts as a score of 0: choose another.
    round_r2, curve_r2
        (C,) share of the variance explained of rounds, and of ten decile means, by predictions from other prompts.
    folds
        How many parts of the prompts.
    """

    labels: tuple[str, ...]
    log_score: Interval
    gain: Interval
    round_r2: tuple[float, ...]
    curve_r2: tuple[float, ...]
    folds: int


def cross_validate(
    candidates: Sequence[Candidate],
    observations: Observations,
    *,
    folds: int = 5,
    deals: int = 3,
    seed: int = 0,
    resamples: int = 2000,
) -> Validation:
    """Fit each candidate on all prompts but a part of them, and score it there, for every part.

    Parameters
    ----------
    candidates
        Laws to compare; the first is the base of the gains.
    observations
        Rounds of known prompts.
    folds, deals, seed
        Parts of about equally many prompts, how often they are drawn anew, and from which seed. A round's score is the
        mean over the deals, so that a verdict does not hang on one of them.
    resamples
        Of the bootstrap over prompts.

    Raises
    ------
    NotIdentified
        Prompts are not known or fewer than the folds, or a fold does not determine a law.
    FitError
        No candidate, or fewer than two folds.
    """
    if not candidates or deals < 1:
        raise FitError(f"{len(candidates)} candidates and {deals} deals, expected at least one of each")
    rows = observations.with_entropy() if any(c.law.needs_entropy for c in candidates) else observations
    scores, predictions = np.zeros((2, len(candidates), len(rows)))
    for deal in range(deals):
        fold = prompt_folds(rows.cluster, folds, seed + deal)
        for k in range(folds):
            held = fold == k
            train, test = rows.take(~held), rows.take(held)
            for c, candidate in enumerate(candidates):
                law = candidate.law.fit(train, method=candidate.method, mean=candidate.mean)
                score, prediction = _score(law, test, candidate.mean)
                scores[c, held] += score / deals
                predictions[c, held] += prediction / deals
    return _summary(candidates, rows, scores, predictions, folds, resamples, seed)


def _score(law: Law, test: Observations, form: MeanForm) -> tuple[Floats, Floats]:
    """Give each round's log-likelihood, and its predicted mean at its own horizon."""
    entropy = test.entropy if law.needs_entropy else None
    longest = int(max(test.longest, test.trials.max()))
    if law.ends and longest > law.horizon:
        raise NotIdentified(
            f"{test.source}: a fold's {law.name} law ends at offset {law.horizon}, rounds reach {longest}"
        )
    chance = np.broadcast_to(np.atleast_2d(law.hazard(entropy, longest)), (len(test), longest))
    mean = law.mean(entropy, test.horizon, form=form)
    return survival.round_log_likelihood(chance, test), np.broadcast_to(mean, len(test))


def _summary(
    candidates: Sequence[Candidate],
    rows: Observations,
    scores: Floats,
    predictions: Floats,
    folds: int,
    resamples: int,
    seed: int,
) -> Validation:
    count = len(candidates)
    ruled_out: Flags = np.logical_not(np.isfinite(scores).all(axis=1))
    columns = np.concatenate([np.ones((1, len(rows))), np.where(ruled_out[:, None], 0.0, scores)]).T
    sums = cluster_sums(columns, _prompts(rows), rows.weight)

    def per_round(totals: Floats) -> Floats:
        return np.asarray(totals[..., 1:] / totals[..., :1])

    def gains(totals: Floats) -> Floats:
        means = per_round(totals)
        return np.asarray(means - means[..., :1])

    a = rows.accept_len.astype(np.float64)
    curve_r2 = [float("nan")] * count
    if rows.entropy is not None:
        bins = entropy_curve(rows)
        size = np.bincount(bins.bin, weights=rows.weight)
        guessed = [np.bincount(bins.bin, weights=rows.weight * guess) / size for guess in predictions]
        curve_r2 = [r_squared(bins.accept_len, guess, np.ones_like(size)) for guess in guessed]
    return Validation(
        labels=tuple(candidate.label for candidate in candidates),
        log_score=_without(bootstrap(sums, per_round, resamples=resamples, seed=seed), ruled_out),
        gain=_without(bootstrap(sums, gains, resamples=resamples, seed=seed), ruled_out),
        round_r2=tuple(r_squared(a, guess, rows.weight) for guess in predictions),
        curve_r2=tuple(curve_r2),
        folds=folds,
    )


def _prompts(rows: Observations) -> Ints:
    if rows.cluster is None:
        raise NotIdentified(f"{rows.source}: prompts are not named")
    return rows.cluster


def _without(scores: Interval, ruled_out: Flags) -> Interval:
    """Set the scores of the candidates that a round ruled out to -inf."""

    def put(values: Floats) -> Floats:
        return np.where(ruled_out, -np.inf, values)

    return replace(
        scores,
        estimate=put(scores.estimate),
        low=put(scores.low),
        high=put(scores.high),
        se=np.where(ruled_out, np.nan, scores.se),
        draws=put(scores.draws),
    )
