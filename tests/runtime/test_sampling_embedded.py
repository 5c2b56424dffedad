"""Both ways of sampling on the embedded target, where it has been converted before."""

from pathlib import Path

import numpy as np
import pytest

from policy.controller import FixedBudget
from runtime.drafters.ngram import NgramDrafter
from runtime.drafters.none import NoDrafter
from runtime.embedded import NAME, cache_folder
from runtime.engine import Engine
from runtime.prompts import load_prompts
from runtime.rejection import reject
from runtime.sampling import Sampling, draw
from runtime.target import Target
from tests.runtime.three_words import filtered_by_transformers, fit

PROMPTS = Path(__file__).parents[2] / "data" / "prompts.jsonl"
FOLDER = cache_folder() / NAME
pytestmark = pytest.mark.skipif(not (FOLDER / "model.safetensors").is_file(), reason="no converted target in the cache")
SAMPLING = Sampling(1.0, top_p=0.95)


@pytest.fixture(scope="module")
def target():
    return Target.load(FOLDER)


@pytest.fixture(scope="module")
def prompt(target):
    return target.encode(next(prompt.text for prompt in load_prompts(PROMPTS) if prompt.task == "story"))


@pytest.fixture(scope="module")
def row(target, prompt):
    """Logits of the first output token."""
    return target.prefill(prompt, target.new_cache(len(prompt))).logits[-1].double()


def test_keyed_draws_of_the_first_token_have_the_targets_law(row):
    counts = np.zeros(len(row))
    for seed in range(1000):
        counts[Sampling(1.0, top_p=0.95, seed=seed).token(row, 0)] += 1
    law = filtered_by_transformers(row, SAMPLING)
    assert (law >= 5e-3).sum() >= 5
    assert fit(counts, law) > 0.01


def test_rejection_of_another_temperatures_draft_gives_the_first_token_the_targets_law(row):
    target_probs, draft_probs = SAMPLING.probs(row), Sampling(2.0, top_k=200).probs(row)
    counts, kept, rng = np.zeros(len(row)), 0, np.random.default_rng(0)
    for _ in range(1000):
        accepted, token = reject(
            np.array([target_probs, target_probs]), draft_probs[None], [drawn := draw(draft_probs, rng.random())], rng
        )
        counts[drawn if accepted else token] += 1
        kept += accepted
    assert fit(counts, filtered_by_transformers(row, SAMPLING)) > 0.01
    overlap = np.minimum(target_probs, draft_probs).sum()
    assert kept / 1000 == pytest.approx(overlap, abs=4 * np.sqrt(0.25 / 1000))


def test_ngram_trees_give_the_tokens_of_plain_sampling(target, prompt):
    expected = Engine(target, NoDrafter(), FixedBudget(0), SAMPLING).generate(prompt, 12)
    assert Engine(target, NgramDrafter(min_match=1), FixedBudget(8), SAMPLING).generate(prompt, 12) == expected
