"""What a fit leaves beside its coefficients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.metadata import version
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from lawfit.arrays import Floats
from lawfit.errors import LawfitError
from lawfit.observations import LastRound, Signal
from lawfit.survival import MeanForm

Method = Literal["mle", "ls-rounds", "ls-deciles"]
Matrix = tuple[tuple[float, ...], ...]
# Far more than any log holds, and than any coefficient varies: squares still do not overflow.
_MOST_ROUNDS = 10**15
_MOST_VARIANCE = 1e100
# Of stored covariances.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class FitDetails:
    """How a law was fitted, how sure it is, and how well it fits.

    Attributes
    ----------
    method, mean, last_round, signal
        The options of the fit. ``mean`` is the form of E[a | H] behind least squares and the R^2 values.
    rounds, left_out, clusters
        Rounds used; rounds left out for want of an entropy; prompts, or ``None`` where unknown.
    mean_accept_len
        Mean of a over the rounds used, bonus excluded.
    names
        Names of the k coefficients in the order of the covariances.
    covariance, cluster_covariance
        (k, k); by independent rounds, and by prompts. ``None`` where there is none.
    log_likelihood
        Of the rounds used, in nats, whatever the method.
    curve_r2, round_r2
        Share of variance explained, of ten equal-count decile means and of rounds; ``None`` if undefined.
    status
        How the optimiser ended.
    digest, source
        Of the log.
    versions
        (package, version) pairs.
    notes
        What a reader of the fit should know.
    """

    method: Method
    mean: MeanForm
    last_round: LastRound
    signal: Signal
    rounds: float
    left_out: float
    clusters: int | None
    mean_accept_len: float
    names: tuple[str, ...]
    covariance: Matrix | None
    cluster_covariance: Matrix | None
    log_likelihood: float
    curve_r2: float | None
    round_r2: float | None
    status: str
    digest: str
    source: str
    versions: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()

    @property
    def se(self) -> dict[str, float] | None:
        """Standard errors by coefficient, as if rounds were independent."""
        return _errors(self.names, self.covariance)

    @property
    def cluster_se(self) -> dict[str, float] | None:
        """Standard errors by coefficient, robust to dependence within prompts."""
        return _errors(self.names, self.cluster_covariance)

    def to_fields(self) -> dict[str, Any]:
        """Give the fields as JSON values; a number that is not finite becomes null."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_fields(cls, values: object, source: str) -> FitDetails:
        """Build from JSON values, refusing absent, unknown and mistyped fields."""
        if not isinstance(values, Mapping):
            raise LawfitError(f"{source}: fitted is {values!r}, expected an object or null")
        hints = get_type_hints(cls)
        if set(values) != set(hints):
            odd = sorted(set(values) ^ set(hints))
            raise LawfitError(f"{source}: fitted has absent or unknown fields: {', '.join(odd)}")
        made = cls(**{name: typed(values[name], hint, f"{source}: fitted.{name}") for name, hint in hints.items()})
        made._require_sound(source)
        return made

    def _require_sound(self, source: str) -> None:
        """Refuse counts and covariances that no fit can give."""
        for name, count in (("rounds", self.rounds), ("left_out", self.left_out), ("clusters", self.clusters or 0)):
            if not 0 <= count <= _MOST_ROUNDS:
                raise LawfitError(f"{source}: fitted.{name} is {str(count)[:40]}, expected 0 to {_MOST_ROUNDS:g}")
        for name in ("covariance", "cluster_covariance"):
            problem = _no_covariance(getattr(self, name), len(self.names))
            if problem:
                raise LawfitError(f"{source}: fitted.{name} {problem}")


def matrix(values: Floats | None) -> Matrix | None:
    """Freeze a covariance (k, k)."""
    return None if values is None else tuple(tuple(float(x) for x in row) for row in values)


def _no_covariance(values: Matrix | None, size: int) -> str:
    """Say what keeps ``values`` from being a covariance of ``size`` coefficients; empty where it is one.

    A coefficient on the edge of its range has no error: its whole row and column are NaN.
    """
    if values is None:
        return ""
    if len(values) != size or any(len(row) != size for row in values):
        return f"is not {size} by {size}, one row and column for each name"
    if not size:
        return ""
    covariance = np.array(values, dtype=np.float64)
    known = ~np.isnan(np.diag(covariance))
    if (np.isnan(covariance) == np.outer(known, known)).any():
        return "lacks a number, expected null on the diagonal and then along its whole row and column"
    held = covariance[np.ix_(known, known)]
    spread = np.diag(held)
    if not ((spread >= 0) & (spread <= _MOST_VARIANCE)).all():
        return f"has a variance out of range, expected 0 to {_MOST_VARIANCE:g}"
    sd = np.sqrt(spread)
    scale = np.where(sd > 0, sd, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        correlation = held / scale / scale[:, None]
        apart = np.abs(correlation - correlation.T)
    if not ((np.abs(correlation) <= 1.0 + _ROUNDING) & (apart <= _ROUNDING)).all():
        return "is not symmetric, or larger off its diagonal than on it"
    if len(held) and np.linalg.eigvalsh(correlation)[0] < -_ROUNDING * size:
        return "gives some sum of coefficients a variance below 0"
    return ""


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """Name the packages that a fit depends on."""
    return tuple((name, version(name)) for name in ("lawfit", "numpy", "scipy", "polars"))


def _errors(names: tuple[str, ...], covariance: Matrix | None) -> dict[str, float] | None:
    if covariance is None:
        return None
    return {name: float(np.sqrt(covariance[k][k])) for k, name in enumerate(names)}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def typed(value: Any, hint: Any, where: str) -> Any:
    """Turn a JSON value into what ``hint`` says, or raise."""
    origin, options = get_origin(hint), get_args(hint)
    if origin is Literal and value in options:
        return value
    if origin is tuple and isinstance(value, list):
        inner = [options[0]] * len(value) if options[-1] is ... else list(options)
        if len(inner) == len(value):
            return tuple(typed(item, kind, where) for item, kind in zip(value, inner, strict=True))
    if type(None) in options:
        return None if value is None else typed(value, options[0], where)
    if hint is float and value is None:
        return math.nan
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError as error:
            raise LawfitError(f"{where} is a number of {len(str(value))} digits, too large for a float") from error
    if hint in (int, str, bool) and type(value) is hint:
        return value
    raise LawfitError(f"{where} is {value!r:.80}, expected {getattr(hint, '__name__', hint)}")
