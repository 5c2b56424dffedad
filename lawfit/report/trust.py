"""How far the law is to be trusted: the conditions, unseen prompts, the spread of accepted lengths, correlations."""

from __future__ import annotations

from collections.abc import Mapping

from lawfit.association import decile_gap, spearman
from lawfit.bootstrap import Interval
from lawfit.calibration.pit import place, uniformity
from lawfit.calibration.plots import plot_pit
from lawfit.ceiling import Ceiling, noise_ceiling
from lawfit.chi_square import in_words
from lawfit.errors import LawfitError
from lawfit.laws import LAWS, AffineLogit
from lawfit.observations import Observations
from lawfit.page import Finding, Mark, Section
from lawfit.plots import new_figure
from lawfit.report.part import Part, Settings, entry, measured, spread
from lawfit.validation import Candidate, cross_validate
from lawfit.verdict import Verdict, our_verdict, paper_verdict


def paper(observations: Observations) -> Part:
    """Ask the paper's four conditions."""
    text = "As its public code asks them: by least squares on rounds, as if rounds were independent."
    return Part(Section("The paper's four conditions", text, findings=_marked(paper_verdict(observations))))


def ours(observations: Observations, settings: Settings) -> Part:
    """Ask the same by prompts."""
    verdict = our_verdict(observations, resamples=settings.resamples, seed=settings.seed)
    text = (
        "The same by prompts, since rounds of a prompt resemble each other, on prompts that the law has not seen, and "
        "whether one law serves all offsets."
    )
    return Part(Section("The same, asked by prompts", text, findings=_marked(verdict)))


def unseen(observations: Observations, settings: Settings) -> Part:
    """Compare the laws on prompts that they were not fitted on."""
    rows = observations.with_entropy()
    names = ("geometric", "hazard", "two-state", "affine", "affine-by-offset", "isotonic")
    kept = [Candidate(LAWS[name]) for name in names if _fits(name, rows)]
    result = cross_validate(kept, rows, seed=settings.seed, resamples=settings.resamples)
    table = [["law", "log score (nats a round)", "gain over one hazard", "round R²", "curve R²"]]
    for k, candidate in enumerate(kept):
        fits = [f"{value:.3f}" if value == value else "" for value in (result.round_r2[k], result.curve_r2[k])]
        table.append([candidate.law.name, entry(result.log_score, k), entry(result.gain, k), *fits])
    text = (
        f"Each law is fitted on four fifths of the prompts and scored on the rest, {result.folds} times. A law that "
        "gave no chance to what a round did is ruled out. An isotonic curve through falling means fits them perfectly "
        "in sample, whatever the truth: these values are out of sample."
    )
    return Part(Section("On unseen prompts", text, table), _best(kept, result.gain))


def spread_of_lengths(observations: Observations, settings: Settings) -> Part:
    """Test whether accepted lengths are spread around their mean as the law says."""
    rows = observations.with_entropy()
    test = uniformity(place(AffineLogit.fit(rows), rows), resamples=settings.resamples, seed=settings.seed)
    figure = new_figure()
    plot_pit(test, ax=figure.add_subplot()).set_title("")
    off, how = test.p_value < 0.05, "by prompt" if test.clustered else "as if rounds were independent"
    text = (
        "Each round is placed within the distribution that the law gives it (randomised probability integral "
        "transform); under the law all places are equally common. Bars high at both ends mean that accepted lengths "
        "vary more than the law says. "
        f"Largest gap {test.distance:.3f}, {in_words(test.p_value, settings.resamples)} {how}."
    )
    sentence = (
        f"Accepted lengths are not spread as the law says (largest gap {test.distance:.3f}): "
        "its means may be right where its chances of long runs are not."
        if off
        else f"Accepted lengths are spread as the law says (largest gap {test.distance:.3f}, {in_words(test.p_value)})."
    )
    return Part(
        Section("Spread of accepted lengths", text, figure=figure), (Finding("fails" if off else "holds", sentence),)
    )


