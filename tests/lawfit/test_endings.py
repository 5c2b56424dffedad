from __future__ import annotations

import polars as pl
import pytest

from lawfit import NotIdentified, RoundLog, observe
from lawfit.endings import KEYS, find_endings
from lawfit.scan import scan_frame


def log(**columns: list[object]) -> RoundLog:
    size = len(next(iter(columns.values())))
    return RoundLog.from_frame(pl.DataFrame({"accept_len": [0] * size, "horizon": [1] * size, **columns}))


def marks(rounds: RoundLog) -> list[bool]:
    scan = scan_frame(rounds)
    endings = find_endings(scan)
    return [flag for batch in scan.batches(KEYS) for flag in endings.mark(batch)]


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_the_last_round_has_the_highest_number(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lawfit.scan.BATCH", batch)
    assert marks(log(request_id=["a", "b", "a", "b", "a"], round=[2, 0, 1, 1, 0])) == [True, False, False, True, False]


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_without_numbers_the_last_round_comes_last(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lawfit.scan.BATCH", batch)
    assert marks(log(request_id=["a", "b", "a", "b"], round=[0, 1, None, 0])) == [False, False, True, True]


def test_equal_names_of_two_runs_are_two_requests() -> None:
    assert marks(log(run_id=["x", "y", None], request_id=["a", "a", "a"], round=[0, 1, 2])) == [True] * 3


@pytest.mark.parametrize(
    "rounds",
    [
        log(request_id=["a", "a"], count=[1, 2]),
        log(request_id=["a", None]),
        log(request_id=["a", "a", "a"], round=[0, 1, 1]),
    ],
)
def test_what_cannot_be_told_is_refused_as_observe_refuses_it(rounds: RoundLog) -> None:
    with pytest.raises(NotIdentified) as ours:
        find_endings(scan_frame(rounds))
    with pytest.raises(NotIdentified) as theirs:
        observe(rounds, last_round="drop")
    assert str(ours.value) == str(theirs.value)
