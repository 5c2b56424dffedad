"""Budgets, shapes, and what a round costs, as far as the log tells."""

from __future__ import annotations

import numpy as np

from lawfit.association import weighted_median
from lawfit.bootstrap import bootstrap, cluster_sums
from lawfit.brackets import adaedl_bound, ceiling_vacuous_below, verification_ceiling
from lawfit.errors import NotIdentified
from lawfit.log import RoundLog
from lawfit.observations import Observations
from lawfit.page import Section
from lawfit.report.part import Part, Settings, spread
from lawfit.roundcost import fit_round_cost
from lawfit.sweep import SweepRow, by_budget, counterfactual_sweep, sweep

HEADER = ["budget", "prompts", "rounds", "mean a", "tau", "ms a round", "ms a token"]


def budgets(log: RoundLog, settings: Settings) -> Part:
    """Compare the budgets that were set, or read smaller ones off accepted ranks."""
    arms = {name: part for name, part in by_budget(log).items() if name != "(none)"}
    options = {"resamples": settings.resamples, "seed": settings.seed}
    if 2 <= len(arms) <= 12:
        rows = sweep(arms, next(iter(arms)), **options)
        text = (
            "Rounds with a draft by their budget (nodes verified). Where the budget was chosen round by round, easy "
            "rounds got large ones: then the rows are no comparison of budgets."
        )
        return Part(Section("Budgets", text, _table(rows)))
    largest = int(log.frame["budget"].max() or 0)  # type: ignore[arg-type]
    sizes = [n for n in (1, 2, 4, 8, 16, 32, 64, 128) if n < largest]
    rows = counterfactual_sweep(log, sizes, **options)
    text = (
        "What each round with a draft would have accepted with fewer nodes: best-first order is nested, so that the "
        "accepted ranks tell it exactly for every round where it began. It is no replay: with another budget the next "
        "round would begin elsewhere."
    )
    return Part(Section("Smaller budgets", text, _table(rows)))


def cost(log: RoundLog) -> Part:
    """Fit what a round costs by draft passes."""
    fitted = fit_round_cost(log)
    if not fitted.base_ms + 2.0 * fitted.pass_ms > 0.0:
        raise NotIdentified(f"{log.source}: rounds took no time")
    base, slope = fitted.se
    text = (
        f"A round costs {fitted.base_ms:.2f} ms (SE {base:.2f}) and {fitted.pass_ms:.2f} ms (SE {slope:.2f}) more for "
        f"each pass of the drafter, over {fitted.rounds:.0f} rounds: two passes to eight add {fitted.growth(2, 8):.0%}."
    )
    return Part(Section("What a round costs", text))


def brackets(log: RoundLog, observations: Observations) -> Part:
    """Bound the accepted length by what a tree of the budget can verify."""
    rows = observations.with_entropy()
    named = log.frame.filter(log.frame["budget"].is_not_null())
    if named.is_empty():
        raise NotIdentified(f"{log.source}: no row names its budget")
    sizes, counts = (named[name].to_numpy().astype(np.float64) for name in ("budget", "count"))
    budget = int(weighted_median(sizes, counts))
    if budget < 2:
        raise NotIdentified(
            f"{log.source}: half of the drafts have a budget of {budget}, and 2 log N / H bounds nothing"
        )
    entropy = rows.entropy if rows.entropy is not None else np.zeros(0)
    bound = ceiling_vacuous_below(budget, rows.longest)
    empty = float(rows.weight @ (entropy < bound)) / rows.rounds
    middle = weighted_median(entropy, rows.weight)
    top = float(verification_ceiling(np.array([max(middle, 1e-12)]), budget)[0])
    text = (
        f"With N = {budget} verified nodes, 2 log N / H bounds the mean accepted length from above. It says nothing "
        f"below {bound:.3f} nats, where it exceeds the horizon {rows.longest}: {empty:.0%} of these rounds. At the "
        f"median entropy of {middle:.3f} nats it is {top:.2f}."
    )
    return Part(Section("A ceiling by verification", text))


def draft_bound(log: RoundLog, observations: Observations, settings: Settings) -> Part:
    """Set AdaEDL's lower bound from the draft's entropy beside the acceptance of first draft tokens."""
    known = observations.trials > 0
    entropy = log.frame["draft_entropy"].to_numpy()
    known &= ~np.isnan(entropy.astype(np.float64))
    if not known.any():
        raise NotIdentified(f"{log.source}: no row has draft_entropy")
    rows = observations.take(known)
    bound = adaedl_bound(entropy[known].astype(np.float64))
    cluster = np.arange(len(rows)) if rows.cluster is None else rows.cluster
    columns = np.stack([np.ones(len(rows)), (rows.accept_len >= 1).astype(np.float64), bound], axis=1)
    sums = cluster_sums(columns, cluster, rows.weight)
    found = bootstrap(
        sums, lambda totals: totals[..., 1:] / totals[..., :1], resamples=settings.resamples, seed=settings.seed
    )
    accepted, promised = (spread(float(found.estimate[k]), float(found.low[k]), float(found.high[k])) for k in (0, 1))
    empty = float(rows.weight @ (bound <= 0.0)) / rows.rounds
    verdict = " So on the average it is no bound here." if found.low[1] > found.high[0] else ""
    text = (
        "AdaEDL stops drafting by 1 - √(0.2 H) of the draft's own entropy, meant as a lower bound on acceptance. Over "
        f"{rows.rounds:.0f} first draft tokens it averages {promised}, and {accepted} were accepted; intervals of 95% "
        f"{settings.intervals}. It says nothing, being 0, for {empty:.0%} of them.{verdict}"
    )
    return Part(Section("A bound from the draft's entropy", text))


def _table(rows: tuple[SweepRow, ...]) -> list[list[str]]:
    lines = [HEADER]
    for row in rows:
        effects = (row.accept_len, row.tau, row.round_ms, row.token_ms)
        cells = [spread(effect.estimate, effect.low, effect.high) for effect in effects]
        lines.append([row.arm, str(row.prompts), f"{row.rounds}", *cells])
    filled = [k for k in range(len(HEADER)) if any(line[k] for line in lines[1:])]
    return [[line[k] for k in filled] for line in lines]
