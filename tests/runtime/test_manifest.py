"""A drafter loads only against the target it was trained on."""

import json
from dataclasses import replace

import pytest

from lawfit.errors import LawfitError
from runtime.errors import ManifestMismatch
from runtime.manifest import TREE_ABI, Manifest, TargetIdentity, weights_digest
from runtime.states import FeatureAddress
from runtime.target import Target
from tests.runtime.conftest import tiny_gemma, tiny_llama


def manifest(target):
    address = FeatureAddress((1, 2), "post-norm")
    return Manifest("eagle1", TargetIdentity.of(target), address, "fp16", {"layers": 1}, TREE_ABI, "")


def test_the_same_weights_are_the_same_target(llama):
    manifest(llama).require(Target.wrap(tiny_llama(), name="again"))


@pytest.mark.parametrize(
    ("other", "field"),
    [(lambda: tiny_llama(seed=1), "target.weights"), (tiny_gemma, "target.layers")],
    ids=["weights", "layers"],
)
def test_another_target_is_refused_by_the_field_that_differs(llama, other, field):
    with pytest.raises(ManifestMismatch, match=f"manifest: {field} is"):
        manifest(llama).require(Target.wrap(other(), name="other"))


def test_a_changed_weight_and_another_tokenizer_are_seen(llama, folder):
    model = tiny_llama()
    before = weights_digest(model)
    model.model.norm.weight.data[0] += 0.01
    assert weights_digest(model) != before
    with pytest.raises(ManifestMismatch, match=r"target\.tokenizer"):
        manifest(llama).require(Target.load(folder))


def test_another_tree_form_is_refused(llama):
    with pytest.raises(ManifestMismatch, match="tree_abi"):
        replace(manifest(llama), tree_abi="first child, next sibling").require(llama)


def test_it_survives_json_and_names_its_features(llama):
    own = manifest(llama)
    again = Manifest.from_json(own.to_json())
    assert again == own
    assert again.fingerprint == own.fingerprint
    assert replace(own, features=FeatureAddress((1,), "post-norm")).fingerprint != own.fingerprint
    assert replace(own, recipe="hass").fingerprint == own.fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"version": 2},
        {"recipe": 3},
        {"target": []},
        {"features": {"layers": ["a"], "final": "none"}},
        {"extra": 1},
    ],
)
def test_a_hostile_manifest_is_refused(llama, change):
    record = {**json.loads(manifest(llama).to_json()), **change}
    with pytest.raises(LawfitError):
        Manifest.from_json(json.dumps(record))
