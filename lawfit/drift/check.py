"""Whether a stored law still holds on new rounds, and where it breaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lawfit.drift.coefficients import own_covariance
from lawfit.drift.gap import Gap, Promise, measure, promise
from lawfit.drift.groups import Group, group
from lawfit.drift.refit import NO_ERRORS, Refit, refit
from lawfit.errors import FitError
from lawfit.laws.base import Law
from lawfit.log import RoundLog
from lawfit.observations import LastRound, Observations, Signal

Verdict = Literal["holds", "broken", "cannot tell"]
EVERYTHING = "all"
NAMELESS = (
    "prompts are not named: every round counts as independent; where rounds of a prompt are alike, the intervals are"
    " too narrow"
)


@dataclass(frozen=True)
class Options:
    """How to check.

    Attributes
    ----------
    level
        Chance of any false alarm in the whole check, where the law does hold.
    tolerance
        Difference of mean accepted tokens that does not matter; by default 5% of the promised tokens per round, bonus
        included: .05 (E[a] + 1). Speed goes with tokens per round, so this is an error of 5% in a promised speed.
    resamples, seed
        Of the bootstrap over prompts.
    """

    level: float = 0.05
    tolerance: float | None = None
    resamples: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse options out of range."""
        if not 0.0 < self.level < 1.0:
            raise FitError(f"level is {self.level}, expected a number between 0 and 1")
        if self.tolerance is not None and not 0.0 <= self.tolerance < float("inf"):
            raise FitError(f"tolerance is {self.tolerance}, expected accepted tokens >= 0")

    def allowance(self, predicted: float) -> float:
        """Give the tolerance beside a promised mean, accepted tokens."""
        return 0.05 * (max(predicted, 0.0) + 1.0) if self.tolerance is None else self.tolerance


@dataclass(frozen=True)
class GroupCheck:
    """The law in one group of rounds.

    Attributes
    ----------
    key, value
        The group; ``all`` and empty for all rounds.
    rounds, prompts
        Rounds, and prompts (``None`` where not named).
    gap
        Promised and observed mean.
    refit
        Coefficients fitted again, or why there are none.
    level_p, shape_p
        p-values after Holm's correction over the whole check; NaN where a test could not be made.
    allowance
        Tolerated difference.
    tests
        p-values in the whole check.
    verdict
        ``broken``: a difference that is significant and exceeds the tolerance, of the mean or of E[a | H] by the
        coefficients. ``holds``: the interval of the difference lies within the tolerance. Else ``cannot tell``: no
        break is seen, but one of up to ``gap.farthest`` could hide.
    """

    key: str
    value: str
    rounds: float
    prompts: int | None
    gap: Gap
    refit: Refit | str
    level_p: float
    shape_p: float
    allowance: float
    level: float
    tests: int

    @property
    def name(self) -> str:
        """Name the group."""
        return f"{self.key} {self.value}".strip()

    @property
    def level_broken(self) -> bool:
        """Whether the mean is off."""
        return self.level_p < self.level and abs(self.gap.difference) > self.allowance

    @property
    def shape_broken(self) -> bool:
        """Whether the coefficients are off, and matter."""
        return self.shape_p < self.level and not isinstance(self.refit, str) and self.refit.shift > self.allowance

    @property
    def verdict(self) -> Verdict:
        """Judge the group."""
        if self.level_broken or self.shape_broken:
            return "broken"
        return "holds" if self.gap.farthest <= self.allowance else "cannot tell"

    @property
    def wanting(self) -> int | str:
        """Prompts (rounds where they are not named) that would tell beside these, or why more would not."""
        return self.gap.wanting(self.allowance, self.tests)


@dataclass(frozen=True)
class Check:
    """A law checked on new rounds: all of them first, then group by group."""

    law: Law
    groups: tuple[GroupCheck, ...]
    options: Options
    notes: tuple[str, ...]

    @property
    def broken(self) -> tuple[GroupCheck, ...]:
        """Groups in which the law is broken."""
        return tuple(part for part in self.groups if part.verdict == "broken")


