from __future__ import annotations

from dataclasses import replace

from lawfit.cli.check_words import cells, sentence
from lawfit.drift.check import GroupCheck
from lawfit.drift.gap import Gap


def test_a_difference_that_many_tests_may_give_by_chance_is_called_that() -> None:
    gap = Gap(2.0, 0.0, 2.5, 0.1, 0.2, 40.0, 0.05)
    part = GroupCheck("task", "a", 400.0, 40, gap, "not fitted", 0.3, float("nan"), 0.15, 0.05, 20)
    assert sentence(part).startswith("task a: predicted 2.00, observed 2.50 (2.30 to 2.70): off by 0.50 (0.10 to 0.90)")
    assert "may be chance in a check of 20 tests: about " in sentence(part)
    assert cells(part)[-1] == "off, or chance"
    holds = replace(part, gap=replace(gap, observed=2.05, rounds_se=0.01))
    assert sentence(holds) == (
        "task a: holds: predicted 2.00, observed 2.05 (1.85 to 2.25); off by at most 0.07, and 0.15 is tolerated"
    )
    near = replace(part, gap=replace(gap, observed=2.1, rounds_se=0.0252))
    assert "up to 0.1510 tokens could hide (0.1500 is tolerated): about " in sentence(near)
