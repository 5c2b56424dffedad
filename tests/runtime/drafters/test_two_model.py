"""A smaller model as drafter."""

import numpy as np
import pytest
import torch

from policy.controller import FixedBudget
from policy.errors import TreeError
from runtime.audit import RandomBudget, plain_output
from runtime.drafters.two_model import TwoModelDrafter
from runtime.engine import Engine
from runtime.errors import CommitError, ManifestMismatch
from runtime.heads.trie import Expansion
from runtime.target import Target
from tests.runtime.conftest import VOCABULARY, tiny_gemma, tiny_llama

TREE, CHAIN = Expansion(4, 3, 3), Expansion(5, 1, 1)


@pytest.fixture(scope="module")
def small():
    """Another model than the targets: most of its drafts are rejected."""
    return Target.wrap(tiny_llama(seed=5), name="small")


@pytest.fixture(scope="module")
def twin():
    """The same weights as the target: all that it drafts is accepted."""
    return Target.wrap(tiny_llama(), name="twin")


def prompt_of(seed, length=12):
    return np.random.default_rng(seed).integers(0, VOCABULARY, length).tolist()


def bits(cache, rows):
    return [part[:, :, :rows].clone() for layer in cache.rows for part in (layer.keys, layer.values)]


def same(found, expected):
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("expansion", [CHAIN, TREE], ids=["chain", "tree"])
@pytest.mark.parametrize("name", ["llama", "gemma", "llama_with_eos"])
def test_the_output_is_the_targets_own(name, expansion, small, request):
    target = request.getfixturevalue(name)
    drafter = TwoModelDrafter(small, expansion).require(target)
    for seed, policy in enumerate((FixedBudget(31), FixedBudget(4), RandomBudget(16))):
        prompt = prompt_of(seed)
        assert Engine(target, drafter, policy).generate(prompt, 20) == plain_output(target, prompt, 20)


def test_the_target_as_its_own_drafter_is_always_accepted(llama, twin):
    # Only right positions, masks and catching up can guess every token.
    rounds = []
    engine = Engine(llama, TwoModelDrafter(twin, CHAIN), FixedBudget(8))
    assert engine.generate(prompt_of(1), 43, rounds.append) == plain_output(llama, prompt_of(1), 43)
    assert [round.outcome.accept_len for round in rounds] == [CHAIN.depth] * 7


@pytest.mark.parametrize("name", ["llama", "gemma"])
def test_probabilities_in_the_tree_are_those_of_separate_paths(name, request):
    target = request.getfixturevalue(name)
    prompt = prompt_of(2)
    session = TwoModelDrafter(target, TREE).start()
    session.propose(prompt[:5], 5, 9)
    offer = session.propose(prompt, 5, 9)
    assert offer.passes == 4
    assert offer.count == 3 + 3 * 9
    paths = [[]]
    for node in range(1, offer.count + 1):
        above = paths[offer.parent[node]]
        paths.append([*above, int(offer.tokens[node])])
        with torch.inference_mode():
            logits = target.model(torch.tensor([[*prompt, *above]]), use_cache=False).logits[0, -1]
        expected = float(logits.log_softmax(-1)[paths[-1][-1]])
        assert offer.log_prob[node] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", ["llama", "gemma"])
def test_rejected_rows_leave_both_caches_bit_equal(name, small, request):
    target = request.getfixturevalue(name)
    engine = Engine(target, TwoModelDrafter(small, TREE), FixedBudget(31))
    started, controller, number = engine.start(prompt_of(3), 40), FixedBudget(31), 0
    bare = TwoModelDrafter(small, Expansion(1, 1, 1)).start()  # follows, and feeds no draft row
    rejected = 0
    while not started.done:
        bare.propose(started.tokens, started.prompt_len, 1)
        rows, before = started.cache.committed, bits(started.cache, started.cache.committed)
        round = engine.step(started, controller, number)
        rejected += round.decision.tree.budget - round.outcome.accept_len
        assert same(bits(started.cache, rows), before)
        assert started.cache.provisional == started.session.cache.provisional == 0
        assert started.session.cache.committed == len(bare.followed)
        assert same(bits(started.session.cache, len(bare.followed)), bits(bare.cache, len(bare.followed)))
        number += 1
    assert rejected > 100


def test_an_offer_leaves_no_trace(small):
    session = TwoModelDrafter(small, TREE).start()
    first, again = (session.propose(prompt_of(4), 3, 9) for _ in range(2))
    assert again.tokens.tolist() == first.tokens.tolist()
    assert again.log_prob.tolist() == first.log_prob.tolist()
    assert session.cache.committed == 12


