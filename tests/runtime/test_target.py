import pytest
import torch

from policy.build import best_first
from runtime.drafters.random import RandomDrafter
from runtime.errors import TargetError
from runtime.pack import pack
from runtime.packed import PackedLinear, pack_weights
from runtime.target import Target
from tests.runtime.conftest import VOCABULARY, tiny_llama


@pytest.mark.parametrize("name", ["llama", "gemma"])
def test_tree_rows_equal_the_rows_of_separate_paths(name, request):
    target = request.getfixturevalue(name)
    prompt = list(range(14))
    for seed in range(10):
        candidates = RandomDrafter(VOCABULARY, seed).propose([*prompt, 5], len(prompt), 8)
        tree = best_first(candidates, 5, 24)
        cache = target.new_cache(64)
        target.prefill(prompt, cache)
        rows = target.verify(pack(tree, cache.committed, target.device), cache)
        for row in range(tree.rows):
            path = [*prompt, *tree.tokens[tree.path(row)].tolist()]
            with torch.inference_mode():
                alone = target.model(torch.tensor([path])).logits[0, -1]
            torch.testing.assert_close(rows[row], alone, rtol=1e-4, atol=1e-4)


def test_packed_weights_change_nothing_but_rounding():
    model = tiny_llama(3).eval().requires_grad_(False)
    tokens = torch.arange(20)[None]
    with torch.inference_mode():
        plain = model(tokens).logits
        if not pack_weights(model):
            pytest.skip("this torch has no oneDNN linear layout")
        packed = model(tokens).logits
    assert any(isinstance(module, PackedLinear) for module in model.modules())
    torch.testing.assert_close(plain, packed, rtol=1e-4, atol=1e-4)


def test_packing_leaves_bf16_and_the_parameters_alone():
    model = tiny_llama(3).eval().requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    pack_weights(model)
    assert model.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not pack_weights(tiny_llama(3).to(torch.bfloat16))


def test_the_target_is_frozen(llama):
    assert not any(parameter.requires_grad for parameter in llama.model.parameters())
    assert not llama.model.training


def test_a_folder_loads_in_both_types(folder):
    for dtype in ("fp32", "bf16"):
        target = Target.load(folder, dtype)
        assert target.dtype == dtype
        assert target.encode("w3 w1") == [3, 1]
        assert target.decode([3, 1]) == "w3 w1"


def test_folders_without_a_target_are_refused_in_one_line(folder, tmp_path):
    cases = {tmp_path / "absent": "no such folder"}
    empty = tmp_path / "empty"
    empty.mkdir()
    cases[empty] = "no config.json"
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_bytes((folder / "config.json").read_bytes())
    cases[bare] = "no \\*.safetensors weights"
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in folder.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    (broken / "model.safetensors").write_bytes(b"junk" * 100)
    cases[broken] = "not a loadable target"
    nonsense = tmp_path / "nonsense"
    nonsense.mkdir()
    (nonsense / "config.json").write_text("{}")
    (nonsense / "model.safetensors").write_bytes(b"x")
    cases[nonsense] = "config.json is not usable"
    for path, message in cases.items():
        with pytest.raises(TargetError, match=message) as caught:
            Target.load(path)
        assert "\n" not in str(caught.value)
    with pytest.raises(TargetError, match="dtype 'fp8'"):
        Target.load(folder, "fp8")


def test_weights_that_do_not_fill_the_model_are_refused(folder, tmp_path):
    """transformers would fill them with random numbers, and the output would be noise."""
    from safetensors.torch import load_file, save_file

    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    del weights[next(name for name in weights if "q_proj" in name)]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(TargetError, match="q_proj"):
        Target.load(tmp_path)
