import numpy as np
import pytest
import torch

from policy.controller import FixedBudget
from policy.tree import DraftTree
from runtime.commit import commit
from runtime.drafters import Stateless
from runtime.drafters.random import RandomDrafter
from runtime.engine import Engine
from runtime.errors import CommitError
from runtime.states import FeatureAddress
from runtime.verify import verify
from runtime.walk import Walk
from tests.runtime.conftest import VOCABULARY


@pytest.fixture
def request_(llama):
    return Engine(llama, RandomDrafter(VOCABULARY), FixedBudget(8)).start([1, 2, 3, 4], 20)


def fork_tree(root, tokens=(5, 6, 5, 7)):
    """Two children of the root, one grandchild below each."""
    return DraftTree(np.array([root, *tokens]), np.array([-1, 0, 0, 2, 3]), -np.arange(5.0))


def rows_of(cache, start, stop):
    return [(layer.keys[:, :, start:stop].clone(), layer.values[:, :, start:stop].clone()) for layer in cache.layers]


def test_rejected_rows_leave_the_cache_as_if_never_fed(llama, request_):
    tree = fork_tree(request_.root)
    verify(llama, request_.cache, tree)
    commit(request_, tree, Walk((0, 2, 3), (6, 5), 9, False), None, 0.5, llama.eos)
    assert request_.tokens[-3:] == [6, 5, 9]
    assert request_.cache.committed == len(request_.tokens) - 1
    clean = llama.new_cache(64)
    llama.prefill(request_.tokens[:-1], clean)
    for (keys, values), layer in zip(rows_of(request_.cache, 0, clean.committed), clean.layers, strict=True):
        torch.testing.assert_close(keys, layer.keys[:, :, : clean.committed], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(values, layer.values[:, :, : clean.committed], rtol=1e-4, atol=1e-5)


def test_rows_are_committed_by_index_where_equal_tokens_stand_in_several_rows(llama, request_):
    # Token 5 stands in row 1 (depth 1) and row 3 (depth 2): only the named row's keys may be kept.
    tree = fork_tree(request_.root)
    base = request_.cache.committed
    verify(llama, request_.cache, tree)
    fed = rows_of(request_.cache, base, base + tree.rows)
    commit(request_, tree, Walk((0, 2, 3), (6, 5), 9, False), None, 0.5, llama.eos)
    for (keys, _), (kept, _) in zip(fed, rows_of(request_.cache, base, base + 3), strict=True):
        assert torch.equal(kept, keys[:, :, [0, 2, 3]])
        assert not torch.equal(kept[:, :, 2], keys[:, :, 1])


def test_the_frontier_token_is_emitted_but_append_required(llama, request_):
    tree = DraftTree.root_only(request_.root)
    verify(llama, request_.cache, tree)
    commit(request_, tree, Walk((0,), (), 9, False), None, 0.5, llama.eos)
    assert request_.root == 9
    assert request_.cache.committed == len(request_.tokens) - 1
    assert request_.prev_entropy == 0.5


@pytest.mark.parametrize("rows", [(0, 3), (1, 2), (0, 2, 1), (2, 3)])
def test_rows_that_are_no_path_are_refused_and_nothing_changes(llama, request_, rows):
    tree = fork_tree(request_.root)
    verify(llama, request_.cache, tree)
    before = (list(request_.tokens), request_.cache.committed, request_.cache.provisional)
    with pytest.raises(CommitError, match="not a path"):
        commit(request_, tree, Walk(rows, tuple(range(len(rows) - 1)), 9, False), None, 0.5, llama.eos)
    assert (request_.tokens, request_.cache.committed, request_.cache.provisional) == before


def test_rows_beyond_the_verified_ones_are_refused(llama, request_):
    tree = fork_tree(request_.root)
    verify(llama, request_.cache, tree.prefix(1))
    with pytest.raises(CommitError, match="increasing indices below 2"):
        commit(request_, tree, Walk((0, 2, 3), (6, 5), 9, False), None, 0.5, llama.eos)


def test_a_cache_that_lost_step_with_the_tokens_is_refused(llama, request_):
    tree = DraftTree.root_only(request_.root)
    verify(llama, request_.cache, tree)
    request_.tokens.append(1)
    with pytest.raises(CommitError, match="all but the root"):
        commit(request_, tree, Walk((0,), (), 9, False), None, 0.5, llama.eos)


def test_a_fork_goes_its_own_way(llama, request_):
    twin = request_.fork()
    tree = fork_tree(request_.root)
    verify(llama, twin.cache, tree)
    commit(twin, tree, Walk((0, 2), (6,), 9, False), None, 0.5, llama.eos)
    assert request_.cache.committed == len(request_.tokens) - 1
    assert request_.cache.provisional == 0
    assert len(twin.tokens) == len(request_.tokens) + 2


def test_a_cache_refuses_rows_beyond_its_capacity(llama):
    with pytest.raises(CommitError, match="cache of 3 rows"):
        llama.prefill([1, 2, 3, 4], llama.new_cache(3))


class Follower(Stateless):
    """Remembers what it was shown."""

    def __init__(self):
        self.name, self.max_nodes, self.reads = "follower", 8, FeatureAddress((1,), "post-norm")
        self.shown = []

    def observe(self, states, next_tokens):
        self.shown.append((states, list(next_tokens)))


def test_publication_follows_the_verifiers_rows(llama):
    # Seed 000, section 9: rows [0, 2] are accepted, with their keys and features; the frontier token waits for its row.
    follower = Follower()
    request = Engine(llama, follower, FixedBudget(0)).start([1, 2, 3, 4], 20)
    tree = DraftTree(np.array([request.root, 5, 6]), np.array([-1, 0, 0]), -np.arange(3.0))
    before = request.cache.committed
    verified = verify(llama, request.cache, tree, follower.reads)
    fed = rows_of(request.cache, before, before + 3)
    commit(request, tree, Walk((0, 2), (6,), 9, False), verified.states, 0.5, llama.eos)
    for (keys, values), (all_keys, all_values) in zip(rows_of(request.cache, before, before + 2), fed, strict=True):
        assert torch.equal(keys, all_keys[:, :, [0, 2]])
        assert torch.equal(values, all_values[:, :, [0, 2]])
    states, next_tokens = follower.shown[-1]
    assert torch.equal(states, verified.states[[0, 2]])
    assert next_tokens == [6, 9]
    assert request.output[-2:] == [6, 9]
    assert request.root == 9
    assert request.cache.committed == before + 2  # all tokens but the frontier token