def test_a_drafter_that_fails_half_way_forgets_its_rows(small, monkeypatch):
    session = TwoModelDrafter(small, TREE).start()
    expected = session.propose(prompt_of(4), 3, 9)
    grow, levels = session._grow, []

    def fail_at_the_third(trie, nodes):
        levels.append(nodes)
        rows = grow(trie, nodes)
        return [[(0.5, 1)] for _ in rows] if len(levels) == 3 else rows

    monkeypatch.setattr(session, "_grow", fail_at_the_third)
    with pytest.raises(TreeError, match="expected at most 0"):
        session.propose(prompt_of(4), 3, 9)
    assert session.cache.provisional == 0
    monkeypatch.undo()
    assert session.propose(prompt_of(4), 3, 9).log_prob.tolist() == expected.log_prob.tolist()


def test_forks_go_their_own_ways(small):
    session = TwoModelDrafter(small, TREE).start()
    assert session.fork().propose([5], 1, 3).count > 0  # of a session that has followed nothing
    session.propose([1, 2, 3], 3, 9)
    fork = session.fork()
    left, right = session.propose([1, 2, 3, 4], 3, 9), fork.propose([1, 2, 3, 5, 6], 3, 9)
    for tokens, offer in (([1, 2, 3, 4], left), ([1, 2, 3, 5, 6], right)):
        fresh = TwoModelDrafter(small, TREE).start().propose(tokens, 3, 9)
        assert offer.tokens.tolist() == fresh.tokens.tolist()
        np.testing.assert_allclose(offer.log_prob, fresh.log_prob, atol=1e-4)


def test_the_cache_grows_a_few_times_only(small):
    session, copies = TwoModelDrafter(small, Expansion(1, 1, 1)).start(), []
    copied = session._copied
    session._copied = lambda capacity: copies.append(session.cache.committed) or copied(capacity)
    text = prompt_of(6, 300)
    for end in range(1, 301):
        session.propose(text[:end], 1, 5)
    assert len(copies) <= 10
    assert sum(copies) < 2 * 300  # rows that were copied, all together
    fresh = TwoModelDrafter(small, Expansion(1, 1, 1)).start().propose(text, 1, 5)
    assert session.propose(text, 1, 5).tokens.tolist() == fresh.tokens.tolist()


def test_the_end_of_the_small_models_context_ends_the_drafts(small):
    text = prompt_of(7, 513)
    session = TwoModelDrafter(small, CHAIN).start()
    assert session.propose(text[:508], 1, 9).depth.max() == 5
    assert session.propose(text[:511], 1, 9).depth.max() == 2
    assert session.propose(text[:512], 1, 9).depth.max() == 1
    assert session.propose(text, 1, 9).count == 0


def test_a_text_that_does_not_go_on_is_refused(small):
    session = TwoModelDrafter(small, CHAIN).start()
    session.propose([1, 2, 3], 3, 5)
    for other, place in (([1, 5, 3, 4], 1), ([1, 2], 2)):
        with pytest.raises(CommitError, match=f"at place {place}"):
            session.propose(other, 3, 5)


def test_another_vocabulary_is_refused(llama, small, folder):
    drafter = TwoModelDrafter(small, CHAIN)
    assert drafter.require(llama) is drafter  # neither has a tokenizer
    model = tiny_gemma()
    model.resize_token_embeddings(VOCABULARY + 4)
    with pytest.raises(ManifestMismatch, match=f"has {VOCABULARY + 4} tokens, expected {VOCABULARY}"):
        TwoModelDrafter(Target.wrap(model, name="wide"), CHAIN).require(llama)
    target, other = Target.load(folder), Target.load(folder)
    other.tokenizer.chat_template = "another"
    TwoModelDrafter(other, CHAIN).require(target)
    words = target.tokenizer.get_vocab()
    swapped = words | {"w1": words["w2"], "w2": words["w1"]}
    object.__setattr__(other, "tokenizer", type("Tokenizer", (), {"get_vocab": lambda self: swapped})())
    with pytest.raises(ManifestMismatch, match="the token of 'w1' is 2, expected 1"):
        TwoModelDrafter(other, CHAIN).require(target)


def test_depth_nought_is_plain_decoding(llama, small):
    rounds = []
    engine = Engine(llama, TwoModelDrafter(small, Expansion(0, 1, 1)), FixedBudget(8))
    assert engine.generate([1, 2, 3], 6, rounds.append) == plain_output(llama, [1, 2, 3], 6)
    assert len(rounds) == 5
