"""Whether two states beat one hazard, by a parametric bootstrap: the nominal chi-square does not hold there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lawfit import chi_square
from lawfit.arrays import Floats, Ints
from lawfit.errors import FitError, NotIdentified
from lawfit.observations import Observations
from lawfit.risk import risk_table
from lawfit.two_state_fit import climb


@dataclass(frozen=True, eq=False)
class LikelihoodRatio:
    """Twice the gain in log-likelihood of two states over one hazard.

    Attributes
    ----------
    statistic
        2 (l1 - l0), of the rounds.
    null
        (B,) the same from rounds simulated under one hazard, within each round's own censoring.
    p_value
        (1 + draws at least as large) / (1 + B).
    df, nominal_p_value
        Two parameters more, and the chi-square tail as if the null were regular. It is not: at one hazard, w is
        unidentified and lam2 on an edge.
    paper_p_value
        The tail with the 4 degrees of freedom that GLANCE Proposition 3 uses.
    """

    statistic: float
    null: Floats
    p_value: float
    df: int
    nominal_p_value: float
    paper_p_value: float


def two_state_test(
    observations: Observations,
    *,
    resamples: int = 600,
    seed: int = 0,
) -> LikelihoodRatio:
    """Test one hazard against the two-state law (GLANCE Proposition 3) on rounds of one regime.

    The simulated rounds are independent of each other: where rounds of a prompt depend, the test is too ready to
    reject, and a difference between prompts looks like two states.

    Parameters
    ----------
    observations
        Rounds; a round cut by the end of its request is simulated with that cut.
    resamples, seed
        B simulated logs from this seed.

    Raises
    ------
    NotIdentified
        Fewer than three offsets seen, or no miss, or no match.
    FitError
        ``resamples`` is below 1.
    """
    if resamples < 1:
        raise FitError(f"resamples is {resamples}, expected at least 1")
    table = risk_table(observations)
    matches = table.at_risk - table.misses
    if len(table.offset) < 3 or not table.misses.any() or not matches.any():
        seen = f"{len(table.offset)} offsets with {table.misses.sum():.0f} misses"
        raise NotIdentified(f"{observations.source}: {seen} cannot tell two states")
    statistic = float(_gains(matches[None], table.misses[None])[0])
    match_prob = float(matches.sum() / table.at_risk.sum())
    caps, rounds = _caps(observations)
    rng = np.random.default_rng(seed)
    drawn = np.array([_simulated(match_prob, caps, rounds, rng) for _ in range(resamples)])
    null = _gains(drawn[:, 0], drawn[:, 1])
    p_value = (1.0 + float((null >= statistic).sum())) / (1.0 + resamples)
    return LikelihoodRatio(statistic, null, p_value, 2, chi_square.tail(statistic, 2), chi_square.tail(statistic, 4))


def _gains(matches: Floats, misses: Floats) -> Floats:
    """Give 2 (l1 - l0) for each of B logs of (B, L) counts; 0 where nothing varies."""
    gains = np.zeros(len(matches))
    varies = (matches.sum(axis=1) > 0) & (misses.sum(axis=1) > 0)
    hit, miss = matches[varies], misses[varies]
    single = hit.sum(axis=1) / (hit + miss).sum(axis=1)
    alone = hit.sum(axis=1) * np.log(single) + miss.sum(axis=1) * np.log1p(-single)
    gains[varies] = np.maximum(0.0, 2.0 * (climb(hit, miss)[1] - alone))
    return gains


def _caps(observations: Observations) -> tuple[Ints, Ints]:
    """Give the censoring points that occur, and how many rounds have each."""
    cut = ~observations.missed & (observations.accept_len < observations.horizon)
    cap = np.where(cut, observations.accept_len, observations.horizon)
    counts = np.bincount(cap, weights=observations.weight)
    caps = np.flatnonzero(counts)
    return caps[caps > 0], np.rint(counts[caps[caps > 0]]).astype(np.int64)


def _simulated(match_prob: float, caps: Ints, rounds: Ints, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw rounds under one hazard; give matches and misses by offset (L,)."""
    deepest = int(caps.max())
    matches, misses = np.zeros(deepest), np.zeros(deepest)
    for cap, count in zip(caps.tolist(), rounds.tolist(), strict=True):
        tail = match_prob ** np.arange(cap + 1)
        chance = np.append(-np.diff(tail), tail[-1])
        stopped = rng.multinomial(count, chance / chance.sum())
        misses[:cap] += stopped[:-1]
        matches[:cap] += count - np.cumsum(stopped[:-1])
    return matches, misses
