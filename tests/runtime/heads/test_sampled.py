"""Heads that draw their chain, with the distributions that they drew from."""

import dataclasses

import numpy as np
import pytest
import torch

from policy.controller import FixedBudget
from runtime.audit import plain_output
from runtime.frozen import Frozen
from runtime.heads.eagle import EagleConfig, EagleHead
from runtime.heads.layers import Shape
from runtime.heads.sampled import SampledDrafter
from runtime.heads.trie import Expansion
from runtime.rejection import RejectionEngine, SamplingSession
from runtime.sampling import Sampling
from runtime.states import FeatureAddress
from tests.runtime.conftest import VOCABULARY
from tests.runtime.three_words import fit_of_three, law_of_three, three_words

READS = FeatureAddress(())


def drafter_of(target, width, heads, words, sampling, depth=4):
    torch.manual_seed(1)
    head = EagleHead(EagleConfig(Shape(width, heads, heads // 2, 24))).eval()
    return SampledDrafter(head, Frozen.of(target, torch.tensor(words)), READS, sampling, Expansion(depth, 1, 1))


def observed(target, drafter, prompt):
    rows = target.prefill(prompt, target.new_cache(64), drafter.reads)
    session = drafter.start()
    session.observe(rows.states, [*prompt[1:], 9])
    return session


def test_at_temperature_0_the_chain_is_the_one_that_the_session_expands(llama):
    drafter = drafter_of(llama, 32, 4, range(0, VOCABULARY, 2), Sampling(0.0))
    session, tokens = observed(llama, drafter, [5, 6, 7]), [5, 6, 7, 9]
    assert isinstance(session, SamplingSession)
    chain = session.draft(tokens, 3, 4, np.random.default_rng(0))
    assert chain.tokens.tolist() == session.propose(tokens, 3, 4).tokens.tolist()
    assert (chain.passes, chain.count) == (4, 4)


def test_each_row_is_the_law_of_its_token_and_0_outside_the_draft_vocabulary(llama):
    drafter = drafter_of(llama, 32, 4, range(0, VOCABULARY, 2), Sampling(1.0))
    session, tokens = observed(llama, drafter, [5, 6, 7]), [5, 6, 7, 9]
    chains = [session.draft(tokens, 3, 2, np.random.default_rng(seed)) for seed in range(2000)]
    first = chains[0].draft_probs[0]
    assert (first[1::2] == 0).all()
    assert (first[::2] > 0).all()
    assert all((chain.draft_probs[0] == first).all() for chain in chains)
    # The session's own log probabilities of all children are the same row.
    wide = dataclasses.replace(drafter, expansion=Expansion(1, 1, VOCABULARY))
    offer = observed(llama, wide, [5, 6, 7]).propose(tokens, 3, 1)
    assert first[offer.tokens[1:]] == pytest.approx(np.exp(offer.log_prob[1:]), abs=1e-6)
    drawn = np.bincount([chain.tokens[1] for chain in chains], minlength=VOCABULARY)[::2]
    assert np.abs(drawn / 2000 - first[::2]).max() < 5 * np.sqrt(0.25 / 2000)
    assert len({tuple(chain.draft_probs[1]) for chain in chains}) == np.count_nonzero(drawn)


def test_drawing_leaves_no_trace(llama):
    drafter = drafter_of(llama, 32, 4, range(VOCABULARY), Sampling(1.0))
    session, tokens = observed(llama, drafter, [5, 6, 7]), [5, 6, 7, 9]
    first = session.draft(tokens, 3, 4, np.random.default_rng(3))
    twin = session.fork()
    twin.observe(torch.randn(2, 1, 32), [1, 2])
    again = session.draft(tokens, 3, 4, np.random.default_rng(3))
    assert first.tokens.tolist() == again.tokens.tolist()
    assert (first.draft_probs == again.draft_probs).all()


def test_before_anything_is_observed_nothing_is_drawn(llama):
    drafter = drafter_of(llama, 32, 4, range(VOCABULARY), Sampling(1.0))
    assert drafter.start().draft([1, 2], 1, 4, np.random.default_rng(0)).count == 0


@pytest.mark.parametrize("words", [[0, 1, 2], [0, 2]], ids=["whole vocabulary", "two of three words"])
def test_rejection_of_a_heads_chain_keeps_the_targets_law(words):
    target, rounds, outputs = three_words(), [], []
    drafter = drafter_of(target, 16, 2, words, Sampling(1.5), depth=2)
    for seed in range(500):
        engine = RejectionEngine(target, drafter, FixedBudget(2), Sampling(1.0, seed=seed))
        outputs.append(engine.generate([0, 1], 3, rounds.append))
    assert fit_of_three(outputs, law_of_three(target, [0, 1], Sampling(1.0))) > 0.01
    assert {round.outcome.accept_len for round in rounds} == {0, 1, 2}


def test_at_temperature_0_a_drawn_chain_leaves_the_greedy_output_alone(llama):
    drafter = drafter_of(llama, 32, 4, range(VOCABULARY), Sampling(1.0))
    engine = RejectionEngine(llama, drafter, FixedBudget(4))
    assert engine.generate([5, 6, 7], 30) == plain_output(llama, [5, 6, 7], 30)
