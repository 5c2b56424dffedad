"""Rejected rows leave the cache as if never fed: bit for bit, in every family."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policy.build import best_first
from policy.tree import DraftTree
from runtime.drafters.random import RandomDrafter
from runtime.errors import CommitError
from runtime.pack import pack
from tests.runtime.conftest import MIXTURES, SEEING, TARGETS
from tests.runtime.scenes import WORDS, scene

QUIET = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def start(target, seed):
    """A cache behind a prompt, with an image where the target takes one."""
    cache = target.new_cache(160)
    if target.vision is None:
        target.prefill(np.random.default_rng(seed).integers(1, WORDS, 9).tolist(), cache)
    else:
        shown = scene(target, seed)
        target.prefill(shown.prompt, cache, None, shown.image)
    return cache


def random_tree(seed, root, nodes=16, words=WORDS):
    candidates = RandomDrafter(words, seed, nodes).propose([root], 1, 8)
    return best_first(candidates, root, nodes)


def feed(target, cache, tree):
    return target.verify(pack(tree, cache.committed, target.device), cache).logits


def rows(cache, stop):
    """All committed keys and values, and those of the image."""
    own = [(layer.keys[:, :, :stop].clone(), layer.values[:, :, :stop].clone()) for layer in cache.rows]
    return own + [(layer.keys, layer.values) for layer in cache.layers if layer not in cache.rows]


def assert_same_bits(one, other):
    for pair, twin in zip(one, other, strict=True):
        assert torch.equal(pair[0], twin[0])
        assert torch.equal(pair[1], twin[1])


@pytest.mark.parametrize("name", TARGETS)
@QUIET
@given(seed=st.integers(0, 10_000))
def test_a_cache_that_was_fed_rejected_trees_has_the_bits_of_one_that_was_not(name, seed, target_of):
    target = target_of(name)
    tried, clean = start(target, seed), start(target, seed)
    for step in range(3):
        root = (seed + step) % WORDS
        feed(target, tried, random_tree(seed + step, root))
        tried.commit([])
        kept = random_tree(seed + step + 1, root)
        path = kept.path(kept.rows - 1).tolist()
        assert torch.equal(feed(target, tried, kept), feed(target, clean, kept))
        for cache in (tried, clean):
            cache.commit(path)
        assert_same_bits(rows(tried, tried.committed), rows(clean, clean.committed))
    assert (tried.committed, tried.provisional) == (clean.committed, 0)


@pytest.mark.parametrize("name", TARGETS)
@QUIET
@given(seed=st.integers(0, 10_000))
def test_committed_rows_are_the_fed_rows_and_the_rows_before_them_stay(name, seed, target_of):
    target = target_of(name)
    cache = start(target, seed)
    base = cache.committed
    before = rows(cache, base)
    tree = random_tree(seed, seed % WORDS)
    feed(target, cache, tree)
    fed = rows(cache, base + tree.rows)
    path = tree.path(int(np.random.default_rng(seed).integers(0, tree.rows))).tolist()
    cache.commit(path)
    assert_same_bits(rows(cache, base), before)
    for (keys, values), (own_keys, own_values) in zip(rows(cache, cache.committed), fed, strict=True):
        if keys.shape[2] == cache.committed:
            assert torch.equal(keys[:, :, base:], own_keys[:, :, [base + row for row in path]])
            assert torch.equal(values[:, :, base:], own_values[:, :, [base + row for row in path]])
        else:  # of the image
            assert torch.equal(keys, own_keys)


@pytest.mark.parametrize("name", TARGETS)
@QUIET
@given(seed=st.integers(0, 10_000))
def test_accepted_rows_do_not_depend_on_the_rejected_tokens_beside_them(name, seed, target_of):
    target = target_of(name)
    half = WORDS // 2
    tree = random_tree(seed, seed % WORDS, words=half)
    path = tree.path(int(np.random.default_rng(seed).integers(0, tree.rows))).tolist()
    rejected = ~np.isin(np.arange(tree.rows), path)
    others = tree.tokens + half * rejected
    caches = [start(target, seed), start(target, seed)]
    for cache, tokens in zip(caches, (tree.tokens, others), strict=True):
        feed(target, cache, DraftTree(tokens, tree.parent, tree.log_score))
        cache.commit(path)
    one, other = (rows(cache, cache.committed) for cache in caches)
    if name in MIXTURES or name.endswith("moe"):
        # The rows of one expert are multiplied together: how many there are changes the rounding, and nothing else.
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    else:
        assert_same_bits(one, other)


@pytest.mark.parametrize("name", SEEING)
def test_a_fork_holds_the_same_bits_and_writes_none_of_the_others(name, target_of):
    target = target_of(name)
    cache = start(target, 1)
    feed(target, cache, random_tree(1, 5))
    twin = cache.fork()
    cache.commit([])
    before = rows(cache, cache.committed)
    assert_same_bits(rows(twin, twin.committed), before)
    tree = random_tree(2, 5)
    feed(target, twin, tree)
    twin.commit(list(range(tree.rows)))
    assert_same_bits(rows(cache, cache.committed), before)
    assert (twin.image is cache.image, cache.provisional) == (True, 0)


def test_layers_of_the_image_hold_no_row_of_the_text(target_of):
    cache = start(target_of("mllama"), 0)
    assert [layer.get_seq_length() > 0 for layer in cache.layers] == [True, False, False, True]
    with pytest.raises(CommitError, match="increasing indices below 0"):
        cache.commit([0])
