import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.errors import TreeError
from policy.sizing import choose


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0, 1), max_size=12), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_choice_is_the_argmax_over_the_whole_table_for_any_cost(values, seed, rate):
    values = np.sort(np.array(values))[::-1]
    times = np.random.default_rng(seed).uniform(0.1, 50, len(values) + 1)
    size = choose(values, times, rate)
    gains = [values[:n].sum() - rate * times[n] for n in range(len(values) + 1)]
    assert gains[size.budget] == pytest.approx(max(gains))
    assert size.accept_len == pytest.approx(values[: size.budget].sum())


def test_a_staircase_is_crossed_where_a_first_drop_rule_would_stop():
    values = np.array([0.9, 0.85, 0.8, 0.75])
    times = np.array([10.0, 10.0, 40.0, 40.0, 40.0])
    # The step at 2 loses, yet the whole stair wins: 3.3 - .03 * 40 > .9 - .03 * 10.
    gains = np.concatenate([[0], np.cumsum(values)]) - 0.03 * times
    assert gains[2] < gains[1] < gains[4]
    assert choose(values, times, 0.03).budget == 4


def test_no_speculation_wins_where_nothing_is_worth_its_time():
    assert choose(np.array([0.05, 0.01]), np.array([10.0, 14.0, 18.0]), 0.1).budget == 0
    assert choose(np.zeros(0), np.array([10.0]), 0.1).budget == 0


def test_ties_go_to_the_smaller_budget():
    assert choose(np.array([0.5, 0.5]), np.array([0.0, 5.0, 10.0]), 0.1).budget == 0


def test_a_table_of_another_length_is_refused():
    with pytest.raises(TreeError, match="2 times for 3 budgets"):
        choose(np.array([0.5, 0.2]), np.array([1.0, 2.0]), 0.1)


def test_numbers_that_are_not_finite_are_refused():
    for values, times, rate in (([np.nan], [1.0, 2.0], 0.1), ([0.5], [1.0, np.inf], 0.1), ([0.5], [1.0, 2.0], np.nan)):
        with pytest.raises(TreeError, match="finite"):
            choose(np.array(values), np.array(times), rate)


def test_with_linear_cost_a_node_is_kept_iff_its_value_pays_its_rows():
    values = np.array([0.9, 0.6, 0.31, 0.29, 0.1])
    times = 20.0 + 3.0 * np.arange(6)
    assert choose(values, times, 0.1).budget == int((values >= 0.1 * 3.0).sum())
