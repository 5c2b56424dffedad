"""How far a lookup is trusted beside a head: a weight for each length of its match."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lawfit.errors import FitError, LawfitError
from lawfit.json_object import read_object, require_keys
from policy.tree import FloatArray

VERSION = 1
LENGTHS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
_KEYS = {"match_weights", "lengths", "weights"}


@dataclass(frozen=True)
class MatchWeights:
    """The probability that a lookup is right rather than the other drafter, by the length of its match.

    Attributes
    ----------
    lengths
        Shortest match of each class, tokens, increasing. A shorter match than the first has weight 0.
    weights
        Weight of each class, in [0, 1], for `policy.mixture.mix`.
    """

    lengths: tuple[int, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse what is no table of probabilities."""
        if not self.lengths or len(self.lengths) != len(self.weights):
            raise LawfitError(
                f"match weights: {len(self.lengths)} lengths and {len(self.weights)} weights, expected as many, and one"
            )
        whole = all(type(length) is int for length in self.lengths)
        if (
            not whole
            or self.lengths[0] < 1
            or any(b <= a for a, b in zip(self.lengths, self.lengths[1:], strict=False))
        ):
            raise LawfitError(
                f"match weights: lengths are {list(self.lengths)!s:.80}, expected to increase from 1 or more"
            )
        if not all(type(weight) in (int, float) and 0 <= weight <= 1 for weight in self.weights):
            raise LawfitError(f"match weights: weights are {list(self.weights)!s:.80}, expected probabilities")

    def of(self, length: float) -> float:
        """Weight of a match of ``length`` tokens."""
        at = int(np.searchsorted(self.lengths, length, side="right")) - 1
        return float(self.weights[at]) if at >= 0 else 0.0

    @classmethod
    def fit(
        cls,
        rows: Iterable[tuple[float, float, float]],
        lengths: tuple[int, ...] = LENGTHS,
        prior: float = 1.0,
    ) -> MatchWeights:
        r"""Fit by maximum likelihood.

        In each class the weight w maximises :math:`\sum \log(w P_1 + (1 - w) P_2)` over its positions, the likelihood
        that the EM algorithm for a mixture of two known parts climbs. It is concave in w, so the root of its slope is
        the maximum. To it the pooled weight of all classes adds as many observations as ``prior`` says: nothing
        against many positions, and the whole answer where there is none.

        Parameters
        ----------
        rows
            Of each position: length of the lookup's match, and the probabilities that lookup and head gave to what
            came, as `policy.mixture.evidence` counts them. Rows without a match, or where both gave 0, tell nothing.
        lengths
            Shortest match of each class.
        prior
            Observations that the pooled weight stands for, at least 0.

        Raises
        ------
        FitError
            A row holds no length and two probabilities, none tells anything, or the prior is negative.
        """
        cls(lengths, (0.0,) * len(lengths))  # refuses what is no set of classes
        if not (math.isfinite(prior) and prior >= 0):
            raise FitError(f"match weights: prior is {prior}, expected a number of observations")
        table = _table(rows)
        table = table[(table[:, 0] >= lengths[0]) & (table[:, 1:].max(axis=1) > 0)]
        # A row that both explain alike says nothing; without any other the weight would be a guess.
        if not len(table) or (table[:, 1] == table[:, 2]).all():
            raise FitError(f"match weights: none of {len(table)} matches tells the lookup from the head")
        pooled = _heaviest(table[:, 1:], 0.5, 0.0)
        places = np.searchsorted(lengths, table[:, 0], side="right") - 1
        return cls(lengths, tuple(_heaviest(table[places == k, 1:], pooled, prior) for k in range(len(lengths))))

    def to_json(self) -> str:
        """Serialise the table."""
        return json.dumps(
            {"match_weights": VERSION, "lengths": list(self.lengths), "weights": list(self.weights)}, allow_nan=False
        )

    @classmethod
    def from_json(cls, text: str, source: str = "match weights") -> MatchWeights:
        """Read what `to_json` wrote.

        Raises
        ------
        LawfitError
            The text is not a table of match weights of version 1.
        """
        record = read_object(text, source)
        require_keys(record, _KEYS, source)
        if record["match_weights"] != VERSION:
            raise LawfitError(f"{source}: version {record['match_weights']!r:.40}, expected {VERSION}")
        for name in ("lengths", "weights"):
            if not isinstance(record[name], list):
                raise LawfitError(f"{source}: {name} is {record[name]!r:.40}, expected a list")
        return cls(tuple(record["lengths"]), tuple(record["weights"]))


def _table(rows: Iterable[tuple[float, float, float]]) -> FloatArray:
    """Check the rows: (n, 3) of length, probability, probability."""
    try:
        table = np.array(list(rows), dtype=np.float64).reshape(-1, 3)
    except (ValueError, TypeError) as error:
        raise FitError(f"match weights: rows are not (length, probability, probability): {error}") from error
    probs = table[:, 1:]
    wrong = ~(np.isfinite(table[:, 0]) & (probs >= 0).all(axis=1) & (probs <= 1 + 1e-9).all(axis=1))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise FitError(f"match weights: row {row} is {table[row].tolist()}, expected a length and two probabilities")
    return table


def _heaviest(probs: FloatArray, centre: float, prior: float) -> float:
    """Maximise the log likelihood of a weight, with (n, 2) probabilities and ``prior`` observations of ``centre``."""
    from scipy.optimize import brentq

    scaled = probs / probs.max(axis=1, keepdims=True)
    rise = scaled[:, 0] - scaled[:, 1]
    if not rise.any():
        return centre

    def slope(weight: float) -> float:
        likelihood = float((rise / (scaled[:, 1] + weight * rise)).sum())
        return likelihood + prior * (centre / weight - (1 - centre) / (1 - weight))

    low, high = 1e-12, 1 - 1e-12
    if slope(low) <= 0:
        return 0.0
    if slope(high) >= 0:
        return 1.0
    return float(brentq(slope, low, high, xtol=1e-12))