def check(
    law: Law,
    log: RoundLog,
    by: Sequence[str] | None = None,
    *,
    options: Options | None = None,
    last_round: LastRound | None = None,
    signal: Signal | None = None,
) -> Check:
    """Check ``law`` on ``log``.

    Parameters
    ----------
    law
        A stored law; its own error is allowed for where it knows it.
    log
        New rounds.
    by
        Keys of groups, see `lawfit.drift.groups.group`.
    options
        Level and tolerance.
    last_round, signal
        By default those of the law's own fit. Rows with count > 1 hold no last rounds; they are kept as they are where
        no ``last_round`` is given.

    Raises
    ------
    NotIdentified
        No round can be used.
    FitError
        An option is out of range, or a key not known.
    """
    options = options or Options()
    last_round, remarks = _last_rounds(law, log, last_round)
    signal = signal or (law.fitted.signal if law.fitted else "root_entropy")
    grouping = group(log, by, last_round=last_round, signal=signal, needs_entropy=law.needs_entropy)
    rows = grouping.observations
    everything = Group(EVERYTHING, "", np.ones(len(rows), dtype=np.bool_))
    parts = [everything, *grouping.groups]
    promised = promise(law, rows)
    # On its own rounds a law errs as they do: its error is not another one.
    promised = promised.exact() if _own_rounds(law, rows) else _with_own_error(promised, law, rows, options)
    gaps, refits = [], []
    for part in parts:
        seen = rows.take(part.rows)
        here = promised.take(part.rows)
        gaps.append(measure(here, seen, resamples=options.resamples, seed=options.seed, level=options.level))
        refits.append(refit(law, seen))
    p_values = [gap.p_value for gap in gaps]
    p_values += [float("nan") if isinstance(new, str) else new.p_value for new in refits]
    adjusted = holm(p_values)
    judged = zip(parts, gaps, refits, adjusted[: len(parts)], adjusted[len(parts) :], strict=True)
    tests = int(np.count_nonzero(~np.isnan(p_values)))
    groups = tuple(_group(rows, *columns, options, tests) for columns in judged)
    untested = (NO_ERRORS,) if NO_ERRORS in refits else ()
    return Check(law, groups, options, (*remarks, *grouping.notes, *_notes(law, rows), *untested))


def _last_rounds(law: Law, log: RoundLog, asked: LastRound | None) -> tuple[LastRound, tuple[str, ...]]:
    """Choose what becomes of last rounds: as asked, else as in the law's fit where the log still shows them."""
    if asked is not None:
        return asked, ()
    own: LastRound = law.fitted.last_round if law.fitted else "keep"
    if own == "keep" or not (log.frame["count"] > 1).any():
        return own, ()
    return "keep", (
        f"the law was fitted with last_round {own}, but rows with count > 1 no longer show last rounds: all rows are"
        " kept, as whoever pooled them left them",
    )


def _own_rounds(law: Law, rows: Observations) -> bool:
    return bool(law.fitted and rows.digest and law.fitted.digest == rows.digest)


def _own_units(law: Law, rows: Observations) -> float | None:
    """Count the prompts behind the law, or its rounds where those of the new log name none."""
    if law.fitted is None:
        return None
    return law.fitted.rounds if rows.cluster is None else law.fitted.clusters


def _with_own_error(promised: Promise, law: Law, rows: Observations, options: Options) -> Promise:
    """Give a fitted law without standard errors the error that these rounds would leave it, scaled to its prompts."""
    units = _own_units(law, rows)
    if own_covariance(law) is not None or not units:
        return promised
    whole = measure(promised, rows, resamples=options.resamples, seed=options.seed, level=options.level)
    return replace(promised, other_variance=whole.rounds_se**2 * whole.units / units) if whole.known else promised


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number: Holm's step-down, which holds whatever their dependence; NaN stays NaN."""
    p = np.asarray(p_values, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    factor = np.arange(len(order), 0, -1)
    adjusted = np.full(len(p), np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factor), 1.0)
    return adjusted.tolist()


def _group(
    rows: Observations,
    part: Group,
    gap: Gap,
    new: Refit | str,
    level_p: float,
    shape_p: float,
    options: Options,
    tests: int,
) -> GroupCheck:
    seen = rows.take(part.rows)
    allowance = options.allowance(gap.predicted)
    return GroupCheck(
        part.key, part.value, seen.rounds, seen.clusters, gap, new, level_p, shape_p, allowance, options.level, tests
    )


def _notes(law: Law, rows: Observations) -> list[str]:
    notes = []
    own_rounds = _own_rounds(law, rows)
    if own_rounds:
        notes.append("the law was fitted on these very rounds: this shows how well it fits, not whether it still holds")
    if own_covariance(law) is None and not own_rounds:
        how = "given the error that these rounds would leave it" if _own_units(law, rows) else "taken as exact"
        notes.append(f"the law carries no standard errors: it is {how}")
    if rows.cluster is None:
        notes.append(NAMELESS)
    if law.ends and rows.longest > law.horizon:
        notes.append(f"the law ends at offset {law.horizon}: longer rounds are seen up to there")
    return notes
