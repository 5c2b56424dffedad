"""Budgets, shapes, and what a round costs, as far as the log tells."""

from __future__ import annotations

import numpy as np

from lawfit.brackets import ceiling_vacuous_below, verification_ceiling
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
    base, slope = fitted.se
    text = (
        f"A round costs {fitted.base_ms:.2f} ms (SE {base:.2f}) and {fitted.pass_ms:.2f} ms (SE {slope:.2f}) more for "
        f"each pass of the drafter, over {fitted.rounds:.0f} rounds: two passes to eight add {fitted.growth(2, 8):.0%}."
    )
    return Part(Section("What a round costs", text))


def brackets(log: RoundLog, observations: Observations) -> Part:
    """Bound the accepted length by what a tree of the budget can verify."""
    rows = observations.with_entropy()
    named = log.frame["budget"].drop_nulls()
    if named.is_empty():
        raise NotIdentified(f"{log.source}: no row names its budget")
    budget = int(named.median())  # type: ignore[arg-type]
    if budget < 2:
        raise NotIdentified(
            f"{log.source}: half of the drafts have a budget of {budget}, and 2 log N / H bounds nothing"
        )
    entropy = rows.entropy if rows.entropy is not None else np.zeros(0)
    bound = ceiling_vacuous_below(budget, rows.longest)
    empty = float(rows.weight @ (entropy < bound)) / rows.rounds
    middle = float(np.median(entropy))
    top = float(verification_ceiling(np.array([max(middle, 1e-12)]), budget)[0])
    text = (
        f"With N = {budget} verified nodes, 2 log N / H bounds the mean accepted length from above. It says nothing "
        f"below {bound:.3f} nats, where it exceeds the horizon {rows.longest}: {empty:.0%} of these rounds. At the "
        f"median entropy of {middle:.3f} nats it is {top:.2f}."
    )
    return Part(Section("A ceiling by verification", text))


def _table(rows: tuple[SweepRow, ...]) -> list[list[str]]:
    lines = [HEADER]
    for row in rows:
        effects = (row.accept_len, row.tau, row.round_ms, row.token_ms)
        cells = [spread(effect.estimate, effect.low, effect.high) for effect in effects]
        lines.append([row.arm, str(row.prompts), f"{row.rounds}", *cells])
    filled = [k for k in range(len(HEADER)) if any(line[k] for line in lines[1:])]
    return [[line[k] for k in filled] for line in lines]
