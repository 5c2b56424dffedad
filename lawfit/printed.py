"""Numbers as a page prints them, and whether another number on the page follows from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import Literal

from lawfit.errors import FitError

Verdict = Literal["equal", "within rounding", "differs"]


@dataclass(frozen=True)
class Printed:
    """A rounded number: the truth lies within half a unit of the last digit.

    Attributes
    ----------
    text
        As printed.
    value
        The same as a number.
    unit
        Worth of its last digit.
    """

    text: str
    value: float
    unit: float

    @classmethod
    def parse(cls, text: str) -> Printed:
        """Read ``11.90`` (unit .01) or ``7.2e-18`` (unit 1e-19)."""
        try:
            number = Decimal(text)
        except InvalidOperation:
            raise FitError(f"{text!r}, expected a number as printed") from None
        exponent = number.as_tuple().exponent
        if not isinstance(exponent, int):
            raise FitError(f"{text!r}, expected a finite number")
        return cls(text, float(number), float(Decimal(1).scaleb(exponent)))

    @property
    def ends(self) -> tuple[float, float]:
        """Least and greatest number that prints so."""
        return self.value - self.unit / 2, self.value + self.unit / 2

    def __str__(self) -> str:
        """Write it as it was printed."""
        return self.text


@dataclass(frozen=True)
class Check:
    """A printed number beside the same number derived from others.

    Attributes
    ----------
    claim
        What the number is.
    printed
        As the page has it.
    derived
        From the inputs as printed.
    low, high
        Range of the derived number over all inputs that print the same.
    """

    claim: str
    printed: Printed
    derived: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        """``equal``: prints the same. ``within rounding``: it could, given what rounding hid. Else ``differs``."""
        least, greatest = self.printed.ends
        slack = 1e-9 * self.printed.unit
        if least - slack <= self.derived <= greatest + slack:
            return "equal"
        return "within rounding" if self.low <= greatest + slack and least - slack <= self.high else "differs"


def rederive(claim: str, printed: str, statistic: Callable[..., float], *inputs: str) -> Check:
    """Derive a printed number from other printed numbers.

    Parameters
    ----------
    claim
        What it is.
    printed
        The number to reproduce, as printed.
    statistic
        Of the inputs, in their order; it must be monotone in each, so that its range is found at the corners.
    inputs
        At most 12 numbers as printed.
    """
    if len(inputs) > 12:
        raise FitError(f"{len(inputs)} inputs, expected at most 12")
    numbers = [Printed.parse(text) for text in inputs]
    corners = [statistic(*corner) for corner in product(*(number.ends for number in numbers))]
    derived = statistic(*(number.value for number in numbers))
    return Check(claim, Printed.parse(printed), derived, min(corners), max(corners))
