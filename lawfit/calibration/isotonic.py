"""An isotonic hazard: acceptance rises with the draft's confidence, and is free otherwise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from lawfit.arrays import Floats
from lawfit.calibration.features import draft_logit
from lawfit.calibration.nodes import NodeTable
from lawfit.errors import FitError
from lawfit.laws.isotonic import falling_steps


@dataclass(frozen=True)
class Steps:
    """A non-decreasing step function of the draft's log odds.

    Attributes
    ----------
    edges
        (K - 1,) increasing log odds at which a new step starts.
    values
        (K,) non-decreasing probabilities within (0, 1).
    """

    edges: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse what is no such function."""
        if len(self.values) != len(self.edges) + 1:
            raise FitError(f"{len(self.values)} values, expected {len(self.edges) + 1}: one more than edges")
        if not all(math.isfinite(edge) for edge in self.edges) or (np.diff(self.edges) <= 0).any():
            raise FitError("edges must be finite and increase")
        if not all(0.0 < value < 1.0 for value in self.values) or (np.diff(self.values) < 0).any():
            raise FitError("values must lie within (0, 1) and not decrease")

    def at(self, x: Floats) -> Floats:
        """Evaluate at ``x`` (n,)."""
        return np.asarray(np.array(self.values)[np.searchsorted(np.array(self.edges), x, side="right")])

    @classmethod
    def fit(cls, x: Floats, successes: Floats, weight: Floats) -> Self:
        """Pool adjacent violators, with half a success at the lowest ``x`` and half a miss at the highest.

        The halves keep the ends off 0 and 1, where one surprise has an infinite log score; pooled with the rest they
        cannot break the order.
        """
        points = np.concatenate([[x.min()], x, [x.max()]])
        misses = np.concatenate([[0.0], weight * (1.0 - successes), [0.5]])
        trials = np.concatenate([[0.5], weight, [0.5]])
        edges, falling = falling_steps(points, misses, trials)
        return cls(tuple(edges.tolist()), tuple((1.0 - falling).tolist()))


@dataclass(frozen=True)
class IsotonicHazard:
    """Isotonic regression of acceptance on the draft's confidence, for best children and for their siblings apart.

    Attributes
    ----------
    top, sibling
        Steps for nodes of rank 0, and of other ranks; ``sibling`` is ``None`` where the fit met one kind only, and
        ``top`` serves both.
    """

    name: ClassVar[str] = "isotonic"

    top: Steps
    sibling: Steps | None = None

    def probability(self, nodes: NodeTable) -> Floats:
        """Probability (n,) of acceptance, each node by itself."""
        x = draft_logit(nodes.frame["draft_logprob"].to_numpy())
        if self.sibling is None:
            return self.top.at(x)
        return np.where(nodes.frame["rank"].to_numpy() > 0, self.sibling.at(x), self.top.at(x))

    def logit(self, nodes: NodeTable) -> Floats:
        """Log odds (n,) of acceptance."""
        p = self.probability(nodes)
        return np.asarray(np.log(p) - np.log1p(-p))

    @classmethod
    def fit(cls, nodes: NodeTable) -> Self:
        """Fit on the nodes that were reached.

        Raises
        ------
        NotIdentified
            None was reached.
        """
        seen = nodes.at_risk()
        x, successes, weight = draft_logit(seen.frame["draft_logprob"].to_numpy()), seen.accepted, seen.weight
        below = seen.frame["rank"].to_numpy() > 0
        if below.all() or not below.any():
            return cls(Steps.fit(x, successes, weight))
        top, rest = (Steps.fit(x[rows], successes[rows], weight[rows]) for rows in (~below, below))
        return cls(top, rest)
