"""Walking a known text gives the rounds that an engine gives."""

import numpy as np
import pytest
import torch

from policy.build import best_first
from policy.controller import FixedBudget
from runtime.drafters.ngram import NgramDrafter
from runtime.engine import Engine
from runtime.frozen import Frozen
from runtime.heads.drafter import HeadDrafter
from runtime.manifest import TargetIdentity
from runtime.states import FeatureAddress
from runtime.training.corpus import Text
from runtime.training.evaluation import tau, walk_texts
from runtime.training.features import Features, extract
from runtime.training.recipes import RECIPES


@pytest.fixture(scope="module")
def texts(llama):
    found = []
    for k in range(4):
        prompt = [k + 1, 3, 2 * k, 3, k + 1]
        output = Engine(llama, NgramDrafter(), FixedBudget(0)).generate(prompt, 20)
        found.append(Text(f"t{k}", "list", tuple(prompt), tuple(output), True))
    return found


@pytest.mark.parametrize("name", ["ngram", "hass", "glance", "eagle3"])
def test_walked_rounds_are_an_engines_rounds(llama, texts, tmp_path, name):
    reads = FeatureAddress((1,)) if name == "ngram" else RECIPES[name].reads(llama.layers)
    extract(llama, texts, reads if reads.final == "post-norm" else FeatureAddress(reads.layers), tmp_path / "states")
    features = Features.load(tmp_path / "states", reads, TargetIdentity.of(llama))
    if name == "ngram":
        drafter = NgramDrafter()
    else:
        head = RECIPES[name].head(llama, torch.arange(48), 500.0, 2)
        # The cache holds states in bf16: the engine's own would round near-ties otherwise. A coarse head has none.
        drafter = HeadDrafter(head.eval(), Frozen.of(llama), reads)
    walked = list(walk_texts(drafter, features, range(4), lambda offer: best_first(offer, offer.root, 6)))
    for one, text in zip(walked, texts, strict=True):
        rounds = []
        Engine(llama, drafter, FixedBudget(6)).generate(text.prompt, 20, rounds.append)
        # The last round of a text is cut by its end, and may count otherwise.
        assert list(one.accept_len)[:-1] == [done.outcome.accept_len for done in rounds][: len(one.accept_len) - 1]
        assert one.tokens == 19
        assert abs(len(one.accept_len) - len(rounds)) <= 1


def test_tau_is_tokens_over_rounds(texts, llama, tmp_path):
    extract(llama, texts, FeatureAddress((1,)), tmp_path / "states")
    features = Features.load(tmp_path / "states", FeatureAddress((1,)), TargetIdentity.of(llama))
    walked = list(walk_texts(NgramDrafter(), features, range(4), lambda offer: best_first(offer, offer.root, 6)))
    found = tau(walked)
    rounds = sum(len(one.accept_len) for one in walked)
    assert found.estimate == pytest.approx(4 * 19 / rounds)
    assert found.low <= found.estimate <= found.high
    assert np.isfinite(found.low)
