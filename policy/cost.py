"""What a round costs, by budget."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import polars as pl

from lawfit.log import RoundLog
from policy.errors import CostError
from policy.tree import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class CostTable:
    """Time of a round against the verified draft nodes.

    Real verify costs are staircases (kernel tiles, graph buckets), so the table keeps the measured steps and does not
    smooth them; between measured budgets it interpolates, beyond the last it refuses.

    Attributes
    ----------
    budgets : (B,) int64
        Measured budgets, increasing from 0 (plain decoding).
    round_ms : (B,) float64
        Median time of a round with that budget, ms, drafting and commit included.
    """

    budgets: IntArray
    round_ms: FloatArray

    def __post_init__(self) -> None:
        """Refuse tables that cannot price a round."""
        if len(self.budgets) != len(self.round_ms) or len(self.budgets) == 0:
            raise CostError(
                f"cost table has {len(self.budgets)} budgets and {len(self.round_ms)} times, expected as many"
            )
        if self.budgets[0] != 0 or (np.diff(self.budgets) <= 0).any():
            raise CostError(f"cost table budgets {self.budgets.tolist()}, expected increasing from 0 (plain decoding)")
        if not (np.isfinite(self.round_ms) & (self.round_ms > 0)).all():
            raise CostError(f"cost table times {self.round_ms.tolist()}, expected finite ms > 0")

    @classmethod
    def fit(cls, log: RoundLog, min_rounds: int = 5) -> CostTable:
        """Take the median ``round_ms`` of each budget that the log's own rounds show at least ``min_rounds`` times.

        The first round of a request is left out: it pays for warming caches.

        Raises
        ------
        CostError
            The log holds no times, or none at budget 0.
        """
        timed = log.frame.filter(pl.col("round_ms").is_not_null() & pl.col("budget").is_not_null())
        if timed.is_empty():
            raise CostError(f"{log.source}: no round has budget and round_ms, so no cost can be read from it")
        steady = timed.filter(pl.col("round").fill_null(1) > 0)
        table = (
            steady.group_by("budget")
            .agg(pl.col("round_ms").median(), pl.len().alias("n"))
            .filter(pl.col("n") >= min_rounds)
            .sort("budget")
        )
        if table.is_empty() or table["budget"][0] != 0:
            raise CostError(
                f"{log.source}: fewer than {min_rounds} timed rounds at budget 0 (plain decoding), "
                "so speculation has nothing to be compared with"
            )
        return cls(table["budget"].to_numpy(), table["round_ms"].to_numpy())

    @property
    def max_budget(self) -> int:
        """Largest budget that the table prices."""
        return int(self.budgets[-1])

    def times(self, budget: int) -> FloatArray:
        """Time of a round at every budget 0..``budget``, ms (budget + 1,)."""
        if not 0 <= budget <= self.max_budget:
            raise CostError(f"budget {budget}, the cost table covers 0..{self.max_budget}")
        return np.asarray(np.interp(np.arange(budget + 1), self.budgets, self.round_ms), dtype=np.float64)

    def to_json(self) -> str:
        """Serialise the table."""
        return json.dumps({"cost_table": 1, "budgets": self.budgets.tolist(), "round_ms": self.round_ms.tolist()})

    @classmethod
    def from_json(cls, text: str) -> CostTable:
        """Read what `to_json` wrote.

        Raises
        ------
        CostError
            The text is not a cost table of version 1.
        """
        try:
            values = json.loads(text)
            if values["cost_table"] != 1:
                raise ValueError("version")
            budgets, times = values["budgets"], values["round_ms"]
            if {type(budget) for budget in budgets} - {int} or {type(ms) for ms in times} - {int, float}:
                raise TypeError("expected whole budgets and times in ms")
            return cls(np.array(budgets, dtype=np.int64), np.array(times, dtype=np.float64))
        except CostError:
            raise
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise CostError(f"not a cost table of version 1 ({type(error).__name__}: {error})") from error
