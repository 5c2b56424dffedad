"""Many greedy requests in step."""

import itertools
import random

import pytest

from policy.controller import FixedBudget
from runtime.drafters.none import NoDrafter
from runtime.engine import Engine
from runtime.slots import generate_many
from tests.runtime.scenes import WORDS


def prompts(count, seed=3, longest=20):
    rng = random.Random(seed)
    return [[rng.randrange(48) for _ in range(rng.randint(1, longest))] for _ in range(count)]


def alone(target, prompt, limit):
    return Engine(target, NoDrafter(), FixedBudget(0)).generate(prompt, limit)


def test_each_output_is_that_of_the_request_alone(llama_with_eos):
    asked = prompts(14)
    found = {tuple(prompt): output for prompt, output in generate_many(llama_with_eos, iter(asked), 4, 12)}
    assert len(found) == 14
    for prompt in asked:
        assert found[tuple(prompt)] == alone(llama_with_eos, prompt, 12)


@pytest.mark.parametrize("name", ["qwen3-moe", "qwen3-vl", "mllama"])
def test_experts_and_text_without_images_decode_in_slots_too(name, target_of):
    target = target_of(name)
    asked = [[token % WORDS for token in prompt] for prompt in prompts(5)]
    for prompt, output in generate_many(target, iter(asked), 3, 8):
        assert output == alone(target, prompt, 8)


def test_requests_without_an_end_token_stop_at_their_limit(llama):
    found = list(generate_many(llama, iter(prompts(5)), 8, 7))
    assert [len(output) for _, output in found] == [7] * 5


def test_one_new_token_needs_no_step(llama):
    assert [out for _, out in generate_many(llama, iter([[1, 2]]), 2, 1)] == [alone(llama, [1, 2], 1)]


def test_prompts_without_end_are_taken_as_slots_fall_free(llama_with_eos):
    endless = (prompts(1, seed=k)[0] for k in itertools.count())
    some = list(itertools.islice(generate_many(llama_with_eos, endless, 3, 9), 10))
    assert len(some) == 10
    for prompt, output in some:
        assert output == alone(llama_with_eos, prompt, 9)


def test_long_prompts_are_passed_over(llama):
    found = list(generate_many(llama, iter([[1] * 30, [2, 3]]), 2, 3, longest_prompt=10))
    assert [prompt for prompt, _ in found] == [[2, 3]]


def test_no_prompt_gives_nothing(llama):
    assert list(generate_many(llama, iter([]), 2, 3)) == []