def correlations(groups: Mapping[str, Observations], settings: Settings) -> Part:
    """Tabulate rank correlation, decile gap and ceiling by task (GLANCE Table 13).

    Raises
    ------
    NotIdentified
        No row holds an entropy.
    """
    list(groups.values())[-1].with_entropy()
    table = [["", "Spearman ρ(H, a)", "decile gap", "ceiling η²", "ceiling ε²", "the law realises"]]
    for name, rows in groups.items():
        try:
            ceiling = noise_ceiling(rows, resamples=settings.resamples, seed=settings.seed)
            epsilon = f"{ceiling.epsilon_squared:.3f}"
            if (ends := ceiling.interval) is not None:
                epsilon = spread(ceiling.epsilon_squared, float(ends.low[1]), float(ends.high[1]))
            rank = spearman(rows, resamples=settings.resamples, seed=settings.seed)
            gap = decile_gap(rows, resamples=settings.resamples, seed=settings.seed)
            table.append(
                [
                    name,
                    measured(rank),
                    measured(gap, 2),
                    f"{ceiling.eta_squared:.3f}",
                    epsilon,
                    _realised(rows, ceiling),
                ]
            )
        except LawfitError:
            table.append([name, "cannot be told", "", "", "", ""])
    text = (
        "Rank correlation of entropy and accepted length; mean a in the lowest decile of entropy over that in the "
        "highest; and the share of the variance of single rounds that lies between 50 bins of entropy, which bounds "
        "the round R² of any predictor that sees entropy alone: η² is the paper's, and biased up; ε² is not. The last "
        "column is the affine law's round R² as a share of each, where the ceiling is above chance; a law knows each "
        "round's horizon too, so that it may exceed 100% where horizons differ. "
        f"Intervals of 95% {settings.intervals}."
    )
    return Part(Section("Entropy and accepted length", text, table, total=len(groups) > 1))


def _realised(rows: Observations, ceiling: Ceiling) -> str:
    details = AffineLogit.fit(rows).fitted
    if details is None or details.round_r2 is None:
        return ""
    of_eta, of_epsilon = ceiling.share(details.round_r2)
    told = ceiling.interval is None or float(ceiling.interval.low[1]) > 0.0
    # A ceiling that chance may explain is no measure to take shares of.
    return f"{of_eta:.0%} of η²" + (f", {of_epsilon:.0%} of ε²" if told and ceiling.epsilon_squared > 0 else "")


def _marked(verdict: Verdict) -> tuple[Finding, ...]:
    marks: dict[bool | None, Mark] = {True: "holds", False: "fails", None: "unknown"}
    return tuple(Finding(marks[check.holds], f"{_upper(check.name)}: {check.figure}.") for check in verdict.checks)


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _fits(name: str, rows: Observations) -> bool:
    try:
        LAWS[name].fit(rows)
    except LawfitError:
        return False
    return True


def _best(candidates: list[Candidate], gain: Interval) -> tuple[Finding, ...]:
    names = [candidate.law.name for candidate in candidates]
    if "affine" not in names or len(names) < 2:
        return ()
    k = names.index("affine")
    low, top = float(gain.low[k]), max(range(len(names)), key=gain.estimate.tolist().__getitem__)
    text = f"On unseen prompts the affine law gains {entry(gain, k, 3)} nats a round over one hazard"
    mark: Mark = "holds" if low > 0 else "unknown" if float(gain.high[k]) > 0 else "fails"
    if names[top] == "affine":
        return (Finding(mark, f"{text}, the most of the laws tried."),)
    if names[top] == "geometric":
        return (Finding(mark, f"{text}; no law tried gains anything."),)
    return (
        Finding(mark, f"{text}; the {names[top]} law gains {entry(gain, top, 3)}."),
        Finding("advice", f"For predictions, prefer the law that predicts best: lawfit fit --law {names[top]}."),
    )
