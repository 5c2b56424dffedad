"""An online alarm: cumulative sums that rise while outcomes lean away from the law."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from lawfit.calibration.pit import within
from lawfit.errors import FitError
from lawfit.laws.base import Law
from lawfit.observations import Observations

Alarm = Literal["too much", "too little"]


@dataclass(frozen=True)
class Cusum:
    r"""Two risk-adjusted cumulative sums (Page 1954; Steiner et al. 2000), fed round by round.

    Each offset seen adds its log-likelihood ratio of odds multiplied by e^delta against the law's own,

    .. math:: S \leftarrow \max\Big(0,\; S + \sum_j \big[y_j \delta - \log(1 - h_j + h_j e^\delta)\big]\Big),

    with delta = -shift for a law that promises too much, and +shift for one that promises too little. To first order an
    offset adds delta times its residual y - h; the rest lets every horizon and hazard weigh as it should. While the law
    holds and rounds are independent given it, the mean number of rounds up to an alarm is at least ``arl``: at a
    threshold of log(2 arl) by the Shiryaev-Roberts martingale of both sums (Lorden 1971). The bound is safe rather than
    sharp (about twenty times as many in a simulation at shift .5), which leaves room for levels of prompts that the law
    does not know: they make alarms more frequent.

    Attributes
    ----------
    shift
        delta > 0: change of the log odds to be found fastest.
    arl
        Rounds between false alarms, at least, on average.
    too_much, too_little
        The sums; 0 at the start.
    """

    shift: float = 0.5
    arl: float = 10_000.0
    too_much: float = 0.0
    too_little: float = 0.0

    def __post_init__(self) -> None:
        """Refuse settings that give no alarm, or nothing but alarms."""
        if not 0.0 < self.shift < 20.0 or not 1.0 <= self.arl < math.inf:
            raise FitError(f"shift is {self.shift} and arl {self.arl}, expected above 0 (log odds), and rounds >= 1")
        if not (0.0 <= self.too_much < math.inf and 0.0 <= self.too_little < math.inf):
            raise FitError(f"sums are {self.too_much} and {self.too_little}, expected finite numbers >= 0")

    @property
    def threshold(self) -> float:
        """Sum at which an alarm is raised."""
        return math.log(2.0 * self.arl)

    @property
    def alarm(self) -> Alarm | None:
        """Which way the law is off; ``None`` while there is no alarm."""
        if max(self.too_much, self.too_little) < self.threshold:
            return None
        return "too much" if self.too_much >= self.too_little else "too little"

    def after(self, hazards: ArrayLike, accept_len: int, missed: bool, times: float = 1.0) -> Cusum:
        """Add a round, or several of the same kind.

        Parameters
        ----------
        hazards
            The law's h_1, h_2, ... at the offsets seen, or more of them; one number where all are the same.
        accept_len, missed
            Accepted draft tokens, bonus excluded, and whether a miss was seen after them (not so at the horizon, nor
            where the request ended).
        times
            How many such rounds came, one after the other.

        Raises
        ------
        FitError
            A hazard is no probability, or there are fewer than offsets seen.
        """
        h = np.atleast_1d(np.asarray(hazards, dtype=np.float64))
        seen = accept_len + missed
        same = seen if h.size == 1 else 1  # one hazard for all offsets
        h = h if h.size == 1 else h[:seen]
        if len(h) * same != seen or not ((h >= 0) & (h <= 1)).all():
            raise FitError(f"hazards are {h.tolist()}, expected a probability for each of {seen} offsets")
        less, more = (
            delta * accept_len - same * float(np.log1p(h * math.expm1(delta)).sum())
            for delta in (-self.shift, self.shift)
        )
        # Equal steps: floored after each, or after all of them, comes to the same.
        much, little = self.too_much + times * less, self.too_little + times * more
        return replace(self, too_much=max(0.0, much), too_little=max(0.0, little))

    def restarted(self) -> Cusum:
        """Start over, after an alarm was heeded."""
        return replace(self, too_much=0.0, too_little=0.0)


def watch(law: Law, observations: Observations, cusum: Cusum | None = None) -> Iterator[Cusum]:
    """Feed rounds in row order, and yield the state after each; a row of weight w is w rounds.

    Raises
    ------
    NotIdentified
        The law needs an entropy, and some round has none.
    """
    rows = within(law, observations)
    state = cusum or Cusum()
    entropy = rows.entropy if law.needs_entropy else None
    for at in range(len(rows)):
        hazards = law.hazard(None if entropy is None else entropy[at], int(rows.trials[at]))
        state = state.after(hazards, int(rows.accept_len[at]), bool(rows.missed[at]), float(rows.weight[at]))
        yield state
