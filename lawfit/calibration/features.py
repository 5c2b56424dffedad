"""What a node tells before verification, as columns of a regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import polars as pl

from lawfit.arrays import Floats
from lawfit.calibration.nodes import NodeTable
from lawfit.errors import NotIdentified

# A draft probability of exactly 1 (or 0) has an infinite logit; beyond this the draft's rounding speaks.
LOGIT_CAP = 12.0


@dataclass(frozen=True)
class Feature:
    """A column known before verification: its name, its meaning, and how it is computed from a node table's frame."""

    name: str
    about: str
    values: Callable[[pl.DataFrame], Floats]


def draft_logit(log_prob: Floats) -> Floats:
    """Log odds of the draft's probability, held within +-12."""
    held = np.minimum(log_prob, 0.0)
    with np.errstate(divide="ignore"):
        logit = held - np.log(-np.expm1(held))
    return np.asarray(np.clip(logit, -LOGIT_CAP, LOGIT_CAP))


def _confidence(frame: pl.DataFrame) -> Floats:
    return draft_logit(frame["draft_logprob"].to_numpy())


def _first(frame: pl.DataFrame) -> Floats:
    return _real(frame, pl.col("depth") == 1)


def _real(frame: pl.DataFrame, expression: pl.Expr) -> Floats:
    """Evaluate a column; NaN where it is null."""
    return frame.select(expression.cast(pl.Float64).fill_null(np.nan)).to_series().to_numpy()


_ALL = (
    Feature("confidence", "log odds of the draft probability, within +-12", _confidence),
    Feature("first", "1 at offset 1", _first),
    Feature("first_confidence", "confidence at offset 1, else 0", lambda f: _first(f) * _confidence(f)),
    Feature("offset", "log of the offset", lambda f: _real(f, pl.col("depth").log())),
    Feature(
        "sibling", "1 where the draft ranks another child of the parent higher", lambda f: _real(f, pl.col("rank") > 0)
    ),
    Feature("rank", "log(1 + rank among siblings)", lambda f: _real(f, pl.col("rank").log1p())),
    Feature(
        "off_spine", "1 where the parent is off the drafter's top-1 path", lambda f: _real(f, ~pl.col("below_spine"))
    ),
    Feature(
        "prev_entropy", "entropy of the row that produced the root, nats", lambda f: _real(f, pl.col("prev_entropy"))
    ),
    Feature("draft_entropy", "entropy of the draft at offset 1, nats", lambda f: _real(f, pl.col("draft_entropy"))),
)
FEATURES: MappingProxyType[str, Feature] = MappingProxyType({feature.name: feature for feature in _ALL})
"""Features by name. The root entropy is none: it exists only after verification."""


def columns(nodes: NodeTable, names: tuple[str, ...]) -> Floats:
    """Give (n, k) features.

    Raises
    ------
    NotIdentified
        A feature is not known at every node.
    """
    table = (
        np.stack([FEATURES[name].values(nodes.frame) for name in names], axis=1) if names else np.empty((len(nodes), 0))
    )
    unknown = np.isnan(table).sum(axis=0)
    if unknown.any():
        at = int(np.flatnonzero(unknown)[0])
        raise NotIdentified(f"{nodes.source}: {unknown[at]} of {len(nodes)} nodes have no {names[at]}; leave it out")
    return table


def usable(nodes: NodeTable) -> tuple[str, ...]:
    """Name the features that are known at every node and vary."""
    values = {name: feature.values(nodes.frame) for name, feature in FEATURES.items()}
    return tuple(name for name, x in values.items() if len(x) and not np.isnan(x).any() and x.min() < x.max())
