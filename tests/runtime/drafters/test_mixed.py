"""Lookup and head as one drafter."""

import numpy as np
import pytest
import torch

from policy.controller import FixedBudget
from policy.match_weights import MatchWeights
from policy.mixture import evidence, mix
from runtime.audit import RandomBudget, plain_output
from runtime.drafters.conditioned import bank_of
from runtime.drafters.mixed import MixedDrafter, match_rows
from runtime.drafters.ngram import NgramDrafter
from runtime.drafters.none import NoDrafter
from runtime.drafters.random import RandomDrafter
from runtime.drafters.two_model import TwoModelDrafter
from runtime.engine import Engine
from runtime.heads.trie import Expansion
from runtime.target import Target
from tests.runtime.conftest import VOCABULARY, tiny_llama
from tests.runtime.tiny_heads import tiny_head

LOOKUP = NgramDrafter(min_match=1, max_nodes=24)
WEIGHTS = MatchWeights((1, 2, 4), (0.2, 0.6, 1.0))
LOOPED = [1, 2, 3, 1, 2, 5, 7, 1, 2]


class Asked(RandomDrafter):
    """Counts how often it is asked."""

    def propose(self, tokens, prompt_len, max_depth):
        self.calls.append(len(tokens))
        return super().propose(tokens, prompt_len, max_depth)


def asked(seed=0):
    drafter = Asked(VOCABULARY, seed)
    object.__setattr__(drafter, "calls", [])
    return drafter


def drafters(target):
    small = Target.wrap(tiny_llama(seed=5), name="small")
    return {
        "head tree": tiny_head(target),
        "head chain": tiny_head(target, 5, 1, 1),
        "two-model tree": TwoModelDrafter(small, Expansion(4, 3, 3)),
        "two-model chain": TwoModelDrafter(small, Expansion(5, 1, 1)),
        "random": RandomDrafter(VOCABULARY, 3),
        "none": NoDrafter(),
    }


@pytest.mark.parametrize("name", ["llama", "llama_with_eos"])
def test_the_output_is_the_targets_own(name, request):
    target = request.getfixturevalue(name)
    for head in drafters(target).values():
        drafter = MixedDrafter(LOOKUP, head, WEIGHTS)
        for policy in (FixedBudget(31), RandomBudget(16)):
            assert Engine(target, drafter, policy).generate(LOOPED, 40) == plain_output(target, LOOPED, 40)


def test_rejected_rows_leave_the_cache_and_the_keys_bit_equal(llama):
    engine = Engine(llama, MixedDrafter(LOOKUP, tiny_head(llama), WEIGHTS), FixedBudget(31))
    request, controller, mixed = engine.start(LOOPED, 40), FixedBudget(31), 0
    for number in range(100):
        if request.done:
            break
        rows, keys = request.cache.committed, request.session.head.keys
        held = [layer.keys[:, :, :rows].clone() for layer in request.cache.rows] + [keys.keys.clone()]
        round = engine.step(request, controller, number)
        mixed += round.candidates.confidence in (1, 2, 3)
        now = [layer.keys[:, :, :rows] for layer in request.cache.rows]
        now.append(request.session.head.keys.keys[:, :, : keys.count])
        assert all(torch.equal(a, b) for a, b in zip(now, held, strict=True))
        assert request.cache.provisional == 0
    assert request.done
    assert mixed > 5


def test_the_offer_is_the_mixture_by_the_length_of_the_match(llama):
    head = RandomDrafter(VOCABULARY, 1)
    session = MixedDrafter(LOOKUP, head, WEIGHTS).start()
    for text, weight in (([1, 5, 9, 1], 0.2), ([3, 4, 5, 3, 4], 0.6)):
        found, drafted = LOOKUP.propose(text, 1, 8), head.propose(text, 1, 8)
        expected, offer = mix(found, drafted, weight), session.propose(text, 1, 8)
        assert offer.tokens.tolist() == expected.tokens.tolist()
        assert offer.log_prob.tolist() == expected.log_prob.tolist()
        assert offer.confidence == found.confidence


def test_the_head_stands_alone_without_a_match_and_is_not_asked_at_weight_one():
    head = asked()
    session = MixedDrafter(LOOKUP, head, WEIGHTS).start()
    text = [1, 2, 3]
    assert (
        session.propose(text, 1, 8).log_prob.tolist() == RandomDrafter(VOCABULARY).propose(text, 1, 8).log_prob.tolist()
    )
    assert head.calls == [3]
    text = [1, 2, 3, 4, 9, 1, 2, 3, 4]
    offer = session.propose(text, 1, 8)
    assert head.calls == [3]
    assert offer.log_prob.tolist() == LOOKUP.propose(text, 1, 8).log_prob.tolist()


def test_both_are_sized_named_read_and_forked(llama):
    head = tiny_head(llama)
    drafter = MixedDrafter(LOOKUP, head, WEIGHTS)
    assert (drafter.name, drafter.reads) == ("tiny+ngram", head.reads)
    assert drafter.max_nodes == 24 + head.max_nodes
    session = drafter.start()
    states = bank_of(llama, LOOPED, head)
    session.observe(states[:4], LOOPED[1:5])
    fork = session.fork()
    fork.observe(states[4:6], LOOPED[5:7])
    assert (session.head.rows, fork.head.rows) == (4, 6)
    assert session.propose(LOOPED[:5], 3, 9).count <= drafter.max_nodes


def test_rows_for_the_fit_are_the_evidence_at_every_match(llama):
    head = tiny_head(llama)
    text = [*LOOPED, *plain_output(llama, LOOPED, 40)]
    drafter = MixedDrafter(LOOKUP, head, WEIGHTS)
    rows = match_rows(drafter, text, len(LOOPED), bank_of(llama, text, head))
    # The same, position by position, from decoding.
    expected = []
    for round in decoded(llama, head, LOOPED):
        root = len(LOOPED) + round.position
        found = LOOKUP.propose(text[: root + 1], len(LOOPED), len(text) - 1 - root)
        if found.count:
            expected.append((found.confidence, *evidence(found, round.candidates, text[root + 1 :])))
    assert len(rows) == len(expected) > 5
    np.testing.assert_allclose(rows, expected, atol=1e-4)
    fitted = MatchWeights.fit(rows, (1, 2, 4))
    assert all(0 <= weight <= 1 for weight in fitted.weights)


def decoded(target, head, prompt):
    rounds = []
    Engine(target, head, FixedBudget(0)).generate(prompt, 40, rounds.append)
    return rounds


def test_rows_need_no_states_of_a_head_that_reads_none():
    rows = match_rows(MixedDrafter(LOOKUP, RandomDrafter(VOCABULARY), WEIGHTS), LOOPED * 2, 3)
    assert {length for length, _, _ in rows} <= set(range(1, 17))
    assert all(0 <= prob <= 1 for _, *pair in rows for prob in pair)
