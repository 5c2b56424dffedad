import pytest

from policy.level import Level


def test_a_new_request_starts_at_half_the_laws_level_and_a_good_draft_restores_it():
    assert Level().factor == 0.5
    assert Level().after(4.0, 6.0).factor == 1.0


def test_the_factor_is_the_shrunk_share_that_came_true():
    assert Level(0.0).after(8.0, 3.0).factor == pytest.approx((3 + 2) / (8 + 2))
    assert Level(5.0, 4.0).after(8.0, 3.0).factor == pytest.approx((0.9 * 4 + 3 + 2) / (0.9 * 5 + 8 + 2))


def test_it_never_promises_more_than_the_law():
    assert Level().after(2.0, 30.0).factor == 1.0


def test_it_forgets():
    level = Level().after(10.0, 0.0)
    low = level.factor
    for _ in range(40):
        level = level.after(1.0, 1.0)
    assert low < 0.2
    assert level.factor > 0.95
