"""lawfit: survival models of draft acceptance, fitted to the round logs of speculative decoding."""

from __future__ import annotations

from lawfit.errors import FitError, LawfitError, LogFormatError, NotIdentified
from lawfit.laws import LAWS, AffineLogit, FreeHazard, Geometric, Isotonic, Law
from lawfit.log import RoundLog
from lawfit.observations import Observations, observe
from lawfit.readers import read_rounds

__all__ = [
    "LAWS",
    "AffineLogit",
    "FitError",
    "FreeHazard",
    "Geometric",
    "Isotonic",
    "Law",
    "LawfitError",
    "LogFormatError",
    "NotIdentified",
    "Observations",
    "RoundLog",
    "observe",
    "read_rounds",
]
