"""Files that anybody may have written: a clear error names the file and the field, and nothing large is allocated."""

import json
import pickle
import struct
from contextlib import suppress

import pytest
import torch
from safetensors.torch import save_file

from lawfit.errors import LawfitError
from runtime.checkpoints.dflash import read_dflash
from runtime.checkpoints.safeailab import read_eagle
from runtime.checkpoints.speculators import read_speculators
from runtime.checkpoints.weights import open_weights
from runtime.errors import ManifestMismatch
from tests.runtime.checkpoints import published

READERS = (read_eagle, read_dflash, read_speculators)


@pytest.fixture
def folder(tmp_path):
    return published.write(tmp_path / "head", *published.eagle1())


@pytest.mark.parametrize("read", READERS)
def test_a_pickle_is_refused_by_name(tmp_path, target, read):
    (tmp_path / "config.json").write_text("{}")
    torch.save({"fc.weight": torch.zeros(2)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(
        ManifestMismatch, match=r"pytorch_model.bin: may be a pickle, .* convert it to model.safetensors"
    ):
        read(tmp_path, target)


@pytest.mark.parametrize("kind", ["zip", "plain"])
def test_a_pickle_under_the_name_of_safetensors_is_refused(folder, target, kind):
    path = folder / "model.safetensors"
    if kind == "zip":
        torch.save({"fc.weight": torch.zeros(2)}, path)
    else:
        path.write_bytes(pickle.dumps({"fc.weight": list(range(1000))}))
    with pytest.raises(ManifestMismatch, match="model.safetensors: may be a pickle"):
        read_eagle(folder, target)


def test_a_pickle_beside_safetensors_is_not_opened(folder, target):
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x02never read")
    assert read_eagle(folder, target).recipe == "eagle1"


def test_every_truncation_is_an_error(folder, target):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for size in (0, 1, 7, 8, 60, 500, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ManifestMismatch, match="model.safetensors: not a whole safetensors file"):
            read_eagle(folder, target)


@pytest.mark.parametrize(
    "header",
    [
        {"fc.weight": {"dtype": "F32", "shape": [1 << 40, 1 << 40], "data_offsets": [0, 16]}},
        {"fc.weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 1 << 50]}},
        {"fc.weight": {"dtype": "F32", "shape": [-2, 2], "data_offsets": [0, 16]}},
        {"fc.weight": {"dtype": "PICKLE", "shape": [2, 2], "data_offsets": [0, 16]}},
        [1, 2],
    ],
)
def test_a_header_that_lies_is_an_error(folder, target, header):
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(16))
    with pytest.raises(ManifestMismatch, match="model.safetensors: not a whole safetensors file"):
        read_eagle(folder, target)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "[" * 100_000, '{"vocab_size": NaN}', "\x00", '{"a": ' + "9" * 5000 + "}"]
)
@pytest.mark.parametrize("read", READERS)
def test_a_configuration_that_is_no_json_object_is_an_error(folder, target, read, text):
    (folder / "config.json").write_text(text)
    with pytest.raises(ManifestMismatch, match="config.json"):
        read(folder, target)


def test_other_files_in_place_of_the_configuration_are_errors(folder, target):
    path = folder / "config.json"
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(ManifestMismatch, match="config.json: cannot be read"):
        read_eagle(folder, target)
    path.write_text(" " * 5_000_000)
    with pytest.raises(ManifestMismatch, match="5000000 bytes, expected at most"):
        read_eagle(folder, target)
    path.unlink()
    with pytest.raises(ManifestMismatch, match=r"no config.json, expected a published draft head"):
        read_eagle(folder, target)


HOSTILE = (0, -1, 1 << 21, 10**30, 1.5, True, "32", None, [], {}, 1e300)


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_no_field_crashes_a_reader(tmp_path, target, value):
    """Whatever a field holds, a reader gives an error of ours, or reads a head where the value changes nothing."""
    cases = [(read_eagle, published.eagle1()), (read_eagle, published.eagle3()), (read_dflash, published.dflash())]
    layer = published.eagle1()[0]
    spec = (published.speculators("eagle3", layer, draft_vocab_size=20), published.eagle3(prefix="layers.0")[1])
    cases.append((read_speculators, spec))
    for number, (read, (config, tensors)) in enumerate(cases):
        folder = published.write(tmp_path / str(number), config, tensors)
        for name in [*config, "rope_scaling", "head_dim", "target_hidden_size", "eagle_aux_hidden_state_layer_ids"]:
            (folder / "config.json").write_text(json.dumps(config | {name: value}))
            with suppress(LawfitError):
                read(folder, target)
        for name in layer:
            if read is read_speculators:
                changed = config | {"transformer_layer_config": layer | {name: value}}
                (folder / "config.json").write_text(json.dumps(changed))
                with suppress(LawfitError):
                    read(folder, target)


