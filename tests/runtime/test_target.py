import pytest
import torch

from policy.build import best_first
from runtime import selfcheck
from runtime.drafters.random import RandomDrafter
from runtime.errors import TargetError
from runtime.pack import pack
from runtime.packed import PackedLinear, pack_weights
from runtime.states import FeatureAddress
from runtime.target import Target
from tests.runtime.conftest import DENSE, EXPERTS, MIXTURES, TARGETS, VOCABULARY, tiny_llama, tiny_text


@pytest.mark.parametrize("name", [*DENSE, *MIXTURES])
def test_tree_rows_and_states_equal_those_of_separate_paths(name, target_of):
    target = target_of(name)
    reads = FeatureAddress((0, 1), "post-norm")
    prompt = list(range(14))
    for seed in range(4):
        candidates = RandomDrafter(VOCABULARY, seed).propose([*prompt, 5], len(prompt), 8)
        tree = best_first(candidates, 5, 24)
        cache = target.new_cache(64)
        target.prefill(prompt, cache)
        rows = target.verify(pack(tree, cache.committed, target.device), cache, reads)
        for row in range(tree.rows):
            path = [*prompt, *tree.tokens[tree.path(row)].tolist()]
            with torch.inference_mode():
                alone = target.model(torch.tensor([path]), use_cache=False, output_hidden_states=True)
            torch.testing.assert_close(rows.logits[row], alone.logits[0, -1], rtol=1e-4, atol=1e-4)
            states = reads.take(alone.hidden_states)[0, -1]
            torch.testing.assert_close(rows.states[row], states, rtol=1e-4, atol=1e-4)


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


def family(kind, **changes):
    """A tiny random model of another family."""
    import transformers

    torch.manual_seed(0)
    shape = {
        "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
        "initializer_range": 0.4, "bos_token_id": None, "eos_token_id": None, "pad_token_id": 0,
    }  # fmt: skip
    config = getattr(transformers, f"{kind}Config")(**{**shape, **changes})
    return getattr(transformers, f"{kind}ForCausalLM")(config)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("Mistral", {"sliding_window": 8}),
        ("Phi3", {"sliding_window": 8}),
        ("Gemma2", {"sliding_window": 8, "head_dim": 8}),
        ("Qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}),
        ("Qwen3", {"head_dim": 8}),
    ],
)
def test_other_families_are_exact_with_windows_and_eager_attention(kind, changes):
    from runtime.audit import RandomBudget, plain_output
    from runtime.engine import Engine

    model = family(kind, **changes)
    target = Target.wrap(model, name=kind)
    for seed in range(3):
        prompt = torch.randint(0, VOCABULARY, (14,), generator=torch.Generator().manual_seed(seed)).tolist()
        own = list(prompt)
        with torch.inference_mode():
            for _ in range(24):
                own.append(int(model(torch.tensor([own]), use_cache=False).logits[0, -1].argmax()))
        assert plain_output(target, prompt, 24) == own[14:]
        engine = Engine(target, RandomDrafter(VOCABULARY, seed, oracle=tuple(own)), RandomBudget(16, seed))
        assert engine.generate(prompt, 24) == own[14:]


def test_families_that_cannot_verify_trees_are_refused():
    import transformers

    torch.manual_seed(0)
    mpt = transformers.MptForCausalLM(
        transformers.MptConfig(vocab_size=VOCABULARY, d_model=32, n_layers=2, n_heads=4, max_seq_len=128)
    )
    with pytest.raises(TargetError, match="does not honour tree masks"):
        Target.wrap(mpt, name="mpt")
    bloom = transformers.BloomForCausalLM(
        transformers.BloomConfig(vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4)
    )
    with pytest.raises(TargetError, match="cannot verify draft trees"):
        Target.wrap(bloom, name="bloom")
    layers = [[["global", "local"], 1]]
    config = transformers.GPTNeoConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_layers=2, num_heads=4, attention_types=layers, window_size=8
    )
    neo = transformers.GPTNeoForCausalLM(config)
    with pytest.raises(TargetError, match="local attention"):
        Target.wrap(neo, name="neo")


def test_layers_whose_state_cannot_be_rolled_back_are_refused():
    linear = {
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
    }
    with pytest.raises(TargetError, match="linear_attention.* keep a state that cannot be rolled back"):
        Target.wrap(tiny_text("Qwen3Next", head_dim=8, shared_expert_intermediate_size=16, **EXPERTS, **linear))


def test_damaged_weights_are_refused():
    model = tiny_llama()
    with torch.no_grad():
        model.model.norm.weight.fill_(float("nan"))
    with pytest.raises(TargetError, match="not finite"):
        Target.wrap(model)


def test_a_failing_chat_template_is_one_clear_line(folder):
    target = Target.load(folder)
    target.tokenizer.chat_template = "{{ raise_exception('no') }}"
    with pytest.raises(TargetError, match="chat template fails"):
        target.encode("w1")


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("form", ["bf16", "eager"])
def test_every_family_passes_the_self_check_in_other_forms(name, form):
    model = TARGETS[name]()
    if form == "bf16":
        model.to(torch.bfloat16)
    else:
        model.set_attn_implementation("eager")
    assert Target.wrap(model).dtype == ("bf16" if form == "bf16" else "fp32")


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_self_check_sees_rows_that_look_at_their_siblings(name, dtype, monkeypatch):
    from dataclasses import replace

    def careless(tree, context, device):
        packed = pack(tree, context, device)
        return replace(packed, mask=torch.ones_like(packed.mask))

    monkeypatch.setattr(selfcheck, "pack", careless)
    with pytest.raises(TargetError, match="does not honour tree masks"):
        Target.wrap(TARGETS[name]().to(dtype))


def test_half_of_a_pair_of_surrogates_is_no_prompt(folder):
    with pytest.raises(TargetError, match="the prompt's character 3 is half of a pair"):
        Target.load(folder).encode("w1\ud800")
