"""The grounded tail: the lowest entropies against the cap of the law, and two states there (GLANCE Theorem 2)."""

from __future__ import annotations

import numpy as np

from lawfit.bootstrap import Interval, bootstrap, cluster_sums
from lawfit.chi_square import in_words
from lawfit.copyregime import cap
from lawfit.curve import Z95, entropy_curve
from lawfit.errors import LawfitError
from lawfit.goodness import goodness_of_fit
from lawfit.hazard_trend import hazard_trend
from lawfit.laws import AffineLogit, FreeHazard, Geometric, TwoState
from lawfit.likelihood_ratio import two_state_test
from lawfit.observations import Observations
from lawfit.page import Finding, Section
from lawfit.report.part import Part, Settings, spread


def regime(observations: Observations, settings: Settings) -> Part:
    """Compare the rounds of the lowest entropy decile with the law's cap, and look for two states in them."""
    rows = observations.with_entropy()
    law = AffineLogit.fit(rows)
    curve = entropy_curve(rows)
    floor = rows.take(curve.bin == 0)
    # Within the rounds' own horizons, which the mean that it is compared with has too.
    bound = float(np.average(law.mean(np.zeros(len(floor)), floor.horizon), weights=floor.weight))
    interval = _mean(floor, settings)
    mean = floor.mean_accept_len
    low, high = (float(interval.low), float(interval.high)) if interval else (float("nan"), float("nan"))
    entropy = 0.0 if floor.entropy is None else float(floor.entropy.max())
    table = [
        ["lowest decile of entropy", ""],
        ["rounds, prompts", f"{floor.rounds:.0f}, {floor.clusters or '?'}"],
        ["entropy, at most", f"{entropy:.4f} nats"],
        ["mean a", spread(mean, low, high)],
        ["cap of the affine law at their horizons", f"{bound:.3f}"],
        ["cap without a horizon, e^b0", f"{cap(law.b0):.3f}"],
        *_states(floor, settings),
    ]
    text = (
        "At zero entropy the affine law allows no more than its cap. Where text is copied, drafts run longer. A copy "
        "state would show as a hazard that rises with the offset among these rounds, and as a gain of two states over "
        "one hazard; its p-value is from a parametric bootstrap, since the chi-square does not hold there, and as if "
        "rounds were independent."
    )
    return Part(Section("The lowest entropies", text, table), _finding(floor, low, high, bound))


def _finding(floor: Observations, low: float, high: float, bound: float) -> tuple[Finding, ...]:
    mean = floor.mean_accept_len
    seen = f"{mean:.2f}" + ("" if low != low else f" ({low:.2f} to {high:.2f})")
    if low > bound:
        return (
            Finding(
                "fails", f"Near zero entropy drafts run longer than the law allows: mean a {seen}, cap {bound:.2f}."
            ),
            Finding("advice", "Where the lowest entropies matter, take a law whose curve is free: --law isotonic."),
        )
    if high < bound:
        return (Finding("fails", f"Near zero entropy drafts end sooner than the law says: {seen}, cap {bound:.2f}."),)
    if low != low:
        return (Finding("unknown", f"Near zero entropy mean a is {seen}, the law's cap {bound:.2f}; no interval."),)
    return (
        Finding("holds", f"Near zero entropy mean a is {seen}; the law's cap of {bound:.2f} lies in that interval."),
    )


def _states(floor: Observations, settings: Settings) -> list[list[str]]:
    rows = []
    try:
        free, trend = FreeHazard.fit(floor), hazard_trend(floor)
        change = spread(trend.slope, trend.slope - Z95 * trend.se, trend.slope + Z95 * trend.se)
        rows.append(["hazard at the first and last offset", f"{free.hazards[0]:.3f}, {free.hazards[-1]:.3f}"])
        rows.append(["hazard by offset", f"{trend.direction}: {change} in log odds per offset"])
        one = goodness_of_fit(Geometric.fit(floor), floor)
        corrected = (
            ""
            if one.corrected_p_value is None
            else f"; {in_words(one.corrected_p_value)} with the design effect {one.design_effect:.2f}"
        )
        chance = f"{one.statistic:.1f}, df {one.df}, {in_words(one.p_value)}{corrected}"
        rows.append([f"one hazard: χ² of {one.what}", chance])
    except LawfitError as error:
        rows.append(["one hazard", f"cannot be told: {error}"])
    try:
        two = TwoState.fit(floor)
        test = two_state_test(floor, resamples=200, seed=settings.seed)
        chain = two.regimes("verbatim")
        above = "; w above 1: the hazard falls" if two.weight > 1.0 else ""
        edge = "" if two.fitted and two.fitted.covariance else " (on an edge, no errors)"
        rows.append(
            ["two states: weight w, hazards λ1, λ2", f"{two.weight:.3f}, {two.lam1:.4f}, {two.lam2:.4f}{edge}{above}"]
        )
        chance = f"bootstrap {in_words(test.p_value, len(test.null))} (nominal {in_words(test.nominal_p_value)})"
        rows.append(["gain 2Δl over one hazard", f"{test.statistic:.1f}, {chance}"])
        rows.append(
            [
                "if copying never misses",
                f"{chain.pi:.0%} start so, {chain.stay_copy:.1%} stay so, the rest accepts {chain.rho_ordinary:.0%}",
            ]
        )
    except LawfitError as error:
        rows.append(["two states", f"cannot be told: {error}"])
    return rows


def _mean(rows: Observations, settings: Settings) -> Interval | None:
    if rows.cluster is None or (rows.clusters or 0) < 2:
        return None
    columns = np.stack([np.ones(len(rows)), rows.accept_len.astype(np.float64)], axis=1)
    sums = cluster_sums(columns, rows.cluster, rows.weight)
    return bootstrap(
        sums, lambda totals: totals[..., 1] / totals[..., 0], resamples=settings.resamples, seed=settings.seed
    )
