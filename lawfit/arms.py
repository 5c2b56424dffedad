"""Two arms on the same prompts: by how much the new one is faster, and on how many prompts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.special import ndtri

from lawfit.arrays import Floats
from lawfit.bootstrap import bootstrap
from lawfit.effect import Effect, effects
from lawfit.errors import FitError, NotIdentified
from lawfit.log import RoundLog
from lawfit.per_prompt import prompt_sums


@dataclass(frozen=True, eq=False)
class PairedTimes:
    """Decode times of two arms, one row per prompt.

    Attributes
    ----------
    task
        (n,) name of each prompt's task.
    base_ms, new_ms
        (n,) ms per emitted token (bonus in) of the arm compared against, and of the new one.
    unpaired
        Prompts that only one arm decoded; they are left out.
    """

    task: tuple[str, ...]
    base_ms: Floats
    new_ms: Floats
    unpaired: int = 0

    @classmethod
    def of(cls, base: RoundLog, new: RoundLog) -> PairedTimes:
        """Pair two logs by task and prompt.

        Raises
        ------
        NotIdentified
            A log has rounds without ``round_ms`` or without a prompt, or no prompt is in both.
        """
        first, second = (_token_ms(log) for log in (base, new))
        both = first.join(second, on=["task", "prompt"], suffix="_new").sort("task", "prompt")
        if both.is_empty():
            raise NotIdentified(f"no prompt of {base.source} is in {new.source}: the arms cannot be paired")
        unpaired = len(first) + len(second) - 2 * len(both)
        return cls(tuple(both["task"]), both["token_ms"].to_numpy(), both["token_ms_new"].to_numpy(), unpaired)


@dataclass(frozen=True)
class Margin:
    """The comparison on one task, or over all.

    Attributes
    ----------
    task
        Its name, or ``geometric mean``.
    prompts, won, tied
        How many there are; on how many the new arm is strictly faster; on how many both are equally fast.
    base_ms, new_ms
        Mean ms per token over prompts; over all tasks, the geometric mean of the tasks' means.
    margin
        base_ms / new_ms - 1, positive where the new arm is faster, with its paired bootstrap interval.
    won_share
        Share of the prompts won (ties are not won) with its Wilson interval.
    """

    task: str
    prompts: int
    won: int
    tied: int
    base_ms: float
    new_ms: float
    margin: Effect
    won_share: Effect

    @property
    def speedup(self) -> Effect:
        """How many times faster the new arm is: margin + 1."""
        return Effect(1.0 + self.margin.estimate, 1.0 + self.margin.low, 1.0 + self.margin.high)


@dataclass(frozen=True)
class Comparison:
    """Margins by task, in alphabetical order, and the one over all tasks."""

    tasks: tuple[Margin, ...]
    overall: Margin


def compare_arms(times: PairedTimes, *, resamples: int = 8000, seed: int = 0, level: float = 0.95) -> Comparison:
    r"""Give the margins of the new arm, as GLANCE Table 1 defines them (Appendix E).

    .. math:: m_t = \frac{\mathrm{mean}_i\,\mathrm{base}_{ti}}{\mathrm{mean}_i\,\mathrm{new}_{ti}} - 1, \qquad
              m = \Big(\prod_{t=1}^{T} (1 + m_t)\Big)^{1/T} - 1

    The mean of ms per token is over prompts, each with the same weight. Intervals draw whole prompts, both arms
    together, within each task.

    Parameters
    ----------
    times
        n prompts of T tasks, ms per token.
    resamples, seed, level
        Of the bootstrap; 8000 resamples as in the paper.

    Returns
    -------
    Comparison
        An interval is NaN where it needs a task of one prompt.

    Raises
    ------
    FitError
        No prompts, or times that are not finite and above 0.
    """
    base, new = _checked(times)
    names, which = np.unique(np.asarray(times.task), return_inverse=True)
    # One column per task and arm, so that a draw holds what every task and their mean need.
    sums = np.zeros((len(base), 2 * len(names)))
    sums[np.arange(len(base)), which] = base
    sums[np.arange(len(base)), len(names) + which] = new

    def margins(totals: Floats) -> Floats:
        log_ratio = np.log(totals[..., : len(names)] / totals[..., len(names) :])
        return np.asarray(np.expm1(np.concatenate([log_ratio, log_ratio.mean(axis=-1, keepdims=True)], axis=-1)))

    found = effects(bootstrap(sums, margins, strata=which, resamples=resamples, seed=seed, level=level))
    counts = np.bincount(which)
    mean_ms = sums.sum(axis=0).reshape(2, -1) / counts
    tasks = tuple(
        _margin(str(name), mean_ms[:, k], found[k], base[which == k], new[which == k], int(counts[k]), level)
        for k, name in enumerate(names)
    )
    centre = np.exp(np.log(mean_ms).mean(axis=1))
    overall = _margin("geometric mean", centre, found[-1], base, new, int(counts.min()), level)
    return Comparison(tasks, overall)


def wilson(successes: int, trials: int, level: float = 0.95) -> Effect:
    """Give a share with Wilson's score interval, which holds at shares near 0 and 1 too."""
    if not 0 <= successes <= trials or not trials:
        raise FitError(f"{successes} of {trials}, expected a count out of at least one")
    z2, share = float(ndtri(0.5 + level / 2.0)) ** 2, successes / trials
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = np.sqrt(z2 * (share * (1 - share) / trials + z2 / (4 * trials**2))) / (1 + z2 / trials)
    return Effect(share, max(0.0, float(centre - half)), min(1.0, float(centre + half)))


def _margin(task: str, mean_ms: Floats, margin: Effect, base: Floats, new: Floats, fewest: int, level: float) -> Margin:
    won, tied = int((new < base).sum()), int((new == base).sum())
    if fewest < 2:  # one prompt drawn again is always itself: that is no interval
        margin = Effect(margin.estimate, float("nan"), float("nan"))
    share = wilson(won, len(base), level)
    return Margin(task, len(base), won, tied, float(mean_ms[0]), float(mean_ms[1]), margin, share)


def _checked(times: PairedTimes) -> tuple[Floats, Floats]:
    base, new = (np.asarray(values, dtype=np.float64) for values in (times.base_ms, times.new_ms))
    if base.shape != new.shape or base.shape != (len(times.task),) or not len(base):
        raise FitError(f"{len(times.task)} tasks, base_ms {base.shape}, new_ms {new.shape}: expected one per prompt")
    for name, values in (("base_ms", base), ("new_ms", new)):
        wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
        if len(wrong):
            raise FitError(f"{name}[{wrong[0]}] is {values[wrong[0]]}, expected a time above 0 ms")
    return base, new


def _token_ms(log: RoundLog) -> pl.DataFrame:
    """Give ms per emitted token by prompt."""
    sums = prompt_sums(log)
    timeless = sums["ms"].null_count()
    if timeless:
        raise NotIdentified(f"{log.source}: {timeless} of {len(sums)} prompts have rounds without round_ms")
    spoken = sums.filter(pl.col("tokens") > 0)
    return spoken.select("task", "prompt", (pl.col("ms") / pl.col("tokens")).alias("token_ms"))
