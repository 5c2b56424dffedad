"""The paper's printed tables, and what they are derived by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from scipy import stats

from lawfit.printed import Check, rederive

PAPER = Path(__file__).parents[2] / "data" / "paper"


def table(name: str) -> pl.DataFrame:
    """Read a table with its numbers as printed."""
    return pl.read_csv(PAPER / f"{name}.csv", infer_schema=False)


def tasks(name: str) -> pl.DataFrame:
    return table(name).filter(~pl.col("task").is_in(["geometric mean", "mean", "pooled"]))


def summary(name: str) -> dict[str, str]:
    return table(name).row(-1, named=True)


def text(name: str) -> str:
    return str(table("text").filter(pl.col("name") == name)["value"].item())


def ratio(a: float, b: float) -> float:
    return a / b


def margin(base: float, new: float) -> float:
    """In percent, as Appendix E defines it."""
    return 100.0 * (base / new - 1.0)


def mean_ratio(*numbers: float) -> float:
    """Geometric mean of the first half over the second."""
    above, below = np.split(np.array(numbers), 2)
    return float(stats.gmean(above / below))


def mean_margin(*margins: float) -> float:
    return 100.0 * (float(stats.gmean(1.0 + np.array(margins) / 100.0)) - 1.0)


def columns(name: str, claim: str, printed: str, by: Callable[..., float], *inputs: str) -> list[Check]:
    """Rederive a column of a table from others, row by row."""
    rows = tasks(name).iter_rows(named=True)
    return [rederive(f"{claim}, {row['task']}", row[printed], by, *(row[key] for key in inputs)) for row in rows]


def verdicts(checks: list[Check]) -> dict[str, str]:
    """Give the verdicts that are not ``equal``."""
    return {check.claim: check.verdict for check in checks if check.verdict != "equal"}
