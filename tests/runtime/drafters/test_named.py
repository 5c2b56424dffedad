import shutil

import pytest
import torch

from policy.controller import FixedBudget
from policy.match_weights import MatchWeights
from runtime.audit import plain_output
from runtime.drafters.named import make_drafter
from runtime.engine import Engine
from runtime.errors import ManifestMismatch, TargetError
from runtime.heads.files import LOOKUP, save_head
from runtime.manifest import TargetIdentity
from runtime.target import Target
from runtime.training.recipes import RECIPES
from tests.runtime.conftest import tiny_llama


@pytest.fixture(scope="module")
def loaded(folder):
    return Target.load(folder)


@pytest.fixture(scope="module")
def head_folder(loaded, tmp_path_factory):
    path = tmp_path_factory.mktemp("head")
    recipe = RECIPES["eagle1"]
    head = recipe.head(loaded, torch.arange(48), 500.0, 3)
    save_head(path, "eagle1", head, torch.arange(48), recipe.reads(loaded.layers), TargetIdentity.of(loaded), "fp32")
    (path / LOOKUP).write_text(MatchWeights((2, 4), (0.5, 0.9)).to_json())
    return path


def test_every_name_drafts_and_leaves_the_output_alone(loaded, head_folder, folder):
    names = {
        "ngram": "ngram",
        "none": "none",
        "random": "random",
        str(head_folder): "eagle1",
        f"{head_folder}+ngram": "eagle1+ngram",
        f"{head_folder}@zeroed": "eagle1@zeroed",
        f"{head_folder}@swapped": "eagle1@swapped",
        f"two-model:{folder}": "two-model",
    }
    prompt = [1, 2, 3, 1, 2, 3, 1, 2]
    expected = plain_output(loaded, prompt, 20)
    for name, shown in names.items():
        drafter = make_drafter(name, loaded)
        assert drafter.name == shown
        assert Engine(loaded, drafter, FixedBudget(12)).generate(prompt, 20) == expected


def test_unknown_names_say_what_is_known(loaded, head_folder, tmp_path):
    with pytest.raises(TargetError, match="drafter 'eagle', expected ngram, random"):
        make_drafter("eagle", loaded)
    with pytest.raises(ManifestMismatch, match="not a head"):
        make_drafter(str(tmp_path), loaded)
    bare = tmp_path / "bare"
    shutil.copytree(head_folder, bare)
    (bare / LOOKUP).unlink()
    with pytest.raises(TargetError, match="no such file, expected the weights of a lookup"):
        make_drafter(f"{bare}+ngram", loaded)


def test_a_head_of_another_target_is_refused(head_folder):
    with pytest.raises(ManifestMismatch, match=r"target\."):
        make_drafter(str(head_folder), Target.wrap(tiny_llama(seed=8), name="other"))


@pytest.mark.parametrize("name", ["", "+ngram", "@zeroed", "@swapped"])
def test_a_name_without_a_folder_is_not_the_one_we_stand_in(loaded, head_folder, monkeypatch, name):
    monkeypatch.chdir(head_folder)
    with pytest.raises(TargetError, match="expected ngram, random"):
        make_drafter(name, loaded)
