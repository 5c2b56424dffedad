"""Keyed sampling: one draw for each output position, the same whatever was drafted.

The token at output position n is the i with the largest log p_i + g_i, where g is Gumbel noise that (seed, n) alone
determines (the Gumbel-max trick, Maddison et al. 2014: that i is distributed as p). A draft tree decides only which
rows are at hand, never the noise: so speculative output is token-identical to plain sampling with the same seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

from lawfit.arrays import Floats
from lawfit.errors import LawfitError

if TYPE_CHECKING:
    from torch import Tensor


class SamplingError(LawfitError):
    """Sampling was asked for with settings, rows or drafts that make no distribution."""


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn from the target's rows.

    The row is filtered as Hugging Face does: temperature first, then top-k, then top-p on what is left. Where several
    tokens tie at the edge of a filter, all of them stay, so that the outcome does not hang on their order.

    Attributes
    ----------
    temperature
        The logits are divided by it; 0 is greedy, and then nothing else counts.
    top_p
        Keeps a token where the tokens above it hold less than ``top_p``; the best one always stays. 1 keeps all.
    top_k
        Keeps the ``top_k`` best tokens; 0 keeps all.
    seed
        Of the noise.

    Raises
    ------
    SamplingError
        A setting is no number, or outside its range.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings without a meaning."""
        if not (_finite(self.temperature) and self.temperature >= 0):
            raise SamplingError(f"temperature {self.temperature!r:.40}, expected a finite number of at least 0")
        if not (_finite(self.top_p) and 0 < self.top_p <= 1):
            raise SamplingError(f"top_p {self.top_p!r:.40}, expected a number above 0 and at most 1")
        if not (_whole(self.top_k) and self.top_k >= 0):
            raise SamplingError(f"top_k {self.top_k!r}, expected a whole number of at least 0 (0 keeps all tokens)")
        if not (_whole(self.seed) and 0 <= self.seed < 2**64):
            raise SamplingError(f"seed {self.seed!r}, expected a whole number from 0 to 2**64 - 1")

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken."""
        return self.temperature == 0

    def token(self, logits: Tensor, position: int) -> int:
        """Draw the token at output ``position`` (0 is the first one after the prompt) from a row (V,) of logits."""
        if self.greedy:
            return int(logits.argmax())
        return int(self.scores(logits, position).argmax())

    def scores(self, logits: Tensor, position: int) -> Floats:
        """Give the numbers (V,) whose largest is taken: the filtered row with its noise; greedy, the logits.

        The gap of the two largest tells how much rounding it takes to draw another token.
        """
        if self.greedy:
            return _array(logits)
        scores = self._scores(logits)
        return scores + gumbel(self.seed, position, len(scores))

    def probs(self, logits: Tensor) -> Floats:
        """Give the distribution (V,) that tokens are drawn from: of a row of logits, or of a drafter's."""
        if self.greedy:
            return one_hot(int(logits.argmax()), len(logits))
        return _softmax(self._scores(logits))

    def _scores(self, logits: Tensor) -> Floats:
        """Give filtered log probabilities (V,), but for a constant; -inf where a filter removes the token."""
        row = _array(logits)
        # The best first goes to 0: a division by a tiny temperature then overflows to -inf only, never to NaN.
        with np.errstate(invalid="ignore", over="ignore"):
            scores: Floats = (row - row.max()) / self.temperature
        if np.isnan(scores).any():
            raise SamplingError("a row of logits is not a number, expected finite logits")
        if 0 < self.top_k < len(scores):
            scores[scores < np.partition(scores, -self.top_k)[-self.top_k]] = -np.inf
        if self.top_p < 1:
            probs = _softmax(scores)
            best_first = np.sort(probs)[::-1]
            above = np.cumsum(best_first) - best_first
            scores[probs < best_first[np.count_nonzero(above < self.top_p) - 1]] = -np.inf
        return scores


def gumbel(seed: int, position: int, vocabulary: int) -> Floats:
    """Gumbel noise (V,) of an output position: a pure function of its arguments.

    It is made on the CPU from the raw bits of a counter-based generator, so that it does not depend on the device, on
    the rows of a pass, or on what was drawn before.
    """
    raw = _philox(seed, position, stream=0).random_raw(vocabulary)
    # The middles of 2**52 equal cells: neither 0 nor 1, whose logarithms are infinite.
    uniform = ((raw >> np.uint64(12)) + 0.5) * 2.0**-52
    noise: Floats = -np.log(-np.log(uniform))
    return noise


def generator(seed: int, position: int, stream: int) -> np.random.Generator:
    """Make a random generator that belongs to an output position; ``stream`` 0 is that of `gumbel`."""
    return np.random.Generator(_philox(seed, position, stream))


def draw(probs: Floats, uniform: float) -> int:
    """Give the token of ``probs`` (V,) in whose share of their sum ``uniform``, from [0, 1), falls."""
    steps = np.cumsum(probs)
    token = int(np.searchsorted(steps, uniform * steps[-1], side="right"))
    # A product that rounds up to the sum itself belongs to the last token that has a share.
    return min(token, int(np.searchsorted(steps, steps[-1])))


def one_hot(token: int, vocabulary: int) -> Floats:
    """Give the distribution (V,) of a certain token."""
    probs = np.zeros(vocabulary)
    probs[token] = 1.0
    return probs


def _philox(seed: int, position: int, stream: int) -> np.random.Philox:
    """Philox 4x64 (Salmon et al. 2011): the key is (seed, position), the upper word of the counter the stream."""
    key = np.array([seed, position], dtype=np.uint64)
    return np.random.Philox(key=key, counter=np.array([0, 0, 0, stream], dtype=np.uint64))


def _array(logits: Tensor) -> Floats:
    row: Floats = logits.detach().cpu().double().numpy()
    return row


def _softmax(scores: Floats) -> Floats:
    weights = np.exp(scores - scores.max())
    probs: Floats = weights / weights.sum()
    return probs


def _finite(value: object) -> bool:
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond any float
        return False


def _whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
