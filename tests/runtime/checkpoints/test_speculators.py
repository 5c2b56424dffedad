"""The layout of `speculators`: reading, writing, and both in a round."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from runtime.checkpoints.dflash import read_dflash
from runtime.checkpoints.safeailab import read_eagle
from runtime.checkpoints.speculators import read_speculators
from runtime.checkpoints.speculators_writer import write_speculators
from runtime.errors import ManifestMismatch, TrainingError
from runtime.heads.block import BlockConfig, DiffusionBlock, FeatureBlock
from runtime.heads.eagle3 import Eagle3Config, Eagle3Head
from runtime.heads.layers import Shape
from runtime.states import FeatureAddress
from tests.runtime.checkpoints import oracle, published
from tests.runtime.checkpoints.test_dflash import drafted as block_drafted
from tests.runtime.checkpoints.test_safeailab import drafted, unrolled

# As to_diff_dict leaves it: what is the class's default is not there.
LLAMA = {
    "head_dim": 8, "hidden_size": 32, "intermediate_size": 40, "model_type": "llama", "num_attention_heads": 4,
    "num_hidden_layers": 1, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "vocab_size": 48,
    "rope_scaling": {
        "factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 32,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
}  # fmt: skip


def spec_eagle3(**fields):
    _, tensors = published.eagle3(prefix="layers.0", taps=len(fields.get("eagle_aux_hidden_state_layer_ids") or "123"))
    tensors["embed_tokens.weight"] = published.drawing(9)(published.V, published.D)
    return published.speculators("eagle3", LLAMA, draft_vocab_size=len(published.WORDS), **fields), tensors


def test_an_eagle1_head_drafts_as_the_published_equations(tmp_path, target, watched):
    _, tensors = published.eagle1()
    tensors = {
        name.replace("fc.", "fusion_fc.").replace("layers.0.", "transformer."): value for name, value in tensors.items()
    }
    config = published.speculators("eagle", LLAMA, layernorms=False, fusion_bias=True)
    config["transformer_layer_architecture"] = "LlamaDecoderLayer"
    checkpoint = read_speculators(published.write(tmp_path, config, tensors), target)
    state, chain = drafted(checkpoint, target, checkpoint.reads.take(watched.hidden_states)[0])
    expected = unrolled(
        lambda f, e: oracle.eagle1(tensors, LLAMA, f, e, "transformer", "fusion_fc"),
        lambda s: watched.head @ s,
        watched.final,
        watched.embedding,
        torch.arange(published.V),
    )
    torch.testing.assert_close(state, expected[0], atol=2e-5, rtol=1e-4)
    assert chain == expected[1]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"norm_before_residual": True},
        {"norm_output": True},
        {"norm_before_fc": True, "eagle_aux_hidden_state_layer_ids": [1, 6]},
        {"fc_norm": True, "norm_before_residual": True, "norm_output": True},
    ],
)
def test_an_eagle3_head_drafts_as_the_published_equations(tmp_path, target, watched, fields):
    config, tensors = spec_eagle3(**fields)
    ids = fields.get("eagle_aux_hidden_state_layer_ids") or [2, 4, 5]
    taps = [watched.entered[k] for k in ids]
    if fields.get("norm_before_fc"):
        tensors["input_norm.weight"] = 1 + published.drawing(4)(len(ids) * 32)
        joined = oracle.rms(torch.cat(taps, -1), tensors["input_norm.weight"], 1e-5)
    elif fields.get("fc_norm"):
        gains = [published.drawing(k)(32) for k in range(3)]
        tensors |= {f"fc_norm.{k}.weight": gain for k, gain in enumerate(gains)}
        joined = torch.cat([oracle.rms(tap, gain, 1e-5) for tap, gain in zip(taps, gains, strict=True)], -1)
    else:
        joined = torch.cat(taps, -1)
    checkpoint = read_speculators(published.write(tmp_path, config, tensors), target)
    state, chain = drafted(checkpoint, target, checkpoint.reads.take(watched.hidden_states)[0])
    before, after = fields.get("norm_before_residual", False), fields.get("norm_output", False)
    expected = unrolled(
        lambda c, e: oracle.eagle3(tensors, LLAMA, c, e, "layers.0", before, after),
        lambda s: tensors["lm_head.weight"] @ (s if after else oracle.rms(s, tensors["norm.weight"], 1e-5)),
        joined @ tensors["fc.weight"].T,
        tensors["embed_tokens.weight"],
        torch.tensor(published.WORDS),
    )
    torch.testing.assert_close(state, expected[0], atol=2e-5, rtol=1e-4)
    assert chain == expected[1]


def test_a_dflash_head_has_taps_words_and_a_mask_of_its_own(tmp_path, target, watched):
    layer, tensors = published.dflash()
    tensors |= published.word_maps(published.WORDS)
    tensors["embed_tokens.weight"] = published.drawing(8)(published.V, 32)
    tensors["lm_head.weight"] = published.drawing(7)(len(published.WORDS), 32)
    config = published.speculators(
        "dflash", layer, draft_vocab_size=len(published.WORDS), block_size=5, mask_token_id=2,
        aux_hidden_state_layer_ids=[2, 4, 6],
    )  # fmt: skip
    checkpoint = read_speculators(published.write(tmp_path, config, tensors), target)
    tokens, log_probs = block_drafted(checkpoint, target, watched)
    # The same ids mean what enters a layer here, and what leaves one in z-lab's layout.
    taps = torch.cat([watched.entered[k] for k in (2, 4, 6)], -1)
    rows = tensors["embed_tokens.weight"][torch.tensor([27, 2, 2, 2, 2])]
    expected = oracle.dflash(tensors, layer, taps, rows)[1:] @ tensors["lm_head.weight"].T
    top = expected.log_softmax(-1).topk(tokens.shape[1], dim=-1)
    assert tokens[:, :3].tolist() == torch.tensor(published.WORDS)[top.indices[:, :3]].tolist()
    torch.testing.assert_close(log_probs.float(), top.values, atol=2e-4, rtol=1e-4)


def same_head(one, other):
    first, second = one.state_dict(), other.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def sources(tmp_path, target):
    yield read_eagle(published.write(tmp_path / "e1", *published.eagle1()), target)
    yield read_eagle(published.write(tmp_path / "e1b", *published.eagle1(bias=False)), target)
    yield read_eagle(published.write(tmp_path / "e3", *published.eagle3()), target)
    wide = published.eagle3(width=24, source=32)
    wide[1]["embed_tokens.weight"] = published.drawing(9)(48, 24)
    yield read_eagle(published.write(tmp_path / "e3w", *wide), target)
    yield read_speculators(published.write(tmp_path / "s3", *spec_eagle3(norm_before_residual=True)), target)
    yield read_dflash(published.write(tmp_path / "d", *published.dflash()), target)
    sliding = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4, "use_sliding_window": True}
    yield read_dflash(published.write(tmp_path / "ds", *published.dflash(is_causal=False, **sliding)), target)


def test_what_was_read_is_written_and_read_again_the_same(tmp_path, target, watched):
    for number, first in enumerate(sources(tmp_path, target)):
        folder = tmp_path / f"out{number}"
        write_speculators(folder, first, target)
        second = read_speculators(folder, target)
        assert same_head(first.head, second.head)
        assert first.head.config == second.head.config
        assert (first.recipe, first.reads) == (second.recipe, second.reads)
        assert torch.equal(first.draft_tokens, second.draft_tokens)
        assert (first.embedding is None) == (second.embedding is None)
        assert second.output is None
        states = first.reads.take(watched.hidden_states)[0]
        if isinstance(first.head, DiffusionBlock):
            one, two = (block_drafted(checkpoint, target, watched) for checkpoint in (first, second))
            assert one[0].tolist() == two[0].tolist()
            torch.testing.assert_close(one[1], two[1], atol=1e-5, rtol=1e-5)
        else:
            one, two = (drafted(checkpoint, target, states) for checkpoint in (first, second))
            # Equal weights; the last bit may follow where the memory lies.
            torch.testing.assert_close(one[0], two[0], atol=1e-5, rtol=1e-5)
            assert one[1] == two[1]


def randomised(head, seed=0):
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    return head.eval()


def test_a_head_that_we_trained_drafts_the_same_after_a_round(tmp_path, target, watched):
    """Tap norms without a gain, the target's output rows, scales of taps and a learned mask all find a place."""
    words = torch.tensor(published.WORDS)
    shape = Shape(32, 4, 2, 40)
    eagle3 = read_eagle(published.write(tmp_path / "e3", *published.eagle3()), target)
    eagle3 = replace(eagle3, head=randomised(Eagle3Head(Eagle3Config(shape, tap_norm=True))), draft_tokens=words)
    write_speculators(tmp_path / "a", eagle3, target)
    again = read_speculators(tmp_path / "a", target)
    states = eagle3.reads.take(watched.hidden_states)[0]
    first, second = drafted(eagle3, target, states), drafted(again, target, states)
    assert first[1] == second[1]
    torch.testing.assert_close(first[0], second[0], atol=1e-5, rtol=1e-5)

    block = randomised(DiffusionBlock(BlockConfig(replace(shape, query_norm=True), block=4, taps=3)))
    glance = replace(eagle3, recipe="glance", head=block, reads=FeatureAddress((2, 4, 6), "none"))
    with pytest.raises(TrainingError, match="a mask that is no token's embedding: name a token"):
        write_speculators(tmp_path / "b", glance, target)
    write_speculators(tmp_path / "b", glance, target, mask_token=45)
    again = read_speculators(tmp_path / "b", target)
    one, two = (block_drafted(checkpoint, target, watched) for checkpoint in (glance, again))
    assert one[0][:, :2].tolist() == two[0][:, :2].tolist()
    torch.testing.assert_close(one[1], two[1], atol=1e-4, rtol=1e-4)


