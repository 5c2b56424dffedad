import numpy as np
import pytest

from policy.acceptance import Acceptance
from policy.candidates import Candidates
from policy.controller import Adaptive, FixedBudget
from policy.cost import CostTable

LAW = Acceptance(b0=0.0, b1=0.5, b2=1.0)


def straight(log_prob, length=12):
    return Candidates(np.arange(length + 1), np.arange(-1, length), np.r_[0.0, np.full(length, log_prob)])


def adaptive(slope):
    return Adaptive(LAW, CostTable(np.array([0, 16]), np.array([30.0, 30.0 + 16 * slope])))


def test_fixed_budget_takes_as_many_as_there_are():
    policy = FixedBudget(8)
    assert policy.start().decide(straight(-0.1), 0.0).tree.budget == 8
    assert policy.start().decide(straight(-0.1, 3), 0.0).tree.budget == 3
    assert FixedBudget(0).start().decide(straight(-0.1), 0.0).tree.budget == 0


def test_free_nodes_are_all_taken_and_dear_ones_none():
    assert adaptive(0.0).start().decide(straight(-0.1), 0.5).tree.budget == 12
    assert adaptive(60.0).start().decide(straight(-0.1), 0.5).tree.budget == 0


def test_budget_falls_with_entropy_and_with_a_doubtful_draft():
    budgets = [adaptive(3.0).start().decide(straight(-0.2), entropy).tree.budget for entropy in (0.0, 2.0, 6.0)]
    assert budgets == sorted(budgets, reverse=True)
    assert budgets[0] > budgets[-1]
    sure, doubtful = (adaptive(3.0).start().decide(straight(np.log(p)), 0.5).tree.budget for p in (0.98, 0.4))
    assert sure > doubtful


def test_rate_follows_tokens_and_table_times():
    policy = adaptive(1.0)
    controller = policy.start()
    assert controller.rate == pytest.approx(1 / 30.0)
    decision = controller.decide(straight(-0.01), 0.0)
    for _ in range(2000):
        controller.observe(decision, decision.tree.budget)
    assert controller.rate == pytest.approx((decision.tree.budget + 1) / (30.0 + decision.tree.budget), rel=1e-6)


def test_expectation_is_the_sum_of_the_trees_own_values():
    decision = adaptive(1.0).start().decide(straight(-0.2), 0.3)
    assert decision.expected is not None
    assert decision.expected.accept_len == pytest.approx(np.exp(decision.tree.log_score[1:]).sum())
    assert decision.expected.budget == decision.tree.budget


def test_requests_do_not_share_state():
    policy = adaptive(1.0)
    first, second = policy.start(), policy.start()
    first.observe(first.decide(straight(-0.01), 0.0), 12)
    assert second.rate == pytest.approx(1 / 30.0)
    assert first.rate > second.rate
