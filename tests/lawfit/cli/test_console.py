"""Progress where no terminal shows it."""

from __future__ import annotations

import pytest

from lawfit.cli.console import progress


def said(capsys: pytest.CaptureFixture[str], total: int, steps: list[int]) -> list[int]:
    with progress("work", total) as advance:
        for step in steps:
            advance(step)
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("work: ") and line.endswith(f"/{total}") for line in lines)
    return [int(line.removeprefix("work: ").partition("/")[0]) for line in lines]


@pytest.mark.parametrize(
    ("total", "shown"),
    [
        (13, [2, 4, 6, 8, 10, 12, 13]),
        (10, list(range(1, 11))),
        (12, [2, 4, 6, 8, 10, 12]),
        (3, [1, 2, 3]),
        (100, list(range(10, 101, 10))),
    ],
)
def test_steps_are_even_at_most_ten_or_so_and_the_last_is_shown(
    capsys: pytest.CaptureFixture[str], total: int, shown: list[int]
) -> None:
    assert said(capsys, total, [1] * total) == shown
    assert len(shown) <= 11


def test_large_steps_are_shown_as_they_come(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, 90, [40, 4, 46]) == [40, 90]


def test_what_was_done_is_shown_where_less_came_than_was_announced(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, 100, [10, 5]) == [10, 15]
    assert said(capsys, 0, []) == []
