"""Whether the entropy law holds on a log: the paper's four conditions, and ours, each with its figure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lawfit.arrays import Floats
from lawfit.association import spearman
from lawfit.ceiling import noise_ceiling
from lawfit.chi_square import in_words
from lawfit.curve import Z95, entropy_curve, r_squared, round_r_squared
from lawfit.errors import LawfitError, NotIdentified
from lawfit.laws.affine import AffineLogit
from lawfit.laws.geometric import Geometric
from lawfit.observations import Observations
from lawfit.offset_test import offset_test
from lawfit.validation import Candidate, cross_validate


@dataclass(frozen=True)
class Check:
    """One condition.

    Attributes
    ----------
    name
        In a few words.
    holds
        ``None`` where the log cannot tell.
    figure
        What was measured against what, in words.
    """

    name: str
    holds: bool | None
    figure: str


@dataclass(frozen=True)
class Verdict:
    """Named conditions; `holds` asks that all of them do."""

    title: str
    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether every condition holds; one that cannot be told does not."""
        return all(check.holds for check in self.checks)


def paper_verdict(observations: Observations) -> Verdict:
    """Ask what ``holds()`` of GLANCE's public code asks, on its own estimates.

    Least squares on rounds with the capped mean; the p of Spearman's correlation and both R^2 as if rounds were
    independent; deciles and the ceiling between quantiles, bins of fewer than five rounds left out.

    Raises
    ------
    NotIdentified
        The log does not determine that fit.
    """
    rows = observations.with_entropy()
    law = AffineLogit.fit(rows, method="ls-rounds", mean="capped")
    rank = spearman(rows, resamples=1).estimate
    chance = _rank_chance(rank, rows.rounds)
    curve_r2 = _public_curve_r2(law, rows)
    ceiling = noise_ceiling(rows, resamples=1)
    share = ceiling.share(round_r_squared(law, rows, "capped"))[0]
    mean = rows.mean_accept_len
    return Verdict(
        "the paper's four conditions",
        (
            Check("slope positive", law.b1 > 0.0, f"b1 {law.b1:.4f}, asked: above 0"),
            Check(
                "negative rank correlation",
                bool(rank < 0.0 and chance < 0.05),
                f"Spearman {rank:.4f}, {in_words(chance)} over rounds; asked: below 0, p < .05",
            ),
            Check(
                "curve or ceiling",
                bool(curve_r2 >= 0.5 or share >= 0.5),
                f"{_shown(curve_r2, 'curve R²')}, asked: .5; or {_shown(share, 'share of the ceiling')}, asked: half",
            ),
            Check(
                "not degenerate",
                bool(mean >= 0.15 and law.b1 <= 25.0),
                f"mean a {mean:.4f}, asked: .15; b1 {law.b1:.4f}, asked: at most 25",
            ),
        ),
    )


def our_verdict(observations: Observations, *, resamples: int = 2000, seed: int = 0) -> Verdict:
    """Ask the same by prompts instead of rounds, out of sample, and whether one hazard serves all offsets.

    Maximum likelihood throughout; intervals are of 95% over prompts.

    Raises
    ------
    NotIdentified
        The log does not determine the affine law.
    """
    rows = observations.with_entropy()
    law = AffineLogit.fit(rows)
    checks = [_slope(law), _rank(rows, resamples, seed), *_unseen(rows, resamples, seed), _offsets(rows)]
    return Verdict("by prompts, out of sample", tuple(checks))


def _slope(law: AffineLogit) -> Check:
    error = ((law.fitted.cluster_se if law.fitted else None) or {}).get("b1")
    if error is None:
        return Check("slope positive", None, f"b1 {law.b1:.4f}; one prompt, or prompts unknown: no interval")
    low, high = law.b1 - Z95 * error, law.b1 + Z95 * error
    return Check("slope positive", low > 0.0, f"b1 {law.b1:.4f} ({low:.4f} to {high:.4f}), asked: above 0")


def _rank(rows: Observations, resamples: int, seed: int) -> Check:
    found = spearman(rows, resamples=resamples, seed=seed)
    if found.interval is None:
        return Check("negative rank correlation", None, f"Spearman {found.estimate:.4f}; no interval without prompts")
    low, high = float(found.interval.low), float(found.interval.high)
    figure = f"Spearman {found.estimate:.4f} ({low:.4f} to {high:.4f}), asked: below 0"
    return Check("negative rank correlation", high < 0.0, figure)


def _unseen(rows: Observations, resamples: int, seed: int) -> list[Check]:
    """Compare with a hazard that ignores entropy, on prompts that neither was fitted on."""
    names = ("predicts unseen prompts", "curve on unseen prompts")
    try:
        result = cross_validate([Candidate(Geometric), Candidate(AffineLogit)], rows, resamples=resamples, seed=seed)
    except LawfitError as error:
        return [Check(name, None, str(error)) for name in names]
    gain, low, high = (float(part[1]) for part in (result.gain.estimate, result.gain.low, result.gain.high))
    figure = f"{gain:+.4f} nats a round over one hazard ({low:+.4f} to {high:+.4f}), asked: above 0"
    fit = f"curve R² {result.curve_r2[1]:.4f} from other prompts, asked: .5"
    return [Check(names[0], low > 0.0, figure), Check(names[1], result.curve_r2[1] >= 0.5, fit)]


def _offsets(rows: Observations) -> Check:
    name = "same law at every offset"
    try:
        test = offset_test(rows)
    except NotIdentified as error:
        return Check(name, None, str(error))
    slopes = f"b1 goes from {test.slopes[0]:.3f} at offset 1 to {test.slopes[-1]:.3f} at {len(test.slopes)}"
    if test.wald is None or test.wald_p_value is None:
        return Check(name, None, f"{slopes}; too few prompts for a test")
    return Check(
        name, test.wald_p_value >= 0.05, f"{slopes}; {in_words(test.wald_p_value)} by prompt, asked: at least .05"
    )


def _public_curve_r2(law: AffineLogit, rows: Observations) -> float:
    """R^2 on decile means between quantiles, without bins of fewer than five rounds; NaN below two bins."""
    curve = entropy_curve(rows, edges="quantile")
    kept = curve.rounds >= 5
    if kept.sum() < 2:
        return float("nan")
    fitted = curve.expected(lambda cap: law.mean(curve.entropy, cap, form="capped"))[kept]
    return r_squared(curve.accept_len[kept], fitted, np.ones_like(fitted))


def _rank_chance(rank: float, rounds: float) -> float:
    """Two-sided p of a rank correlation over independent rounds, by Student's t, as scipy's ``spearmanr`` has it."""
    from scipy.stats import t as student

    if abs(rank) >= 1.0:
        return 0.0
    return float(2.0 * student.sf(abs(rank) * np.sqrt((rounds - 2.0) / (1.0 - rank**2)), rounds - 2.0))


def _shown(value: float, name: str) -> str:
    return f"{name} {value:.4f}" if value == value else f"{name} undefined with so few rounds"


def _nats(rows: Observations) -> Floats:
    if rows.entropy is None:
        raise NotIdentified(f"{rows.source}: no row has {rows.signal}")
    return rows.entropy
