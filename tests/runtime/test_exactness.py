"""Losslessness: whatever is drafted, the output is the target's own (GLANCE Theorem 1)."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policy.acceptance import Acceptance, OffsetLaw
from policy.controller import Adaptive, FixedBudget
from policy.cost import CostTable
from runtime.audit import RandomBudget, compare, plain_output
from runtime.drafters.ngram import NgramDrafter
from runtime.drafters.random import RandomDrafter
from runtime.engine import Engine
from tests.runtime.conftest import DENSE, MIXTURES, VOCABULARY

PROMPTS = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=20)
QUIET = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def reference(target, prompt, count):
    """Greedy decoding by the model alone: no cache, no engine."""
    import torch

    tokens = list(prompt)
    with torch.inference_mode():
        for _ in range(count):
            tokens.append(int(target.model(torch.tensor([tokens])).logits[0, -1].argmax()))
            if tokens[-1] in target.eos:
                break
    return tokens[len(prompt) :]


@pytest.mark.parametrize("name", ["llama", "gemma", "llama_with_eos"])
def test_plain_decoding_is_the_models_own_greedy_output(name, request):
    target = request.getfixturevalue(name)
    for seed in range(8):
        prompt = np.random.default_rng(seed).integers(0, VOCABULARY, 12).tolist()
        assert plain_output(target, prompt, 24) == reference(target, prompt, 24)


@pytest.mark.parametrize("name", ["llama", "gemma", "llama_with_eos"])
@QUIET
@given(prompt=PROMPTS, seed=st.integers(0, 10_000), limit=st.integers(1, 40), most=st.integers(0, 24))
def test_random_trees_at_random_budgets_leave_the_output_alone(name, request, prompt, seed, limit, most):
    target = request.getfixturevalue(name)
    expected = plain_output(target, prompt, limit)
    drafter = RandomDrafter(VOCABULARY, seed, oracle=(*prompt, *expected))
    assert Engine(target, drafter, RandomBudget(most, seed)).generate(prompt, limit) == expected


@pytest.mark.parametrize("name", [*DENSE, *MIXTURES])
def test_every_family_writes_its_own_output_through_random_trees_and_ngrams(name, target_of):
    target = target_of(name)
    accepted = 0
    for seed in range(3):
        prompt = np.random.default_rng(seed).integers(0, VOCABULARY, 12).tolist()
        expected = reference(target, prompt, 32)
        drafters = RandomDrafter(VOCABULARY, seed, oracle=(*prompt, *expected)), NgramDrafter(min_match=1)
        for drafter in drafters:
            rounds = []
            assert Engine(target, drafter, RandomBudget(24, seed)).generate(prompt, 32, rounds.append) == expected
            accepted += sum(round.outcome.accept_len for round in rounds)
    assert accepted >= 15


@pytest.mark.parametrize("name", ["llama", "gemma", "llama_with_eos"])
@QUIET
@given(prompt=PROMPTS, limit=st.integers(1, 60), budget=st.integers(0, 32))
def test_ngram_trees_leave_the_output_alone(name, request, prompt, limit, budget):
    target = request.getfixturevalue(name)
    engine = Engine(target, NgramDrafter(min_match=1), FixedBudget(budget))
    assert engine.generate(prompt, limit) == plain_output(target, prompt, limit)


@QUIET
@given(prompt=PROMPTS, limit=st.integers(1, 60))
def test_the_adaptive_policy_leaves_the_output_alone(llama, prompt, limit):
    law = Acceptance(OffsetLaw(0.5, 0.2, 0.7, 0.3), OffsetLaw(1.0, 0.1, 0.3, 0.2))
    cost = CostTable(np.array([0, 8, 32]), np.array([10.0, 11.0, 20.0]))
    engine = Engine(llama, NgramDrafter(min_match=1), Adaptive(law, cost))
    assert engine.generate(prompt, limit) == plain_output(llama, prompt, limit)


def test_true_branches_are_really_accepted(llama):
    """The property above would hold for trees that are never accepted: here most of the output is drafted."""
    prompt = [3, 1, 4, 1, 5]
    expected = plain_output(llama, prompt, 60)
    drafter = RandomDrafter(VOCABULARY, 7, oracle=(*prompt, *expected))
    rounds = []
    Engine(llama, drafter, RandomBudget(24, 1)).generate(prompt, 60, rounds.append)
    accepted = sum(round.outcome.accept_len for round in rounds)
    assert accepted >= 20
    assert any(round.outcome.rows != tuple(range(len(round.outcome.rows))) for round in rounds)


def test_a_divergence_is_located_with_its_logit_gap(llama):
    prompt = [1, 2, 3]
    expected = plain_output(llama, prompt, 10)
    assert compare(llama, prompt, expected, expected) is None
    wrong = [*expected[:4], (expected[4] + 1) % VOCABULARY, *expected[5:]]
    found = compare(llama, prompt, expected, wrong)
    assert (found.position, found.expected, found.found) == (4, expected[4], wrong[4])
    assert found.gap > 0
    assert compare(llama, prompt, expected, expected[:6]).found is None
