"""What every law is: a frozen value that supplies hazards."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from lawfit import survival
from lawfit.arrays import Floats
from lawfit.curve import entropy_curve, round_r_squared
from lawfit.errors import FitError, NotIdentified
from lawfit.invariants import MOST_OFFSETS
from lawfit.laws.details import FitDetails, Method, matrix, versions
from lawfit.least_squares import LeastSquares
from lawfit.log import RoundLog
from lawfit.observations import LastRound, Observations, Signal, observe, require
from lawfit.survival import MeanForm


@dataclass(frozen=True, eq=False)
class Estimate:
    """What a law's estimator found: coefficients, their names and (k, k) covariances, and how it ended."""

    law: Law
    names: tuple[str, ...]
    covariance: Floats | None
    cluster_covariance: Floats | None
    status: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Law(ABC):
    """A law of acceptance: hazards of continuing, given the root entropy (GLANCE Eq. 3).

    Accepted lengths exclude the bonus; entropies are in nats. Make one by its constructor, from printed
    coefficients, or by `fit`.

    Attributes
    ----------
    fitted
        Details of the fit; ``None`` for a law made from coefficients.
    """

    name: ClassVar[str]
    needs_entropy: ClassVar[bool]
    ends: ClassVar[bool] = False
    """Whether hazards are known up to `horizon` only."""

    fitted: FitDetails | None = field(default=None, kw_only=True, repr=False, compare=False)

    @property
    @abstractmethod
    def horizon(self) -> int:
        """Deepest offset L of a round, where no other is given."""

    @property
    @abstractmethod
    def params(self) -> dict[str, float | list[float]]:
        """Coefficients by name."""

    @abstractmethod
    def _hazards(self, entropy: Floats) -> Floats:
        """Give (..., 1) or (..., L) hazards at ``entropy`` (...,)."""

    @classmethod
    @abstractmethod
    def _by_likelihood(cls, observations: Observations) -> Estimate:
        """Maximise the shared likelihood."""

    @classmethod
    @abstractmethod
    def _by_least_squares(cls, observations: Observations, method: LeastSquares, form: MeanForm) -> Estimate:
        """Fit the mean accepted length."""

    def hazard(self, entropy: ArrayLike | None = None, horizon: int | None = None) -> Floats:
        """P[match at offset j | matches before, H] for j = 1..L; shape of ``entropy`` + (L,).

        Raises
        ------
        NotIdentified
            The law needs an entropy and got none, or its hazards end before ``horizon``.
        FitError
            An entropy is not a number of nats >= 0, or ``horizon`` is below 0.
        """
        length = self._length(horizon)
        hazards = self._hazards(self._nats(entropy))
        if hazards.shape[-1] == 1 and not self.ends:
            return np.repeat(hazards, length, axis=-1)
        return hazards[..., :length]

    def survival(self, entropy: ArrayLike | None = None, horizon: int | None = None) -> Floats:
        """P[a >= l | H] for l = 1..L (GLANCE Eq. 3); shape of ``entropy`` + (L,)."""
        return survival.survival(self._hazards(self._nats(entropy)), self._length(horizon))

    def mean(
        self,
        entropy: ArrayLike | None = None,
        horizon: ArrayLike | None = None,
        *,
        form: MeanForm = "truncated",
    ) -> Floats:
        """E[a | H], bonus excluded (GLANCE Eq. 2 and 3); shape of ``entropy``, broadcast with ``horizon``.

        ``form`` is ``truncated``, the equation, or ``capped``, min(h / (1 - h), L), of GLANCE's public code.
        """
        lengths = np.asarray(self.horizon if horizon is None else horizon, dtype=np.int64)
        if lengths.size:
            self._length(int(lengths.max()))
            self._length(int(lengths.min()))
        return survival.mean(self._hazards(self._nats(entropy)), lengths, form)

    def log_likelihood(self, log: RoundLog | Observations) -> float:
        """Right-censored log-likelihood of the rounds, in nats (see `lawfit.survival.log_likelihood`).

        A `RoundLog` is observed with its last rounds kept and its root entropy; give `observe(...)` to
        choose. Rounds without an entropy are left out where the law needs one.
        """
        observations = log if isinstance(log, Observations) else observe(log)
        if self.needs_entropy:
            observations = observations.with_entropy()
        # One row of hazards serves every round of a law that does not look at entropy.
        seen = observations.entropy if self.needs_entropy else np.zeros(1)
        return survival.log_likelihood(self._hazards(self._nats(seen)), observations)

    @classmethod
    def fit(
        cls,
        log: RoundLog | Observations,
        *,
        method: Method = "mle",
        mean: MeanForm = "truncated",
        last_round: LastRound = "keep",
        signal: Signal = "root_entropy",
    ) -> Self:
        """Fit the law to a round log.

        Parameters
        ----------
        log
            A round log; or the result of `lawfit.observe`, whose own ``last_round`` and ``signal`` then hold.
        method
            ``mle``: maximum likelihood. ``ls-rounds``: least squares of a on its mean, as GLANCE's public
            code does. ``ls-deciles``: least squares on ten decile means. Where the law is wrong they differ.
        mean
            Form of E[a | H] in least squares: ``truncated`` (GLANCE Eq. 2) or ``capped`` (its public code).
        last_round, signal
            See `lawfit.observe`.

        Raises
        ------
        NotIdentified
            The log does not determine the law; the message says why.
        FitError
            An option does not apply, or the optimiser failed.
        """
        require(method, Method, "method")
        require(mean, MeanForm, "mean")
        if method == "mle" and mean == "capped":
            raise FitError("mean 'capped' is a form of least squares; use method ls-rounds or ls-deciles")
        observations = _observed(log, last_round, signal)
        if cls.needs_entropy or method == "ls-deciles":
            observations = observations.with_entropy()
        if observations.longest == 0:
            raise NotIdentified(f"{observations.source}: every horizon is 0: nothing could be accepted")
        try:
            estimate = (
                cls._by_likelihood(observations)
                if method == "mle"
                else cls._by_least_squares(observations, method, mean)
            )
        except NotIdentified as error:
            raise _located(error, observations.source) from error
        law = estimate.law
        if not isinstance(law, cls):
            raise TypeError(f"{cls.__name__} estimated a {type(law).__name__}")
        return replace(law, fitted=_details(estimate, observations, method, mean))

    def to_json(self) -> str:
        """Write the law with its fit details as JSON, format version 1."""
        from lawfit.laws.files import encode

        return encode(self)

    @classmethod
    def from_json(cls, text: str, source: str = "law") -> Self:
        """Read what `to_json` wrote; on `Law` itself, a law of any kind.

        Raises
        ------
        LawfitError
            Not a law, of another kind or version, or a value is absent, unknown, mistyped or out of range.
        """
        from lawfit.laws.files import decode

        return decode(text, cls, source)

    def _length(self, horizon: int | None) -> int:
        if horizon is None:
            return self.horizon
        if horizon < 0:
            raise FitError(f"horizon is {horizon}, expected at least 0")
        if self.ends and horizon > self.horizon:
            raise NotIdentified(f"offset {horizon} was asked for, the {self.name} law ends at {self.horizon}")
        return horizon

    def _nats(self, entropy: ArrayLike | None) -> Floats:
        if entropy is None:
            if self.needs_entropy:
                raise NotIdentified(f"the {self.name} law needs an entropy, none was given")
            return np.zeros(())
        nats = np.asarray(entropy, dtype=np.float64)
        if not (nats >= 0).all():
            wrong = nats[~(nats >= 0)].flat[0]
            raise FitError(f"entropy is {wrong}, expected nats >= 0")
        return nats


