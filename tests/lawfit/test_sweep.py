"""Budgets, shapes and counterfactual budgets side by side."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from lawfit import FitError, NotIdentified, RoundLog
from lawfit.sweep import by_budget, by_shape, counterfactual_sweep, sweep

GRID = {"prompt_id": ["p", "p", "q"], "task": ["t", "t", "t"]}


def arm(accept_len: list[int], ms: list[float | None], shape: str = "tree", budget: int = 8) -> pl.DataFrame:
    return pl.DataFrame(
        {
            **GRID,
            "accept_len": accept_len,
            "horizon": [4] * 3,
            "round_ms": ms,
            "shape": [shape] * 3,
            "budget": [budget] * 3,
        },
        schema_overrides={"round_ms": pl.Float64},
    )


def log(*frames: pl.DataFrame) -> RoundLog:
    return RoundLog.from_frame(pl.concat(frames))


def test_a_row_holds_means_over_rounds_and_tokens() -> None:
    arms = {"small": log(arm([0, 1, 2], [3.0, 3.0, 6.0])), "large": log(arm([1, 2, 3], [4.0, 4.0, 7.0]))}
    small, large = sweep(arms, "small", resamples=20)
    assert (small.arm, small.prompts, small.rounds) == ("small", 2, 3)
    values = [cell.estimate for cell in (large.accept_len, large.tau, large.round_ms, large.token_ms)]
    assert values == pytest.approx([2.0, 3.0, 5.0, 15 / 9])
    assert large.tau_ratio.estimate == pytest.approx(3.0 / 2.0)
    assert large.speedup.estimate == pytest.approx((12 / 6) / (15 / 9))
    assert (small.tau_ratio.low, small.speedup.high) == (1.0, 1.0)


def test_ratios_are_paired_by_prompt() -> None:
    rng = np.random.default_rng(0)
    prompts = np.repeat(np.arange(30), 10)
    slow = rng.gamma(5.0, 5.0, 30)[prompts]
    frames = [
        pl.DataFrame(
            {
                "prompt_id": [f"p{k}" for k in prompts],
                "accept_len": np.full(300, 2),
                "horizon": np.full(300, 4),
                "round_ms": slow * factor,
            }
        )
        for factor in (1.0, 0.5)
    ]
    _, fast = sweep({"slow": log(frames[0]), "fast": log(frames[1])}, "slow", resamples=200)
    assert (fast.speedup.low, fast.speedup.high) == pytest.approx((2.0, 2.0))
    assert fast.token_ms.low < 0.95 * fast.token_ms.high


def test_plain_decoding_is_an_arm_like_any_other() -> None:
    plain = pl.DataFrame(
        {
            **GRID,
            "accept_len": [0] * 3,
            "horizon": [0] * 3,
            "round_ms": [3.0] * 3,
            "budget": [0] * 3,
            "shape": ["chain"] * 3,
        }
    )
    rows = sweep({"plain": log(plain), "tree": log(arm([1, 2, 3], [4.0, 4.0, 7.0]))}, "plain", resamples=20)
    assert rows[0].tau.estimate == 1.0
    assert rows[1].speedup.estimate == pytest.approx(3.0 / (15 / 9))


def test_prompts_that_an_arm_lacks_are_left_out_of_all() -> None:
    whole = log(arm([1, 1, 3], [1.0, 1.0, 1.0]))
    rows = sweep({"a": whole, "b": whole.where(pl.col("prompt_id") == "p")}, "a", resamples=20)
    assert [(row.prompts, row.rounds, row.accept_len.estimate) for row in rows] == [(1, 2, 1.0), (1, 2, 1.0)]


def test_an_arm_without_times_has_acceptance_only() -> None:
    rows = sweep({"a": log(arm([1, 1, 3], [1.0, None, 1.0])), "b": log(arm([1, 2, 3], [1.0] * 3))}, "a", resamples=20)
    assert np.isnan([rows[0].round_ms.estimate, rows[1].speedup.estimate, rows[1].speedup.low]).all()
    assert rows[1].token_ms.estimate == pytest.approx(3 / 9)


def test_a_log_splits_into_arms_by_budget_and_shape() -> None:
    whole = log(arm([1, 1, 1], [1.0] * 3, "tree", 31), arm([0, 0, 0], [1.0] * 3, "chain", 4))
    assert list(by_budget(whole)) == ["4", "31"]
    assert list(by_shape(whole)) == ["chain", "tree"]
    tree = sweep(by_shape(whole), "chain", resamples=20)[1]
    assert (tree.arm, tree.tau_ratio.estimate, tree.speedup.estimate) == ("tree", 2.0, pytest.approx(2.0))


def best_first_lengths(rng: np.random.Generator, rounds: int, nodes: int) -> tuple[list[list[int]], np.ndarray]:
    """Draw random trees in best-first order with a random accepted path: its ranks, and its length in every prefix."""
    ranks, lengths = [], np.zeros((rounds, nodes + 1), dtype=int)
    for r in range(rounds):
        parent = [0, *(int(rng.integers(0, k)) for k in range(1, nodes + 1))]
        path, at = [], 0
        while children := [k for k in range(1, nodes + 1) if parent[k] == at]:
            at = int(rng.choice(children))
            path.append(at)
        for n in range(nodes + 1):  # walk the tree of the first n nodes
            kept = [node for node in path if node <= n]
            lengths[r, n] = len(kept)
            assert all(parent[node] == before for node, before in zip(kept, [0, *kept], strict=False))
        ranks.append(path)
    return ranks, lengths


def test_smaller_budgets_are_read_off_accepted_ranks_exactly() -> None:
    ranks, lengths = best_first_lengths(np.random.default_rng(4), 60, 12)
    frame = pl.DataFrame(
        {
            "prompt_id": [f"p{k % 7}" for k in range(60)],
            "accept_len": [len(path) for path in ranks],
            "accept_ranks": ranks,
            "horizon": [12] * 60,
            "budget": [12] * 60,
        },
        schema_overrides={"accept_ranks": pl.List(pl.Int64)},
    )
    rows = counterfactual_sweep(log(frame), [0, 1, 3, 5, 12], resamples=50)
    assert [row.arm for row in rows] == ["0", "1", "3", "5", "12", "logged"]
    assert [row.accept_len.estimate for row in rows[:5]] == pytest.approx(lengths.mean(axis=0)[[0, 1, 3, 5, 12]])
    assert rows[4].accept_len == rows[5].accept_len
    assert rows[2].tau_ratio.estimate == pytest.approx((lengths[:, 3].mean() + 1) / (lengths[:, 12].mean() + 1))
    assert np.isnan(rows[2].token_ms.estimate)


def test_a_counterfactual_budget_counts_identical_rounds() -> None:
    frame = pl.DataFrame(
        {
            "prompt_id": ["p", "q"],
            "accept_len": [2, 0],
            "accept_ranks": [[1, 4], []],
            "horizon": [4, 4],
            "budget": [4, 4],
            "count": [3, 1],
        }
    )
    row = counterfactual_sweep(log(frame), [2], resamples=20)[0]
    assert (row.rounds, row.accept_len.estimate) == (4, 0.75)


def test_what_cannot_be_swept_is_refused() -> None:
    whole = log(arm([1, 1, 3], [1.0] * 3))
    with pytest.raises(FitError, match="reference 'b'"):
        sweep({"a": whole}, "b")
    with pytest.raises(NotIdentified, match="no prompt is in all of a, b"):
        sweep({"a": whole.where(pl.col("prompt_id") == "p"), "b": whole.where(pl.col("prompt_id") == "q")}, "a")
    with pytest.raises(NotIdentified, match="3 of 3 rows have no accept_ranks"):
        counterfactual_sweep(whole, [2])
    ranked = log(arm([0, 0, 0], [1.0] * 3).with_columns(accept_ranks=pl.lit([], pl.List(pl.Int64))))
    for budget in (9, -1):
        with pytest.raises(NotIdentified, match=f"budget {budget} cannot be read off rounds that verified up to 8"):
            counterfactual_sweep(ranked, [budget])
