"""The law fitted again on new rounds, against the stored one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from lawfit.arrays import Floats
from lawfit.calibration.pit import within
from lawfit.drift.coefficients import own_covariance, slots_of, value_at
from lawfit.drift.gap import means
from lawfit.errors import LawfitError
from lawfit.laws.base import Law
from lawfit.observations import Observations


@dataclass(frozen=True)
class Refit:
    """Coefficients then and now.

    Attributes
    ----------
    names, stored, fitted
        k coefficients, as stored and as fitted on the new rounds.
    wald, p_value
        Wald statistic of their difference, errors of both sides included (by prompts on the new one; by rounds where
        prompts are not named); p by the F distribution with k and prompts (or rounds) - k degrees of freedom.
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
        return f"its coefficients ({', '.join(names) or 'none'}) are not those of the stored law"
    stored = np.array([value_at(law, slot) for slot in then])
    fitted = np.array([value_at(new, slot) for slot in now])
    covariance = np.array(known, dtype=np.float64)
    own = own_covariance(law)
    if own is not None and own.shape == covariance.shape:
        covariance = covariance + own
    free = np.isfinite(np.diag(covariance))
    units, size = rows.rounds if rows.clusters is None else float(rows.clusters), int(free.sum())
    if not size or units <= size + 1:
        return f"{units:.0f} {'rounds' if nameless else 'prompts'} are too few for {size} coefficients"
    wald = _wald((fitted - stored)[free], covariance[np.ix_(free, free)])
    # Hotelling's factor: the covariance itself is estimated from so many prompts.
    scaled = wald * (units - size) / (size * (units - 1))
    shift = float(
        np.average(np.abs(means(new, within(new, rows)) - means(law, within(new, rows))), weights=rows.weight)
    )
    p_value = float(stats.f.sf(scaled, size, units - size))
    return Refit(names, tuple(stored.tolist()), tuple(fitted.tolist()), wald, p_value, shift)


def _wald(difference: Floats, covariance: Floats) -> float:
    return float(difference @ np.linalg.pinv(covariance, hermitian=True) @ difference)
