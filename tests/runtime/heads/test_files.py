import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from lawfit.errors import LawfitError
from policy.controller import FixedBudget
from runtime.audit import plain_output
from runtime.engine import Engine
from runtime.errors import ManifestMismatch
from runtime.heads.files import MANIFEST, WEIGHTS, load_head, save_head
from runtime.manifest import TargetIdentity
from runtime.target import Target
from runtime.training.recipes import RECIPES
from tests.runtime.conftest import VOCABULARY, tiny_llama

WORDS = torch.arange(0, VOCABULARY, 2)


@pytest.fixture(scope="module", params=sorted(RECIPES))
def saved(request, llama, tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads") / request.param
    recipe = RECIPES[request.param]
    head = recipe.head(llama, WORDS, theta=500.0, seed=1)
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    save_head(folder, request.param, head, WORDS, recipe.reads(llama.layers), TargetIdentity.of(llama), "fp32")
    return folder, head


def test_a_head_comes_back_as_it_was(saved, llama):
    folder, head = saved
    drafter = load_head(folder, llama)
    assert drafter.name == folder.name
    assert drafter.head.config == head.config
    assert torch.equal(drafter.frozen.draft_tokens, WORDS)
    for name, value in head.state_dict().items():
        assert torch.equal(drafter.head.state_dict()[name], value), name


@pytest.mark.parametrize("budget", [1, 7, 40])
def test_output_is_the_targets_own_whatever_the_head_drafts(saved, llama, budget):
    folder, _ = saved
    drafter = load_head(folder, llama)
    for seed in range(4):
        prompt = torch.randint(VOCABULARY, (5 + seed,), generator=torch.Generator().manual_seed(seed)).tolist()
        rounds = []
        output = Engine(llama, drafter, FixedBudget(budget)).generate(prompt, 24, rounds.append)
        assert output == plain_output(llama, prompt, 24)
        assert all(done.candidates.count <= drafter.max_nodes for done in rounds)
        assert any(done.decision.tree.budget for done in rounds)


def test_another_target_is_refused_by_the_field_that_differs(saved):
    with pytest.raises(ManifestMismatch, match=r"target\.weights"):
        load_head(saved[0], Target.wrap(tiny_llama(seed=9), name="other"))


def test_files_that_do_not_belong_together_are_refused(saved, llama, tmp_path):
    folder = tmp_path / "head"
    shutil.copytree(saved[0], folder)
    tensors = load_file(folder / WEIGHTS)
    save_file({**tensors, "draft_tokens": tensors["draft_tokens"] + 1}, folder / WEIGHTS)
    with pytest.raises(ManifestMismatch, match="vocabulary is"):
        load_head(folder, llama)
    name = next(key for key in tensors if key != "draft_tokens")
    save_file({**tensors, name: torch.zeros(3, 3)}, folder / WEIGHTS)
    with pytest.raises(ManifestMismatch, match=r"is \(3, 3\)"):
        load_head(folder, llama)
    save_file({key: value for key, value in tensors.items() if key != name}, folder / WEIGHTS)
    with pytest.raises(ManifestMismatch, match="absent"):
        load_head(folder, llama)
    (folder / WEIGHTS).write_bytes((saved[0] / WEIGHTS).read_bytes()[:-100])
    with pytest.raises(ManifestMismatch, match="not safetensors"):
        load_head(folder, llama)


@pytest.mark.parametrize("value", [-1, 10**12, "8", None, 1.5, [], 0])
def test_a_hostile_size_is_one_clear_error(saved, llama, tmp_path, value):
    folder = tmp_path / "head"
    shutil.copytree(saved[0], folder)
    record = json.loads((folder / MANIFEST).read_text())
    head = record["head"].get("shape", record["head"])
    for name in ("hidden", "heads", "width"):
        if name in head:
            head[name] = value
    (folder / MANIFEST).write_text(json.dumps(record))
    with pytest.raises(LawfitError, match="head"):
        load_head(folder, llama)


def test_pickled_weights_are_refused(tmp_path, llama):
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04")
    with pytest.raises(ManifestMismatch, match="may be a pickle"):
        load_head(tmp_path, llama)
    with pytest.raises(ManifestMismatch, match="not a head"):
        load_head(tmp_path / "absent", llama)
