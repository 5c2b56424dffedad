import pytest

from policy.cost import CostTable
from runtime.profile import profile_log


def test_profiling_gives_a_log_that_prices_every_budget(llama):
    log = profile_log(llama, budgets=(0, 1, 4, 8), context=20, repeats=5)
    table = CostTable.fit(log)
    assert table.budgets.tolist() == [0, 1, 4, 8]
    assert (table.round_ms > 0).all()
    assert log.frame.filter(log.frame["round"] > 0)["budget"].value_counts()["count"].unique().to_list() == [5]


def test_profiling_does_not_depend_on_what_the_target_makes_of_it(llama_with_eos):
    log = profile_log(llama_with_eos, budgets=(0, 2), context=20, repeats=3)
    assert sorted(log.frame["budget"].unique()) == [0, 2]
    assert len(log) == pytest.approx(8)