def test_the_written_file_has_the_layouts_names(tmp_path, target):
    head = read_eagle(published.write(tmp_path / "e3", *published.eagle3()), target)
    write_speculators(tmp_path / "out", head, target, verifier="some/target", tokens=7)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["eagle_aux_hidden_state_layer_ids"] == [2, 4, 5]
    assert config["speculators_config"]["verifier"] == {
        "architectures": ["LlamaForCausalLM"],
        "name_or_path": "some/target",
    }
    assert config["speculators_config"]["proposal_methods"][0]["speculative_tokens"] == 7
    names = set(load_file(tmp_path / "out" / "model.safetensors"))
    layer = {name.replace("midlayer", "layers.0") for name in published.eagle3()[1]}
    assert names == layer | {"embed_tokens.weight"}


def test_what_the_layout_cannot_express_is_an_error(tmp_path, target):
    shape = Shape(32, 4, 2, 40)
    eagle1 = read_eagle(published.write(tmp_path / "e1", *published.eagle1()), target)
    qkv_only = read_eagle(published.write(tmp_path / "e1q", *published.eagle1(qkv_bias=True)), target)
    config = BlockConfig(shape, block=4, taps=2)
    cases = [
        (replace(eagle1, head=FeatureBlock(config)), "has no FeatureBlock"),
        (replace(eagle1, head=DiffusionBlock(config)), "no query_norm"),
        (replace(eagle1, head=Eagle3Head(Eagle3Config(shape, form="paper"))), "the form of the paper"),
        (replace(eagle1, draft_tokens=torch.arange(20)), "20 draft words, which EAGLE-1 has no place for"),
        (replace(eagle1, embedding=torch.zeros(48, 32)), "an embedding or output of its own"),
        (replace(eagle1, head=Eagle3Head(Eagle3Config(replace(shape, eps=1e-6), tap_norm=True))), "tap_norm"),
        (qkv_only, "query_bias without output_bias"),
    ]
    for checkpoint, message in cases:
        with pytest.raises(TrainingError, match=message):
            write_speculators(tmp_path / "out", checkpoint, target)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"speculators_model_type": "mtp"}, "speculators_model_type is 'mtp', expected eagle, eagle3 or dflash"),
        ({"transformer_layer_config": LLAMA | {"vocab_size": 49}}, "transformer_layer_config: vocab_size is 49"),
        ({"transformer_layer_config": LLAMA | {"model_type": "gpt2"}}, "model_type is 'gpt2', expected llama or qwen3"),
        ({"transformer_layer_config": LLAMA | {"num_hidden_layers": 2}}, "num_hidden_layers is 2, expected 1"),
        ({"transformer_layer_config": LLAMA | {"layer_types": ["sliding_attention"]}}, "layer_types"),
        ({"transformer_layer_config": 3}, "transformer_layer_config is 3, expected an object"),
        ({"transformer_layer_config": LLAMA | {"hidden_act": "gelu"}}, "hidden_act is 'gelu', expected 'silu'"),
        ({"transformer_layer_config": LLAMA | {"mlp_bias": True}}, "mlp_bias is True, expected False"),
        ({"target_hidden_size": 64}, "hidden_size is 64, the target has 32"),
        ({"draft_vocab_size": 49}, "draft_vocab_size is 49, expected a whole number from 1 to 48"),
        ({"draft_vocab_size": 19}, r"d2t is \(20,\), expected \(19,\)"),
        ({"eagle_aux_hidden_state_layer_ids": [2, 4, 8]}, "expected layers from 0 to 7"),
        ({"eagle_aux_hidden_state_layer_ids": [2, 4]}, r"fc.weight is \(32, 96\), expected \(32, 64\)"),
        ({"fc_norm": True, "norm_before_fc": True}, "fc_norm is True, expected false where norm_before_fc is true"),
        ({"norm_output": "yes"}, "norm_output is 'yes', expected true or false"),
    ],
)
def test_a_field_that_does_not_fit_is_named(tmp_path, target, fields, message):
    config, tensors = spec_eagle3()
    with pytest.raises(ManifestMismatch, match=message):
        read_speculators(published.write(tmp_path, config | fields, tensors), target)


def test_layernorms_whose_use_is_not_published_are_refused(tmp_path, target):
    config = published.speculators("eagle", LLAMA, layernorms=True, fusion_bias=False)
    with pytest.raises(ManifestMismatch, match="layernorms is True, expected False, which state"):
        read_speculators(published.write(tmp_path, config, {"fusion_fc.weight": torch.zeros(32, 64)}), target)
