"""Texts that a tiny target wrote, and its states of them."""

import random

import pytest

from runtime.manifest import TargetIdentity
from runtime.slots import generate_many
from runtime.states import FeatureAddress
from runtime.training.corpus import Text
from runtime.training.features import Features, extract

ADDRESS = FeatureAddress((1, 2), "post-norm")


@pytest.fixture(scope="module")
def texts(llama):
    rng = random.Random(4)
    prompts = ([rng.randrange(48) for _ in range(rng.randint(2, 6))] for _ in range(24))
    made = generate_many(llama, prompts, 6, 14)
    return [Text(f"p{k}", "story", tuple(p), tuple(out), True) for k, (p, out) in enumerate(made)]


@pytest.fixture(scope="module")
def features(llama, texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("states") / "cache"
    extract(llama, texts, ADDRESS, folder)
    return folder, Features.load(folder, ADDRESS, TargetIdentity.of(llama))
