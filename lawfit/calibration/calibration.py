"""A fitted calibration: a hazard, levels of tasks and prompts, and siblings kept coherent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from lawfit.arrays import Floats
from lawfit.calibration.coherence import coherent
from lawfit.calibration.hazard import LogisticHazard
from lawfit.calibration.isotonic import IsotonicHazard
from lawfit.calibration.nodes import NodeTable
from lawfit.calibration.shrinkage import Levels
from lawfit.errors import FitError
from lawfit.folds import prompt_folds
from lawfit.observations import require
from lawfit.survival import expit

# Far more than any log holds.
_MOST_PROMPTS = 10**12
Method = Literal["logistic", "isotonic"]
HAZARDS: dict[str, type[LogisticHazard] | type[IsotonicHazard]] = {
    "logistic": LogisticHazard,
    "isotonic": IsotonicHazard,
}


@dataclass(frozen=True)
class Calibration:
    """Conditional acceptance of drafted nodes, from what is known before verification.

    Attributes
    ----------
    hazard
        Log odds of each node by itself.
    levels
        Shrunken levels of tasks and prompts; ``None`` where prompts are not named, or none were wanted.
    nodes, prompts
        Nodes reached, weighted, and prompts, behind the fit.
    source
        Of the nodes.
    """

    hazard: LogisticHazard | IsotonicHazard
    levels: Levels | None
    nodes: float
    prompts: int | None
    source: str

    def __post_init__(self) -> None:
        """Refuse counts that no fit can give."""
        if not 0.0 <= self.nodes < math.inf:
            raise FitError(f"nodes is {self.nodes}, expected a finite number >= 0")
        if self.prompts is not None and not 0 <= self.prompts <= _MOST_PROMPTS:
            raise FitError(f"prompts is {str(self.prompts)[:40]}, expected a count from 0 to {_MOST_PROMPTS}")

    def probability(self, nodes: NodeTable) -> Floats:
        """Probability (n,) that each node is accepted, given that its parent is; siblings sum to at most 1.

        Give whole families: a node's siblings are those of the same round and parent in ``nodes``.
        """
        logit = self.hazard.logit(nodes)
        single = expit(logit) if self.levels is None else self.levels.probability(logit, *_names(nodes))
        return coherent(single, nodes.siblings)

    @classmethod
    def fit(
        cls,
        nodes: NodeTable,
        *,
        method: Method = "logistic",
        features: Sequence[str] | None = None,
        penalty: float | None = None,
        levels: bool = True,
    ) -> Self:
        """Fit on the nodes that were reached.

        Parameters
        ----------
        nodes
            From `lawfit.calibration.nodes.trace_nodes` or `spine_nodes`.
        method
            ``logistic``, or ``isotonic`` in the draft's confidence.
        features, penalty
            Of the logistic hazard; see `LogisticHazard.fit`.
        levels
            Whether tasks and prompts have levels of their own.

        Raises
        ------
        NotIdentified
            No node was reached, or the outcomes do not determine the hazard.
        """
        require(method, Method, "method")
        seen = nodes.at_risk()
        hazard: LogisticHazard | IsotonicHazard
        if method == "logistic":
            hazard = LogisticHazard.fit(seen, features=features, penalty=penalty)
        else:
            hazard = IsotonicHazard.fit(seen)
        cluster = seen.cluster
        fitted = None
        if levels and cluster is not None:
            # Tests of one output token are one piece of evidence on its prompt, however often a trace repeats them.
            fitted = Levels.fit(hazard.logit(seen), seen.accepted, seen.weight / seen.overlap, *_names(seen))
        prompts = None if cluster is None else int(cluster.max()) + 1
        return cls(hazard, fitted, float(seen.weight.sum()), prompts, seen.source)

    def to_json(self) -> str:
        """Write as JSON, format version 1."""
        from lawfit.calibration.files import encode

        return encode(self)

    @classmethod
    def from_json(cls, text: str, source: str = "calibration") -> Calibration:
        """Read what `to_json` wrote.

        Raises
        ------
        LawfitError
            Not a calibration of this version, too large, or a value is absent, unknown, mistyped or out of range.
        """
        from lawfit.calibration.files import decode

        return decode(text, source)


def cross_fitted(
    nodes: NodeTable, *, method: Method = "logistic", folds: int = 5, seed: int = 0, levels: bool = True
) -> Floats:
    """Probability (n,) of each node from a calibration that did not see its prompt.

    So a node's prompt has no level of its own here: the scores are those of a new prompt of a known task.

    Raises
    ------
    NotIdentified
        Prompts are not named, or fewer than ``folds``; or a part does not determine the calibration.
    """
    fold = prompt_folds(nodes.cluster, folds, seed)
    probability = np.empty(len(nodes))
    for part in range(folds):
        held = fold == part
        fitted = Calibration.fit(nodes.take(~held), method=method, levels=levels)
        probability[held] = fitted.probability(nodes.take(held))
    return probability


def _names(nodes: NodeTable) -> tuple[list[str], list[str]]:
    """Give the task and the prompt of each node."""
    return nodes.frame["task"].fill_null("(none)").to_list(), nodes.frame["prompt"].fill_null("(none)").to_list()
