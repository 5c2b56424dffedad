"""Counts from printed rates: how many rounds accepted at least j drafts, within the rounding of the print.

Engines print, per position j, the share of drafts that accepted at least j tokens: the survival P[a >= j], no hazard.
With D drafts a rate r printed with half a unit h of its last digit admits the whole numbers within (r - h) D and
(r + h) D; survivors never increase with j, and they sum to the accepted drafts. These three say most, often all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from lawfit.errors import LogFormatError
from lawfit.words import counted

# A rate that was computed in single precision may be printed one digit off a tie.
_FLOAT32 = Fraction(1, 5_000_000)
_ZERO = Fraction(0)


@dataclass(frozen=True)
class Span:
    """The numbers that a printed number may stand for, ends included."""

    low: Fraction
    high: Fraction

    @classmethod
    def of(cls, text: str) -> Span:
        """Read a printed decimal number such as ``0.782``; its last digit is rounded."""
        digits = len(text.partition(".")[2])
        half = Fraction(1, 2 * 10**digits) + _FLOAT32
        value = Fraction(text)
        return cls(max(_ZERO, value - half), value + half)


@dataclass(frozen=True)
class Recovered:
    """Rounds by accepted length.

    Attributes
    ----------
    counts
        Rounds of each accepted length 0..k.
    slack
        By how many rounds a number of survivors may be off; 0 where the print determines all counts.
    """

    counts: dict[int, int]
    slack: int


def recover(rates: Sequence[str], drafts: int, accepted: int, where: str) -> Recovered:
    """Find the counts that a print of survival rates stands for.

    The sum over j of j * count[j] equals ``accepted`` exactly. Where the print leaves a choice, survivors are taken at
    one common share of their ranges.

    Raises
    ------
    LogFormatError
        No counts agree with the print; the message gives the two numbers that contradict each other.
    """
    low, high = _ranges(rates, drafts, where)
    if not sum(low) <= accepted <= sum(high):
        raise LogFormatError(
            f"the rates per position {', '.join(rates)} of {drafts} drafts accept {sum(low)} to {sum(high)} tokens, "
            f"the line says {accepted} ({where})"
        )
    survivors = [drafts, *_shared(low, high, accepted), 0]
    return Recovered({j: survivors[j] - survivors[j + 1] for j in range(len(rates) + 1)}, _slack(low, high, accepted))


def _ranges(rates: Sequence[str], drafts: int, where: str) -> tuple[list[int], list[int]]:
    """Bound the survivors at each position: by the print, and by their order."""
    spans = [Span.of(text) for text in rates]
    low = [math.ceil(span.low * drafts) for span in spans]
    high = [min(drafts, math.floor(span.high * drafts)) for span in spans]
    for j in range(1, len(high)):
        high[j] = min(high[j], high[j - 1])
    for j in reversed(range(len(low) - 1)):
        low[j] = max(low[j], low[j + 1])
    for j, text in enumerate(rates):
        if low[j] > high[j]:
            raise LogFormatError(
                f"the rate {text} at position {j + 1} is no share of {drafts} drafts, or above that at an earlier "
                f"position: {low[j]} survivors at least, {high[j]} at most ({where})"
            )
    return low, high


def _shared(low: list[int], high: list[int], total: int) -> list[int]:
    """Choose whole numbers within the bounds that sum to ``total`` and do not increase.

    At one share of every range the numbers are in order, and so are they rounded down; what is missing then goes, one
    each, to the largest remainders, earlier positions first, which keeps the order.
    """
    least = sum(low)
    room = max(1, sum(high) - least)
    shares = [divmod((top - bottom) * (total - least), room) for bottom, top in zip(low, high, strict=True)]
    chosen = [bottom + whole for bottom, (whole, _) in zip(low, shares, strict=True)]
    missing = total - sum(chosen)
    largest = sorted(range(len(low)), key=lambda j: -shares[j][1])[:missing]
    return [number + (j in largest) for j, number in enumerate(chosen)]


def _slack(low: list[int], high: list[int], total: int) -> int:
    """Bound how far a number of survivors may be off, given that all sum to ``total``."""
    least, most = sum(low), sum(high)
    ends = zip(low, high, strict=True)
    return max(min(top, total - least + bottom) - max(bottom, total - most + top) for bottom, top in ends)


def find_drafts(rates: Sequence[str], mean: str | None, accepted: int, drafted: int, horizon: int, where: str) -> int:
    """Find the number of drafts, which the line does not print: ``drafted / horizon`` if that agrees, or the next.

    The printed mean acceptance length is 1 + accepted / drafts, the rates sum to accepted / drafts, and a draft holds
    1 to ``horizon`` tokens.

    Raises
    ------
    LogFormatError
        No number of drafts agrees with all of them.
    """
    least, most = -(-drafted // horizon), drafted
    spans = [Span.of(text) for text in rates]
    ratios = [Span(sum((span.low for span in spans), _ZERO), sum((span.high for span in spans), _ZERO))]
    if mean is not None:
        bonus_in = Span.of(mean)
        ratios.append(Span(max(_ZERO, bonus_in.low - 1), max(_ZERO, bonus_in.high - 1)))
    low, high = least, most
    for ratio in ratios:  # accepted / drafts lies in it
        low = max(low, math.ceil(accepted / ratio.high)) if ratio.high else max(low, accepted * (most + 1))
        high = min(high, math.floor(accepted / ratio.low)) if ratio.low else high
    if low > high:
        said = f"a mean acceptance length of {mean} and " if mean is not None else ""
        raise LogFormatError(
            f"{said}rates per position of {', '.join(rates)} do not fit {accepted} accepted of {drafted} drafted "
            f"tokens, which make {least} to {most} drafts of up to {horizon} ({where})"
        )
    return low


def slack_note(source: str, recovered: Sequence[Recovered]) -> list[str]:
    """Say whether the print determined the counts, and if not, how far they may be off."""
    loose = [window.slack for window in recovered if window.slack]
    if not loose:
        return [f"{source}: the printed rates determine every count"]
    largest = max(recovered, key=lambda window: window.slack / max(1, sum(window.counts.values())))
    share = largest.slack / max(1, sum(largest.counts.values()))
    return [
        f"{source}: in {len(loose)} of {counted(len(recovered), 'line')} the digits leave open, by up to "
        f"{counted(max(loose), 'round')} ({share:.2%} of a line's), how many reached a position; rounds and "
        "accepted tokens are exact"
    ]