def test_sizes_that_no_file_backs_are_an_error_before_any_tensor_is_made(folder, target):
    config = published.eagle1()[0] | {"intermediate_size": 1 << 20, "num_attention_heads": 16}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        ManifestMismatch, match=r"layers.0.mlp.down_proj.weight is \(32, 40\), expected \(32, 1048576\)"
    ):
        read_eagle(folder, target)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("fc.bias"), r"fc.bias is absent, expected \(32,\)"),
        (lambda t: t.update(extra=torch.zeros(3)), r"extra is \(3,\), expected no such tensor"),
        (lambda t: t.update({"fc.weight": torch.zeros(32, 63)}), r"fc.weight is \(32, 63\), expected \(32, 64\)"),
        (lambda t: t.update({"fc.weight": torch.zeros(32, 64).char()}), "fc.weight is stored as I8, expected F32"),
        (lambda t: t.update({"fc.weight": torch.zeros(32, 64) / 0}), "fc.weight holds values that are not finite"),
    ],
)  # fmt: skip
def test_a_tensor_that_does_not_fit_is_named(tmp_path, target, change, message):
    config, tensors = published.eagle1()
    change(tensors)
    with pytest.raises(ManifestMismatch, match=message):
        read_eagle(published.write(tmp_path, config, tensors), target)


def test_buffers_of_old_modelling_code_are_left_aside(tmp_path, target):
    config, tensors = published.eagle1()
    tensors["layers.0.self_attn.rotary_emb.inv_freq"] = torch.zeros(4)
    assert read_eagle(published.write(tmp_path, config, tensors), target).recipe == "eagle1"


@pytest.mark.parametrize(
    ("maps", "message"),
    [
        ({"d2t": torch.full((20,), -1)}, "d2t gives ids that are not different ones below 48"),
        ({"d2t": torch.full((20,), 29)}, "d2t gives ids that are not different ones below 48"),
        ({"d2t": torch.arange(20, 0, -1)}, "d2t gives ids that are not different ones below 48"),
        ({"t2d": torch.ones(48, dtype=torch.bool)}, "t2d marks other ids than d2t gives"),
        ({"d2t": torch.zeros(20)}, "d2t is stored as F32, expected I64 or I32"),
    ],
)
def test_vocabulary_maps_that_are_none_are_errors(tmp_path, target, maps, message):
    config, tensors = published.eagle3()
    with pytest.raises(ManifestMismatch, match=message):
        read_eagle(published.write(tmp_path, config, tensors | maps), target)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"vocab_size": 32000}, "vocab_size is 32000, the target has 48"),
        ({"hidden_size": 4096}, "hidden_size is 4096, the target has 32"),
        ({"num_hidden_layers": 2}, "num_hidden_layers is 2, expected 1"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "type is 'dynamic', expected default, linear or llama3"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu', expected 'silu'"),
    ],
)
def test_a_field_that_is_not_the_targets_is_named(tmp_path, target, fields, message):
    config, tensors = published.eagle1()
    with pytest.raises(ManifestMismatch, match=message):
        read_eagle(published.write(tmp_path, config | fields, tensors), target)


def shard(folder):
    config, tensors = published.eagle1()
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    names = sorted(tensors)
    parts = {"a.safetensors": names[:3], "b.safetensors": names[3:]}
    for file, held in parts.items():
        save_file({name: tensors[name] for name in held}, folder / file)
    return {name: file for file, held in parts.items() for name in held}


def test_a_sharded_folder_is_read_through_its_index(tmp_path, target):
    index = shard(tmp_path / "head")
    path = tmp_path / "head" / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": index}))
    assert read_eagle(tmp_path / "head", target).recipe == "eagle1"
    for odd in ("../head/a.safetensors", "/etc/passwd", "c.safetensors", "a.bin", 3):
        path.write_text(json.dumps({"weight_map": index | {"fc.weight": odd}}))
        with pytest.raises(ManifestMismatch, match=r"index.json: .* (is absent or no safetensors|names no files)"):
            read_eagle(tmp_path / "head", target)
    path.write_text(json.dumps({"weight_map": {}}))
    with pytest.raises(ManifestMismatch, match="names no files"):
        open_weights(tmp_path / "head")
