import numpy as np
import pytest

from policy.acceptance import Acceptance, OffsetLaw
from policy.candidates import Candidates
from policy.controller import Adaptive, FixedBudget
from policy.cost import CostTable
from policy.level import Level

LAW = Acceptance(OffsetLaw(0.0, 0.5, 1.0, 0.2), OffsetLaw(0.0, 0.5, 1.0, 0.2))


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
    emitted = [*range(1, decision.tree.budget + 1), 99]
    for _ in range(2000):
        controller.observe(straight(-0.01), decision, emitted)
    assert controller.rate == pytest.approx(len(emitted) / (30.0 + decision.tree.budget), rel=1e-6)


def test_a_draft_that_was_not_verified_teaches_as_well():
    policy = adaptive(60.0)
    controller = policy.start()
    decision = controller.decide(straight(-0.1), 0.5)
    assert decision.tree.budget == 0
    controller.observe(straight(-0.1), decision, [1])
    assert (controller.history.accepted, controller.history.missed) == (1, 0)
    controller.observe(straight(-0.1), decision, [77])
    assert (controller.history.accepted, controller.history.missed) == (0.9, 1)


def test_a_round_without_a_draft_leaves_the_history_alone():
    controller = adaptive(1.0).start()
    nothing = Candidates.none(0)
    controller.observe(nothing, controller.decide(nothing, 0.5), [5])
    assert controller.history.missed == 0


def test_expectation_is_the_sum_of_the_trees_own_values():
    decision = adaptive(1.0).start().decide(straight(-0.2), 0.3)
    assert decision.expected is not None
    values = np.exp(decision.tree.log_score[1:])
    assert decision.expected.accept_len == pytest.approx(Level().factor * values.sum())
    assert decision.expected.budget == decision.tree.budget


def test_estimates_that_do_not_come_true_lower_the_level_and_with_it_the_budget():
    controller = adaptive(2.0).start()
    controller.level = Level(0.0)
    first = controller.decide(straight(-0.2), 0.3)
    for _ in range(6):
        decision = controller.decide(straight(-0.2), 0.3)
        # The first token is right, so the history stays good; the path never runs on.
        controller.observe(straight(-0.2), decision, [1, 99])
    assert controller.level.factor < 0.7
    later = controller.decide(straight(-0.2), 0.3)
    assert later.tree.budget < first.tree.budget
    assert later.expected.accept_len < first.expected.accept_len


def test_requests_do_not_share_state():
    policy = adaptive(1.0)
    first, second = policy.start(), policy.start()
    first.observe(straight(-0.01), first.decide(straight(-0.01), 0.0), range(1, 13))
    assert second.rate == pytest.approx(1 / 30.0)
    assert first.rate > second.rate
