"""The laws: survival models of acceptance, as frozen values."""

from __future__ import annotations

from types import MappingProxyType

from lawfit.laws.affine import AffineLogit
from lawfit.laws.affine_by_offset import AffineByOffset
from lawfit.laws.base import Law
from lawfit.laws.details import FitDetails
from lawfit.laws.geometric import Geometric
from lawfit.laws.hazard import FreeHazard
from lawfit.laws.isotonic import Isotonic
from lawfit.laws.two_state import Regimes, TwoState

LAWS: MappingProxyType[str, type[Law]] = MappingProxyType(
    {law.name: law for law in (AffineLogit, Isotonic, Geometric, FreeHazard, TwoState, AffineByOffset)}
)
"""Law classes by name."""

__all__ = [
    "LAWS",
    "AffineByOffset",
    "AffineLogit",
    "FitDetails",
    "FreeHazard",
    "Geometric",
    "Isotonic",
    "Law",
    "Regimes",
    "TwoState",
]
