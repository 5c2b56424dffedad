"""What is drawn again: whole prompts where they are named, else single rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lawfit.arrays import Floats, Ints
from lawfit.bootstrap import Interval, Statistic, bootstrap, cluster_sums

# Draws times units that are held at once.
_AT_ONCE = 4_000_000
# Rounds that are told apart.
_MOST = 1e15


@dataclass(frozen=True, eq=False)
class Units:
    """Independent units with the sums of their columns.

    Attributes
    ----------
    sums
        (G, K) weighted sums of each unit.
    times
        (G,) how many independent units of the same sums a row stands for; all 1 for prompts.
    """

    sums: Floats
    times: Floats

    @classmethod
    def of(cls, columns: ArrayLike, weight: Floats, cluster: Ints | None) -> Units:
        """Add up columns (n, K) by prompt; without prompts a row of weight w is w rounds of their own.

        Parameters
        ----------
        columns, weight
            (n, K) values and (n,) rounds that each row stands for.
        cluster
            (n,) number of each row's prompt; ``None`` where prompts are not named.
        """
        if cluster is not None:
            sums = cluster_sums(columns, cluster, weight)
            return cls(sums, np.ones(len(sums)))
        values, kept = np.asarray(columns, dtype=np.float64), weight > 0
        # A weight that is no whole number, or that no counter holds, is spread over a number of rounds that one does.
        times = np.maximum(np.rint(weight[kept] * min(1.0, _MOST / weight.sum())), 1.0)
        return cls(values[kept] * (weight[kept] / times)[:, None], times)

    @property
    def count(self) -> float:
        """Count the units."""
        return float(self.times.sum())

    @property
    def total(self) -> Floats:
        """(K,) sums over all units."""
        return np.asarray(self.times @ self.sums)

    @property
    def effective(self) -> Floats:
        r"""(K,) units that would tell as much if all had the same sum: :math:`(\sum s)^2 / \sum s^2` (Kish 1965)."""
        squares = self.times @ self.sums**2
        return np.asarray(self.total**2 / np.where(squares > 0, squares, 1.0))

    def interval(self, statistic: Statistic, *, resamples: int, seed: int, level: float = 0.95) -> Interval:
        """Bootstrap a statistic of the totals, see `lawfit.bootstrap.bootstrap`.

        Rows that stand for many rounds are drawn through the multinomial counts of those rounds, which is the bootstrap
        of the rounds one by one, at the cost of the rows.
        """
        return bootstrap(self.sums, statistic, times=self.times, resamples=resamples, seed=seed, level=level)

    def signed(self, *, resamples: int, seed: int) -> Iterator[Floats]:
        """Give blocks (b, K) of the totals with a random sign for every unit."""
        rng = np.random.default_rng(seed)
        for count in self._blocks(resamples):
            signs = 2.0 * rng.binomial(self.times.astype(np.int64), 0.5, size=(count, len(self.times))) - self.times
            yield signs @ self.sums

    def _blocks(self, resamples: int) -> list[int]:
        block = max(1, _AT_ONCE // len(self.sums))
        return [min(block, resamples - start) for start in range(0, resamples, block)]
