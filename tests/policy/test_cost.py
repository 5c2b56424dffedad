import numpy as np
import polars as pl
import pytest

from lawfit.log import RoundLog
from policy.cost import CostTable
from policy.errors import CostError


def _table(budgets):
    return f'{{"cost_table": 1, "budgets": {budgets}, "round_ms": [1.0, 2.0]}}'


def timed_log(medians, rounds=5):
    rows = [
        {"accept_len": 0, "horizon": 0 if n == 0 else 1, "budget": n, "round": k, "round_ms": ms + jitter}
        for n, ms in medians.items()
        for k, jitter in enumerate([500.0, *np.linspace(-1, 1, rounds)])
    ]
    return RoundLog.from_frame(pl.DataFrame(rows))


def test_table_is_the_median_of_each_budget_without_first_rounds():
    table = CostTable.fit(timed_log({0: 30.0, 4: 50.0, 8: 45.0}))
    assert table.budgets.tolist() == [0, 4, 8]
    assert table.round_ms.tolist() == [30.0, 50.0, 45.0]


def test_stairs_are_kept_and_gaps_interpolated():
    table = CostTable(np.array([0, 2, 4]), np.array([10.0, 30.0, 20.0]))
    assert table.times(4).tolist() == [10.0, 20.0, 30.0, 25.0, 20.0]
    assert table.times(0).tolist() == [10.0]


def test_budgets_beyond_the_table_are_refused():
    with pytest.raises(CostError, match="budget 5, the cost table covers 0..4"):
        CostTable(np.array([0, 4]), np.array([1.0, 2.0])).times(5)


def test_a_budget_seen_too_rarely_is_left_out():
    log = timed_log({0: 30.0, 4: 50.0})
    rare = RoundLog.from_frame(
        pl.DataFrame({"accept_len": [0], "horizon": [1], "budget": [9], "round": [3], "round_ms": [1.0]})
    )
    both = RoundLog(pl.concat([log.frame, rare.frame]))
    assert CostTable.fit(both).budgets.tolist() == [0, 4]


def test_a_log_without_times_or_without_plain_rounds_prices_nothing():
    untimed = RoundLog.from_frame(pl.DataFrame({"accept_len": [1], "horizon": [2], "budget": [2]}))
    with pytest.raises(CostError, match="no round has budget and round_ms"):
        CostTable.fit(untimed)
    with pytest.raises(CostError, match="at budget 0"):
        CostTable.fit(timed_log({4: 50.0}))


@pytest.mark.parametrize(
    ("budgets", "times"),
    [([1, 2], [1, 2]), ([0, 2, 2], [1, 2, 3]), ([0, 1], [1, 0]), ([0], [np.nan]), ([], [])],
)
def test_tables_that_cannot_price_a_round_are_refused(budgets, times):
    with pytest.raises(CostError):
        CostTable(np.array(budgets, dtype=np.int64), np.array(times, dtype=np.float64))


def test_json_round_trip_and_foreign_text():
    table = CostTable(np.array([0, 4]), np.array([1.5, 2.5]))
    again = CostTable.from_json(table.to_json())
    assert again.budgets.tolist() == [0, 4]
    assert again.round_ms.tolist() == [1.5, 2.5]
    for text in (
        "",
        "{}",
        '{"cost_table": 2}',
        "[1]",
        '{"cost_table": 1, "budgets": "x", "round_ms": []}',
        _table("[0, 1.5]"),
        _table("[0, true]"),
        _table("[0, 1e400]"),
        _table('["0", 1]'),
        _table(f"[0, {10**20}]"),
        "[" * 100_000,
    ):
        with pytest.raises(CostError):
            CostTable.from_json(text)
