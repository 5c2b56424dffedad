"""The mismatched-image probe: what a condition does to acceptance, and whether it does so beyond entropy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.special import ndtri

from lawfit.arrays import Floats
from lawfit.bootstrap import bootstrap
from lawfit.effect import Effect, effects
from lawfit.errors import FitError, NotIdentified
from lawfit.keys import PROMPT
from lawfit.log import RoundLog
from lawfit.logistic import fit_logistic
from lawfit.observations import observe
from lawfit.per_prompt import prompt_sums


@dataclass(frozen=True)
class Gain:
    """A condition against the reference on the same prompts.

    Attributes
    ----------
    prompts
        How many.
    tau, accept_len
        Relative gain of the mean tokens per round with the bonus, and without: 0.1 is 10% more. The paper says
        "accepted blocks" and means tau wherever its tables can tell.
    entropy
        Mean root entropy less that of the reference, nats; NaN where it is not logged.
    """

    prompts: int
    tau: Effect
    accept_len: Effect
    entropy: Effect


@dataclass(frozen=True)
class Residual:
    """Effect of the condition with entropy held fixed.

    Attributes
    ----------
    coef
        c of logit p = b0 - b1 H + c [condition], log odds, with a 95% interval from prompt-cluster errors.
    p_value
        Two-sided, of c = 0.
    b0, b1
        The law that both conditions share.
    rounds
        Rounds behind the fit.
    """

    coef: Effect
    p_value: float
    b0: float
    b1: float
    rounds: float


@dataclass(frozen=True)
class Probe:
    """One condition of an experiment against its reference."""

    condition: str
    reference: str
    gain: Gain
    residual: Residual | None
    notes: tuple[str, ...] = ()


def probe(
    conditions: Mapping[str, RoundLog],
    reference: str = "mismatched",
    *,
    resamples: int = 4000,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[Probe, ...]:
    r"""Compare conditions of one drafter on the same prompts (GLANCE Section 5.5 and Appendix G).

    The gain is the ratio of mean tokens per round less 1, with an interval from drawing whole prompts, all conditions
    together. The residual is c in

    .. math:: \operatorname{logit} p_m = b_0 - b_1 H + c\,[\mathrm{condition}]

    by the likelihood of all offsets seen, with errors clustered by prompt: each round at its own condition's H.

    **Known bias.** In the paper's protocol all conditions are scored along one trajectory, the target's own output
    under the correct image. Under a mismatched image the target would have written something else: it reads a prefix
    that already tells what the right image shows, which weakens the effect late in an output, and the tokens that it
    meets are unlikely ones, which raises its entropy and lowers acceptance for a reason that is not the image. Entropy
    is also an outcome of the condition, so that c is no direct effect: whatever moves both H and acceptance, position
    in the output for one, leaks into it. A c near 0 says that the law with entropy fits both conditions, no more.

    Parameters
    ----------
    conditions
        A round log for each condition, with ``prompt_id``.
    reference
        The condition that the others are measured against.
    resamples, seed, level
        Of the bootstrap, and of all intervals.

    Returns
    -------
    tuple of Probe
        One for each other condition; ``residual`` is ``None`` where entropy is not logged.

    Raises
    ------
    FitError
        ``reference`` is not among the conditions, or is the only one.
    NotIdentified
        Two conditions share no prompt, or rows name none.
    """
    if reference not in conditions or len(conditions) < 2:
        raise FitError(f"reference {reference!r} and conditions {', '.join(conditions)}, expected it and another")
    others = (name for name in conditions if name != reference)
    found = []
    for name in others:
        log, base, notes = _matched(name, conditions[name], reference, conditions[reference])
        sums = _paired_sums(log, base)
        interval = bootstrap(sums, _gains, resamples=resamples, seed=seed, level=level)
        gain = Gain(len(sums), *effects(interval))
        residual = None if math.isnan(gain.entropy.estimate) else _residual(log, base, level)
        found.append(Probe(name, reference, gain, residual, notes))
    return tuple(found)


def _matched(name: str, log: RoundLog, reference: str, base: RoundLog) -> tuple[RoundLog, RoundLog, tuple[str, ...]]:
    """Keep the rounds with a draft of the prompts that both conditions have; say what does not match."""
    logs = [part.where(pl.col("horizon") > 0) for part in (log, base)]
    prompts = [set(prompt_sums(part)["prompt"]) for part in logs]
    shared = sorted(prompts[0] & prompts[1])
    if not shared:
        raise NotIdentified(f"conditions {name} and {reference} share no prompt")
    kept = [part.where(PROMPT.is_in(shared)) for part in logs]
    notes = []
    alone = len(prompts[0] ^ prompts[1])
    if alone:
        notes.append(f"{alone} prompts are in one of {name} and {reference} only and were left out")
    places = [set(part.frame.select(PROMPT.alias("prompt"), "position").iter_rows()) for part in kept]
    if places[0] != places[1]:
        notes.append(f"{name} and {reference} were not drafted at the same positions: the trajectory is not shared")
    return kept[0], kept[1], tuple(notes)


def _paired_sums(log: RoundLog, base: RoundLog) -> Floats:
    """(G, 8): rounds, accepted tokens, rounds with an entropy and their entropy, of either condition."""
    count, entropy = pl.col("count"), pl.col("root_entropy")
    known = {"known": count * entropy.is_not_null(), "nats": count * entropy.fill_null(0.0)}
    names = ["rounds", "accepted", *known]
    halves = []
    for part in (log, base):
        sums = prompt_sums(part, **known).group_by("prompt").agg(pl.col(names).sum()).sort("prompt")
        halves.append(sums.select(names).to_numpy().astype(np.float64))
    return np.concatenate(halves, axis=1)


def _gains(totals: Floats) -> Floats:
    """Gain of tau, of accept_len, and difference of mean entropy; (..., 3)."""
    rounds, accepted, known, nats = np.moveaxis(totals, -1, 0)[:4]
    rounds_0, accepted_0, known_0, nats_0 = np.moveaxis(totals, -1, 0)[4:]
    a, a_0 = accepted / rounds, accepted_0 / rounds_0
    return np.stack([(a + 1) / (a_0 + 1) - 1, a / a_0 - 1, nats / known - nats_0 / known_0], axis=-1)


def _residual(log: RoundLog, base: RoundLog, level: float) -> Residual:
    # Both logs hold the same prompts, so their clusters carry the same numbers.
    parts = [observe(part).with_entropy() for part in (log, base)]
    entropy = np.concatenate([part.entropy for part in parts if part.entropy is not None])
    condition = np.repeat([1.0, 0.0], [len(part) for part in parts])
    weight = np.concatenate([part.weight for part in parts])
    fit = fit_logistic(
        np.stack([np.ones_like(entropy), -entropy, condition], axis=1),
        np.concatenate([part.accept_len for part in parts]),
        np.concatenate([part.trials for part in parts]),
        weight=weight,
        cluster=np.concatenate([part.cluster for part in parts if part.cluster is not None]),
        names=("b0", "root_entropy", "condition"),
    )
    b0, b1, coef = fit.coef.tolist()
    robust = fit.cluster_covariance
    se = math.nan if robust is None else math.sqrt(robust[2, 2])
    half = float(ndtri(0.5 + level / 2.0)) * se
    p_value = math.erfc(abs(coef) / se / math.sqrt(2.0)) if se > 0 else math.nan
    return Residual(Effect(coef, coef - half, coef + half), p_value, b0, b1, float(weight.sum()))
