"""The coefficients of a law, one by one, whatever the law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from lawfit.arrays import Flags, Floats
from lawfit.errors import LawfitError
from lawfit.laws.base import Law

Slot = tuple[str, int | None]
"""A field of a law, and the place in it where the field holds several numbers."""


def slots_of(law: Law, names: Sequence[str]) -> tuple[Slot, ...]:
    """Find where the coefficients called ``names`` stand; empty where they cannot be told.

    A name is that of a field, or of a field and an offset (``b0_2``); else names and numbers go together in order.
    """
    slots: list[Slot] = []
    by_name: dict[str, Slot] = {}
    for field in fields(law):
        value = getattr(law, field.name)
        if isinstance(value, float):
            slots.append((field.name, None))
            by_name[field.name] = slots[-1]
        elif isinstance(value, tuple) and all(isinstance(item, float) for item in value):
            for k in range(len(value)):
                slots.append((field.name, k))
                by_name[f"{field.name}_{k + 1}"] = slots[-1]
    if all(name in by_name for name in names):
        return tuple(by_name[name] for name in names)
    return tuple(slots) if len(slots) == len(names) else ()


def value_at(law: Law, slot: Slot) -> float:
    """Read a coefficient."""
    name, at = slot
    value = getattr(law, name)
    return float(value if at is None else value[at])


def moved(law: Law, slot: Slot, by: float) -> Law | None:
    """Change a coefficient by ``by``; ``None`` where the law may not have that value."""
    name, at = slot
    value = getattr(law, name)
    new = value + by if at is None else (*value[:at], value[at] + by, *value[at + 1 :])
    changed: dict[str, object] = {name: new}
    try:
        return replace(law, **changed)  # type: ignore[arg-type]
    except LawfitError:
        return None


def own_covariance(law: Law) -> Floats | None:
    """Give the (k, k) covariance of a fitted law's coefficients, by prompts where the fit knew them.

    A coefficient on the edge of its range counts as exact. ``None`` where the law was made from coefficients, has no
    standard errors, or its coefficients cannot be told apart: it is then taken as exact.
    """
    details = law.fitted
    known = None if details is None else details.cluster_covariance or details.covariance
    if details is None or known is None or not slots_of(law, details.names):
        return None
    return np.nan_to_num(np.array(known, dtype=np.float64))


def errorless(law: Law) -> Flags | None:
    """Flag (k,) coefficients of a fitted law without an error of their own; ``None`` for a law that was not fitted.

    On the edge of its range a coefficient has none, and what others are there may be arbitrary (the weight of two
    states that are alike).
    """
    own = own_covariance(law)
    if own is not None:
        return ~(np.diag(own) > 0)
    return None if law.fitted is None else np.ones(len(law.fitted.names), dtype=np.bool_)
