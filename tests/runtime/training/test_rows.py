"""Training rows: the fixtures of seed 000, packed segments, and who sees whom."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.errors import TrainingError
from runtime.training.rows import Rows, compile_soft_rows, hard_rows
from runtime.training.visibility import Node, dependency_mask, rooted, sees, unrolled_mask


def plan(valid: list[int], segment: list[int] | None = None, supervise: list[int] | None = None) -> Rows:
    size = len(valid)
    segments = torch.tensor([segment or [0] * size])
    flags = torch.tensor([supervise or [1] * size])
    position = torch.tensor([[segments[0, :k].eq(segments[0, k]).sum() for k in range(size)]])
    return compile_soft_rows(torch.tensor([valid]), segments, position, flags)


def hard(valid: list[int], segment: list[int] | None = None) -> Rows:
    rows = plan(valid, segment)
    return hard_rows(rows, torch.tensor([valid]), torch.tensor([segment or [0] * len(valid)]))


def test_the_fixture_has_four_soft_and_three_hard_rows() -> None:
    tokens, valid = torch.tensor([[11, 12, 13, 14, 15, 16]]), [1, 1, 1, 1, 1, 0]
    soft = plan(valid)
    assert soft.source.tolist() == [0, 1, 2, 3]
    assert soft.supervise.all()
    features = torch.arange(6.0)[None]
    # First row: f_0 and token 12 give f_1. Last: f_3 and token 15 give f_4, from which q_5; slot 5 is not read.
    assert (soft.at(features)[0], soft.at(tokens, 1)[0], soft.at(features, 1)[0]) == (0, 12, 1)
    assert (soft.at(features)[-1], soft.at(tokens, 1)[-1], soft.at(features, 1)[-1]) == (3, 15, 4)
    assert hard(valid).source[hard(valid).supervise].tolist() == [0, 1, 2]


def test_packed_segments_do_not_run_into_each_other() -> None:
    valid, segment = [1] * 6, [0, 0, 0, 1, 1, 1]
    assert plan(valid, segment).source.tolist() == [0, 1, 3, 4]
    rows = hard(valid, segment)
    assert rows.source[rows.supervise].tolist() == [0, 3]
    assert plan(valid, segment).visible().int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]


def test_unsupervised_rows_stay_as_context() -> None:
    rows = plan([1] * 5, supervise=[0, 0, 1, 1, 1])
    assert rows.source.tolist() == [0, 1, 2, 3]
    assert rows.supervise.tolist() == [False, False, True, True]
    assert rows.visible()[3].all()


def test_no_eligible_row_is_an_empty_plan() -> None:
    assert len(plan([1])) == 0
    assert len(plan([1, 0, 1, 0])) == 0
    assert len(plan([1, 1], [0, 1])) == 0


def test_an_invalid_token_is_never_gathered() -> None:
    # A NaN where nothing is valid would spoil whatever touches it, a product with zero included.
    features = torch.tensor([[0.0, 1.0, 2.0, float("nan"), 4.0, 5.0]])
    rows = plan([1, 1, 1, 0, 1, 1])
    for ahead in (0, 1):
        assert torch.isfinite(rows.at(features, ahead)).all()


def test_shapes_must_agree() -> None:
    ones = torch.ones(1, 3)
    with pytest.raises(TrainingError, match="expected one"):
        compile_soft_rows(ones, ones, ones, torch.ones(1, 4))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.booleans(), min_size=2, max_size=9), st.integers(0, 2**9 - 1))
def test_soft_and_hard_rows_equal_their_definition(valid: list[bool], cuts: int) -> None:
    size = len(valid)
    segment = list(itertools.accumulate((cuts >> k) & 1 for k in range(size)))
    flags = [int(v) for v in valid]
    soft = [t for t in range(size - 1) if valid[t] and valid[t + 1] and segment[t] == segment[t + 1]]
    also = [t for t in soft if t + 2 < size and valid[t + 2] and segment[t + 1] == segment[t + 2]]
    assert plan(flags, segment).source.tolist() == soft
    rows = hard(flags, segment)
    assert rows.source[rows.supervise].tolist() == also


def test_an_unrolled_pass_sees_what_drafting_would_hold() -> None:
    rows = plan([1] * 7)
    for step in range(4):
        queries = [Node(int(t), step, 0) for t in rows.source]
        keys = [Node(int(t), k, 0) for k in range(step + 1) for t in rows.source]
        assert (unrolled_mask(rows, step) == dependency_mask(queries, keys)).all()


def test_the_graph_is_that_of_a_chain_drafted_from_every_source() -> None:
    # Drafting from source r: row (r, 0) reads the target, (r + 1, 1) the first draft state, and so on.
    for root, depth in itertools.product(range(5), range(4)):
        chain = [Node(root + step, step, 0) for step in range(depth + 1)]
        held = {Node(t, 0, 0) for t in range(root + 1)} | set(chain)
        everything = [Node(t, k, 0) for t in range(10) for k in range(5)]
        assert {key for key in everything if sees(chain[-1], key)} == held


def test_no_sibling_future_or_foreign_row_is_visible() -> None:
    for query, key in itertools.product([Node(t, k, s) for t in range(6) for k in range(3) for s in (0, 1)], repeat=2):
        if not sees(query, key):
            continue
        assert key.segment == query.segment
        assert key.source <= query.source
        assert key.step <= query.step
        if key.step and key != query:  # an ancestor is on the query's own chain, of which every source has one
            assert query.source - key.source == query.step - key.step


def test_rows_of_two_packed_segments_are_unrolled_apart() -> None:
    rows = plan([1] * 6, [0, 0, 0, 1, 1, 1])
    mask = unrolled_mask(rows, 1)
    segment = torch.cat([rows.segment, rows.segment])
    assert not mask[rows.segment[:, None] != segment].any()
    assert rooted(rows, 1).tolist() == [False, True, False, True]
    assert rooted(rows, 0).all()
