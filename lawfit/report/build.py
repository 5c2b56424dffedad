"""Put the report together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lawfit.laws.details import versions
from lawfit.log import RoundLog
from lawfit.observations import LastRound, Observations, Signal, observe
from lawfit.page import Finding, Section, render
from lawfit.report import budgets, confidence, fits, offsets, regime, trust
from lawfit.report.part import Part, Settings, Untold, attempt

ALL = "all rounds"


@dataclass(frozen=True)
class Options:
    """How the rounds are read, and how intervals are drawn.

    Attributes
    ----------
    by
        Key whose groups get rows of their own.
    last_round, signal
        See `lawfit.observe`.
    resamples, seed
        Of every bootstrap over prompts.
    """

    by: str = "task"
    last_round: LastRound = "keep"
    signal: Signal = "root_entropy"
    resamples: int = 2000
    seed: int = 0


def parts(log: RoundLog, options: Options) -> list[tuple[str, Callable[[], Part]]]:
    """List the parts by title, each still to be made."""
    everything = observe(log, last_round=options.last_round, signal=options.signal)
    settings = Settings(options.resamples, options.seed, everything.cluster is not None)
    drafted = RoundLog(log.frame[[] if everything.row is None else everything.row], log.source)
    groups = _groups(log, options, everything)
    return [
        ("The law by task", lambda: fits.table(groups, settings)),
        ("Acceptance against entropy", lambda: fits.curves(groups, settings)),
        ("The paper's four conditions", lambda: trust.paper(everything)),
        ("The same, asked by prompts", lambda: trust.ours(everything, settings)),
        ("On unseen prompts", lambda: trust.unseen(everything, settings)),
        ("Hazard by offset", lambda: offsets.offsets(everything, settings)),
        ("The lowest entropies", lambda: regime.regime(everything, settings)),
        ("Spread of accepted lengths", lambda: trust.spread_of_lengths(everything, settings)),
        ("Entropy and accepted length", lambda: trust.correlations(groups, settings)),
        ("The drafter's confidence", lambda: confidence.confidence(drafted, settings)),
        ("Budgets", lambda: budgets.budgets(drafted, settings)),
        ("What a round costs", lambda: budgets.cost(log)),
        ("A ceiling by verification", lambda: budgets.brackets(drafted, everything)),
        ("A bound from the draft's entropy", lambda: budgets.draft_bound(drafted, everything, settings)),
    ]


def build(log: RoundLog, options: Options | None = None, on_part: Callable[[], object] = lambda: None) -> str:
    """Write the report of a round log as one self-contained HTML page.

    Parameters
    ----------
    log
        A round log, version 1.
    options
        See `Options`.
    on_part
        Called after each part.

    Raises
    ------
    LawfitError
        The log holds no rounds that say anything of acceptance. What a part cannot tell, its section says.
    """
    chosen = options or Options()
    tried = []
    for title, make in parts(log, chosen):
        tried.append(attempt(title, make))
        on_part()
    made = [part for part in tried if isinstance(part, Part)]
    observed = observe(log, last_round=chosen.last_round, signal=chosen.signal)
    findings = [finding for part in made for finding in part.findings]
    order = {"fails": 0, "holds": 1, "unknown": 2, "advice": 3}
    findings.sort(key=lambda finding: order[finding.mark])
    return render(
        "Acceptance report",
        _lead(log, observed),
        [*(part.section for part in made), *_untold([part for part in tried if isinstance(part, Untold)], log.source)],
        _footer(observed, chosen),
        [*findings, *_remarks(log, observed)],
    )


def _remarks(log: RoundLog, observed: Observations) -> list[Finding]:
    """Say what every figure of the page is subject to."""
    remarks = [f"{_upper(note)}." for note in observed.notes]
    if observed.cluster is None:
        remarks.append("Rows name no prompt: intervals are as if rounds were independent, and so too narrow.")
    if (log.frame["origin"] == "trace").any():
        remarks.append("Rows of a trace are drafts from every position of an output: they overlap, and are no rounds.")
    return [Finding("unknown", remark) for remark in remarks]


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _untold(missing: Sequence[Untold], source: str) -> list[Section]:
    """List what the log cannot tell, each with its reason."""
    if not missing:
        return []
    titles: dict[str, list[str]] = {}
    for part in missing:
        titles.setdefault(part.reason.removeprefix(f"{source}: "), []).append(part.title)
    findings = [Finding("unknown", f"{'; '.join(named)}: {reason}.") for reason, named in titles.items()]
    return [Section("What this log cannot tell", "", findings=findings)]


def _groups(log: RoundLog, options: Options, everything: Observations) -> Mapping[str, Observations]:
    """Observe each group that holds rounds with a draft, and all of them last."""
    groups = {}
    named = log.groups(options.by)
    for name, part in named.items() if len(named) > 1 else ():
        if (part.frame["horizon"] > 0).any():
            groups[name] = observe(part, last_round=options.last_round, signal=options.signal)
    return {**groups, ALL: everything}


def _lead(log: RoundLog, observed: Observations) -> str:
    prompts = "an unknown number of" if observed.clusters is None else f"{observed.clusters}"
    everything = int(log.frame["count"].sum())
    kind = "drafts" if (log.frame["origin"] == "trace").all() else "rounds with a draft"
    of_all = f" (of {everything} in the log)" if everything != observed.rounds else ""
    return (
        f"{log.source}: {observed.rounds:.0f} {kind}{of_all} of {prompts} prompts, horizon up to {observed.longest}. "
        f"Such a round accepts {observed.mean_accept_len:.3f} draft tokens on the average, and so emits "
        f"{observed.mean_accept_len + 1.0:.3f} tokens."
    )


def _footer(observed: Observations, options: Options) -> str:
    made = ", ".join(f"{name} {version}" for name, version in versions())
    how = f"Intervals are of 95%, from {options.resamples} resamples of whole prompts (seed {options.seed})."
    if observed.cluster is None:
        how = "Intervals are of 95%, as if rounds were independent."
    return (
        f"Last rounds: {options.last_round}. Entropy: {options.signal}. {how} "
        f"Log digest {observed.digest[:16]}. Made by {made}."
    )