def require_horizon(horizon: int) -> None:
    """Raise `FitError` unless ``horizon`` is a whole number from 1 to that of the longest round a log may hold."""
    if isinstance(horizon, bool) or not isinstance(horizon, (int, np.integer)) or horizon < 1:
        raise FitError(f"horizon is {horizon!r}, expected a whole number >= 1")
    if horizon > MOST_OFFSETS:
        shown = horizon if horizon < 10**20 else "beyond 10^20"
        raise FitError(f"horizon is {shown}, expected at most {MOST_OFFSETS}")


def require_hazards(*hazards: float) -> None:
    """Raise `FitError` unless every hazard is in [0, 1]."""
    for hazard in hazards:
        if not 0.0 <= hazard <= 1.0:
            raise FitError(f"hazard is {hazard}, expected a probability")


def _observed(log: RoundLog | Observations, last_round: LastRound, signal: Signal) -> Observations:
    if isinstance(log, RoundLog):
        return observe(log, last_round=last_round, signal=signal)
    for given, own, default in ((last_round, log.last_round, "keep"), (signal, log.signal, "root_entropy")):
        if given not in (own, default):
            raise FitError(f"{given} was asked for, but the observations were made with {own}")
    if not len(log):
        raise NotIdentified(f"{log.source}: no rounds to fit")
    return log


def _located(error: NotIdentified, source: str) -> NotIdentified:
    text = str(error)
    return error if text.startswith(source) else NotIdentified(f"{source}: {text}")


def _details(estimate: Estimate, observations: Observations, method: Method, mean: MeanForm) -> FitDetails:
    law = estimate.law
    curve_r2 = None
    # Of a part of a log, no round may have one.
    if observations.entropy is not None and not np.isnan(observations.entropy).all():
        curve_r2 = entropy_curve(observations).r_squared(law, mean)
    return FitDetails(
        method=method,
        mean=mean,
        last_round=observations.last_round,
        signal=observations.signal,
        rounds=observations.rounds,
        left_out=observations.left_out,
        clusters=observations.clusters,
        mean_accept_len=observations.mean_accept_len,
        names=estimate.names,
        covariance=matrix(estimate.covariance),
        cluster_covariance=matrix(estimate.cluster_covariance),
        log_likelihood=law.log_likelihood(observations),
        curve_r2=_known(curve_r2),
        round_r2=_known(round_r_squared(law, observations, mean)),
        status=estimate.status,
        digest=observations.digest,
        source=observations.source,
        versions=versions(),
        notes=(*observations.notes, *estimate.notes),
    )


def _known(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value
