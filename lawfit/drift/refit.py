"""The law fitted again on new rounds, against the stored one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from lawfit.arrays import Floats
from lawfit.calibration.pit import within
from lawfit.drift.coefficients import errorless, own_covariance, slots_of, value_at
from lawfit.drift.gap import means
from lawfit.errors import LawfitError
from lawfit.laws.base import Law
from lawfit.laws.two_state import TwoState
from lawfit.observations import Observations

NO_ERRORS = "no shape test: the law's coefficients have no errors"
# Characters of a list of names.
_LONGEST = 100


@dataclass(frozen=True)
class Refit:
    """Coefficients then and now.

    Attributes
    ----------
    names, stored, fitted
        k coefficients, as stored and as fitted on the new rounds.
    wald, p_value
        Wald statistic of their difference, errors of both sides included (by prompts on the new one; by rounds where
        prompts are not named), over the k coefficients that have errors on both; p by the F distribution with
        k and prompts (or rounds) - k degrees of freedom.
    shift
        Mean over the rounds of how far E[a | H] moves between the two, accepted draft tokens.
    """

    names: tuple[str, ...]
    stored: tuple[float, ...]
    fitted: tuple[float, ...]
    wald: float
    p_value: float
    shift: float

    @property
    def recalibration(self) -> tuple[float, float] | None:
        """Intercept and slope of the new log odds on the stored law's, (0, 1) if it holds; for b0 - b1 H only.

        b0' - b1' H = intercept + slope (b0 - b1 H).
        """
        if self.names != ("b0", "b1") or self.stored[1] == 0:
            return None
        slope = self.fitted[1] / self.stored[1]
        return self.fitted[0] - slope * self.stored[0], slope


def refit(law: Law, observations: Observations) -> Refit | str:
    """Fit the law's kind again, as the stored one was fitted, and compare; or say why that cannot be done."""
    details = law.fitted
    rows = within(law, observations)
    try:
        new = type(law).fit(
            rows,
            method=details.method if details else "mle",
            mean=details.mean if details else "truncated",
            last_round=rows.last_round,
            signal=rows.signal,
        )
    except LawfitError as error:
        return str(error)
    nameless = rows.cluster is None
    known = new.fitted and (new.fitted.covariance if nameless else new.fitted.cluster_covariance)
    if new.fitted is None or known is None:
        return "no standard errors" if nameless else "no errors by prompt"
    names = new.fitted.names
    now, then = slots_of(new, names), slots_of(law, names)
    if not now or len(now) != len(then):
        named = (", ".join(names) or "none")[:_LONGEST]
        return f"its coefficients ({named}) are not those of the stored law"
    stored = np.array([value_at(law, slot) for slot in then])
    fitted = np.array([value_at(new, slot) for slot in now])
    covariance = np.array(known, dtype=np.float64)
    own = own_covariance(law)
    if own is not None and own.shape == covariance.shape:
        covariance = covariance + own
    edge = errorless(law)
    free = np.isfinite(np.diag(covariance)) & (True if edge is None or len(edge) != len(names) else ~edge)
    if not free.any():
        return NO_ERRORS
    units, size = rows.rounds if rows.clusters is None else float(rows.clusters), int(free.sum())
    if units <= size + 1:
        return f"{units:.0f} {'rounds' if nameless else 'prompts'} are too few for {size} coefficients"
    if isinstance(law, TwoState) and isinstance(new, TwoState):
        wald = _wald_of_states(law, new, own, np.array(known, dtype=np.float64))
    else:
        wald = _wald((fitted - stored)[free], covariance[np.ix_(free, free)])
    # Hotelling's factor: the covariance itself is estimated from so many prompts.
    scaled = wald * (units - size) / (size * (units - 1))
    shift = float(
        np.average(np.abs(means(new, within(new, rows)) - means(law, within(new, rows))), weights=rows.weight)
    )
    p_value = float(stats.f.sf(scaled, size, units - size))
    return Refit(names, tuple(stored.tolist()), tuple(fitted.tolist()), wald, p_value, shift)


def _wald_of_states(law: TwoState, new: TwoState, own: Floats | None, known: Floats) -> float:
    """Compare two states by the survival at offsets 1 to 3, which w, lam1 and lam2 fix and which they are fixed by.

    Its errors are near normal where those of the coefficients are far from it: of states that are nearly alike.
    """
    covariance = np.zeros((3, 3))
    for part, error in ((law, own), (new, known)):
        if error is not None:
            slope = _survival_slopes(part)
            covariance += slope @ error @ slope.T
    return _wald(_survival(new) - _survival(law), covariance)


def _survival(law: TwoState) -> Floats:
    offset = np.arange(1, 4)
    return np.asarray(law.weight * law.lam1**offset + (1.0 - law.weight) * law.lam2**offset)


def _survival_slopes(law: TwoState) -> Floats:
    """Differentiate the survival (3,) by w, lam1 and lam2."""
    offset = np.arange(1, 4)
    rates = (law.lam1, law.weight), (law.lam2, 1.0 - law.weight)
    by_rate = [share * offset * rate ** (offset - 1) for rate, share in rates]
    return np.stack([law.lam1**offset - law.lam2**offset, *by_rate], axis=1)


def _wald(difference: Floats, covariance: Floats) -> float:
    return float(difference @ np.linalg.pinv(covariance, hermitian=True) @ difference)
