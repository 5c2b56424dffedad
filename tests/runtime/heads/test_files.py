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
from runtime.heads.files import MANIFEST, WEIGHTS, load_head, save_head, words_digest
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


def changed(saved, tmp_path, edit):
    """Copy a head with its tensors or manifest changed by ``edit(tensors, record)``."""
    folder = tmp_path / "head"
    shutil.copytree(saved[0], folder)
    tensors, record = load_file(folder / WEIGHTS), json.loads((folder / MANIFEST).read_text())
    edit(tensors, record)
    record["vocabulary"] = words_digest(tensors["draft_tokens"])
    save_file(tensors, folder / WEIGHTS)
    (folder / MANIFEST).write_text(json.dumps(record))
    return folder


def break_weight(tensors, record):
    name = next(key for key in sorted(tensors) if key != "draft_tokens")
    tensors[name] = torch.full_like(tensors[name], float("nan"))


def set_field(*path, value):
    def edit(tensors, record):
        part = record
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = value

    return edit


def set_words(words):
    return lambda tensors, record: tensors.update(draft_tokens=words)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (break_weight, "not finite"),
        (set_field("dtype", value="fp64"), "dtype is 'fp64'"),
        (set_words(torch.tensor([], dtype=torch.int32)), "draft_tokens"),
        (set_words(torch.tensor([-1, 3], dtype=torch.int32)), "draft_tokens"),
        (set_words(torch.tensor([3, 3], dtype=torch.int32)), "draft_tokens"),
        (set_words(torch.tensor([3, 9999], dtype=torch.int32)), "draft_tokens"),
    ],
    ids=["nan", "dtype", "no words", "negative", "twice", "beyond"],
)
def test_what_would_fail_later_is_refused_when_loaded(saved, llama, tmp_path, edit, message):
    with pytest.raises(LawfitError, match=message):
        load_head(changed(saved, tmp_path, edit), llama)


@pytest.mark.parametrize("layers", [[50], [-1], [2]])
def test_states_that_the_target_has_not_are_refused(saved, llama, tmp_path, layers):
    taps = len(json.loads((saved[0] / MANIFEST).read_text())["features"]["layers"]) or 1
    folder = changed(saved, tmp_path, set_field("features", "layers", value=layers * taps))
    with pytest.raises(LawfitError, match="taps"):
        load_head(folder, llama)


@pytest.mark.parametrize("value", [0.0, -1.0, None])
def test_a_base_of_rotary_positions_that_is_none_is_refused(saved, llama, tmp_path, value):
    record = json.loads((saved[0] / MANIFEST).read_text())
    if "shape" not in record["head"]:
        pytest.skip("this head has no attention")
    folder = changed(saved, tmp_path, set_field("head", "shape", "theta", value=value))
    with pytest.raises(LawfitError, match=r"head\.shape\.theta"):
        load_head(folder, llama)


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.complex64, torch.float16])
def test_weights_of_another_dtype_than_the_manifests_are_refused(saved, llama, tmp_path, dtype):
    folder = tmp_path / "head"
    shutil.copytree(saved[0], folder)
    tensors = load_file(folder / WEIGHTS)
    first = next(name for name in tensors if name != "draft_tokens")
    save_file({**tensors, first: torch.ones(tensors[first].shape).to(dtype)}, folder / WEIGHTS)
    with pytest.raises(ManifestMismatch, match=rf"{first} is of .*, the manifest says fp32"):
        load_head(folder, llama)
