"""lawfit: survival models of draft acceptance, fitted to the round logs of speculative decoding."""

from __future__ import annotations

from lawfit.compression import compress
from lawfit.errors import FitError, LawfitError, LogFormatError, NotIdentified
from lawfit.laws import LAWS, AffineByOffset, AffineLogit, FreeHazard, Geometric, Isotonic, Law, TwoState
from lawfit.log import RoundLog
from lawfit.observations import Observations, observe
from lawfit.readers import read_rounds

__all__ = [
    "LAWS",
    "AffineByOffset",
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
    "TwoState",
    "compress",
    "observe",
    "read_rounds",
]
