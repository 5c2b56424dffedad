"""How large: the budget of one round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policy.errors import TreeError
from policy.tree import FloatArray


@dataclass(frozen=True)
class Size:
    """A chosen budget with what was expected of it.

    Attributes
    ----------
    budget
        Draft nodes to verify; 0 is plain decoding.
    accept_len
        Expected accepted tokens at that budget, bonus excluded.
    round_ms
        Expected time of the round, ms.
    """

    budget: int
    accept_len: float
    round_ms: float


def choose(values: FloatArray, times: FloatArray, rate: float) -> Size:
    """Take the budget n that maximises Phi(n) - rate * t(n) over the whole table, n = 0 included.

    Throughput is a ratio of sums, so the price of a millisecond is the long-run token rate (Dinkelbach's parameter)
    and not this round's own ratio. Costs are staircases, so the search does not stop at the first drop. Ties go to
    the smaller budget.

    Parameters
    ----------
    values : (N,)
        Path values in best-first order: their cumulative sum Phi(n) is the expected accepted length, bonus excluded.
    times : (N+1,)
        Time of a round at each budget 0..N, ms.
    rate
        Long-run tokens per ms.
    """
    accept = np.concatenate([[0.0], np.cumsum(values)])
    if len(times) != len(accept):
        raise TreeError(f"{len(times)} times for {len(accept)} budgets (0..{len(values)}), expected one each")
    if not (np.isfinite(rate) and np.isfinite(accept).all() and np.isfinite(times).all()):
        raise TreeError(f"values, times and rate must be finite to choose a budget; the rate is {rate}")
    best = int(np.argmax(accept - rate * times))
    return Size(best, float(accept[best]), float(times[best]))
