"""A head of others in the engine: parts of its drafts are accepted, and the output stays the target's own."""

import pytest
import torch

from policy.controller import FixedBudget
from runtime.audit import RandomBudget, plain_output
from runtime.checkpoints.dflash import read_dflash
from runtime.checkpoints.safeailab import read_eagle
from runtime.checkpoints.speculators import read_speculators
from runtime.checkpoints.speculators_writer import write_speculators
from runtime.engine import Engine
from tests.runtime.checkpoints import published
from tests.runtime.checkpoints.conftest import PROMPT


def heads(tmp_path, target):
    yield read_eagle(published.write(tmp_path / "e1", *published.eagle1()), target)
    e3 = read_eagle(published.write(tmp_path / "e3", *published.eagle3()), target)
    yield e3
    sliding = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4, "use_sliding_window": True}
    yield read_dflash(published.write(tmp_path / "d", *published.dflash(**sliding)), target)
    write_speculators(tmp_path / "s", e3, target)
    yield read_speculators(tmp_path / "s", target)


@pytest.mark.parametrize("policy", [FixedBudget(9), RandomBudget(20, 1)], ids=["fixed", "random"])
def test_the_output_is_the_targets_own(tmp_path, target, policy):
    for checkpoint in heads(tmp_path, target):
        rounds = []
        for prompt in (PROMPT, [5]):
            engine = Engine(target, checkpoint.drafter(target), policy)
            assert engine.generate(prompt, 24, rounds.append) == plain_output(target, prompt, 24)
        assert sum(len(round.candidates.tokens) - 1 for round in rounds) > 100
        assert sum(round.outcome.accept_len for round in rounds) > 0


def test_an_embedding_of_its_own_does_not_touch_the_target(tmp_path, target):
    config, tensors = published.eagle3()
    tensors["embed_tokens.weight"] = published.drawing(3)(published.V, published.D)
    before = target.model.get_input_embeddings().weight.clone()
    checkpoint = read_eagle(published.write(tmp_path, config, tensors), target)
    drafter = checkpoint.drafter(target)
    assert Engine(target, drafter, FixedBudget(5)).generate(PROMPT, 12) == plain_output(target, PROMPT, 12)
    assert torch.equal(before, target.model.get_input_embeddings().weight)
