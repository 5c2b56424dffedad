"""Arms side by side: budgets of one tree, a tree against a chain, and smaller budgets read off accepted ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from lawfit.arrays import Floats
from lawfit.bootstrap import bootstrap
from lawfit.effect import Effect, effects
from lawfit.errors import FitError, NotIdentified
from lawfit.log import NO_KEY, RoundLog
from lawfit.per_prompt import prompt_sums

_SUMS = ("rounds", "accepted", "tokens", "ms")


@dataclass(frozen=True)
class SweepRow:
    """One arm of a sweep, with prompt-bootstrap intervals; NaN where the log has no times.

    Attributes
    ----------
    arm
        Its label, a budget for example.
    prompts, rounds
        How many.
    accept_len, tau
        Mean accepted draft tokens per round, bonus out, and with it (GLANCE Eq. 1).
    round_ms, token_ms
        Mean ms of a round, and ms per emitted token: total over total, so that long outputs weigh more.
    tau_ratio
        tau over that of the reference arm, on the same prompts.
    speedup
        token_ms of the reference over that of this arm: above 1 this arm is faster.
    """

    arm: str
    prompts: int
    rounds: int
    accept_len: Effect
    tau: Effect
    round_ms: Effect
    token_ms: Effect
    tau_ratio: Effect
    speedup: Effect


def by_budget(log: RoundLog) -> dict[str, RoundLog]:
    """Split a log into arms by budget, smallest first: right where the budget was set, not chosen round by round."""
    return dict(sorted(log.groups("budget").items(), key=lambda arm: (arm[0] == NO_KEY, len(arm[0]), arm[0])))


def by_shape(log: RoundLog) -> dict[str, RoundLog]:
    """Split a log into its chain and its tree arm: right where the shape was set, not chosen round by round."""
    return {shape: part for shape, part in sorted(log.groups("shape").items()) if shape != NO_KEY}


def sweep(
    arms: Mapping[str, RoundLog],
    reference: str,
    *,
    resamples: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[SweepRow, ...]:
    """Tabulate arms that decoded the same prompts (GLANCE Tables 9 and 10).

    Parameters
    ----------
    arms
        A round log for each label: `by_budget`, `by_shape`, or any others.
    reference
        The arm that ratios are taken against: plain decoding for a speedup, the chain for a tree.
    resamples, seed, level
        Of the bootstrap; it draws whole prompts, all arms together, so that ratios are paired.

    Raises
    ------
    FitError
        ``reference`` is not an arm.
    NotIdentified
        No prompt is in all arms.
    """
    if reference not in arms:
        raise FitError(f"reference {reference!r}, expected one of the arms {', '.join(arms)}")
    columns = [
        prompt_sums(log).select("task", "prompt", pl.col(_SUMS).name.suffix(f"_{k}"))
        for k, log in enumerate(arms.values())
    ]
    joined = columns[0]
    for right in columns[1:]:
        joined = joined.join(right, on=["task", "prompt"])
    if joined.is_empty():
        raise NotIdentified(f"no prompt is in all of {', '.join(arms)}")
    sums = joined.sort("task", "prompt").select(pl.exclude("task", "prompt").cast(pl.Float64).fill_null(np.nan))
    return _rows(tuple(arms), sums.to_numpy(), tuple(arms).index(reference), (resamples, seed, level))


def counterfactual_sweep(
    log: RoundLog,
    budgets: Sequence[int],
    *,
    resamples: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[SweepRow, ...]:
    """Read smaller budgets off a log of larger ones: the accepted length at budget n is the count of ranks <= n.

    Best-first order is nested, so this is exact for every round, given where the round began. It is no replay: with
    a smaller budget the next round would begin elsewhere. Times are not known and NaN; ratios are to the log itself,
    the last row.

    Parameters
    ----------
    log
        Rounds with ``accept_ranks``.
    budgets
        Nodes, root excluded. A round that verified fewer has no more to count.
    resamples, seed, level
        Of the bootstrap.

    Raises
    ------
    NotIdentified
        Some round has no ``accept_ranks``, or a budget exceeds all that were verified.
    """
    frame = log.frame
    unknown = frame["accept_ranks"].null_count()
    if unknown:
        raise NotIdentified(f"{log.source}: {unknown} of {len(frame)} rows have no accept_ranks")
    largest = max(frame["budget"].drop_nulls().to_list(), default=0)
    wrong = [n for n in budgets if not 0 <= n <= largest]
    if wrong:
        raise NotIdentified(f"{log.source}: budget {wrong[0]} cannot be read off rounds that verified up to {largest}")
    ranks = pl.col("accept_ranks")
    kept = [pl.col("count") * ranks.list.eval(pl.element() <= n).list.sum().fill_null(0) for n in budgets]
    sums = prompt_sums(log, **{f"kept_{n}": count for n, count in zip(budgets, kept, strict=True)})
    unknown_ms = pl.lit(np.nan)
    arms = [*(f"kept_{n}" for n in budgets), "accepted"]
    table = sums.select(
        column.alias(f"{part}_{k}")
        for k, name in enumerate(arms)
        for part, column in zip(_SUMS, (pl.col("rounds"), pl.col(name), pl.col("tokens"), unknown_ms), strict=True)
    )
    labels = (*(str(n) for n in budgets), "logged")
    return _rows(labels, table.to_numpy().astype(np.float64), len(arms) - 1, (resamples, seed, level))


def _rows(
    labels: tuple[str, ...], sums: Floats, reference: int, options: tuple[int, int, float]
) -> tuple[SweepRow, ...]:
    resamples, seed, level = options

    def statistic(totals: Floats) -> Floats:
        rounds, accepted, tokens, ms = np.moveaxis(totals.reshape(*totals.shape[:-1], len(labels), 4), -1, 0)
        a, token_ms = accepted / rounds, ms / tokens
        tau_ratio = (a + 1) / (a[..., reference, None] + 1)
        speedup = token_ms[..., reference, None] / token_ms
        return np.concatenate([a, a + 1, ms / rounds, token_ms, tau_ratio, speedup], axis=-1)

    found = effects(bootstrap(sums, statistic, resamples=resamples, seed=seed, level=level))
    rounds = sums[:, ::4].sum(axis=0)
    return tuple(SweepRow(label, len(sums), int(rounds[k]), *found[k :: len(labels)]) for k, label in enumerate(labels))
