"""z-lab's layout: what is read computes what their code computes."""

import pytest
import torch

from runtime.checkpoints.dflash import read_dflash
from runtime.errors import ManifestMismatch
from tests.runtime.checkpoints import oracle, published
from tests.runtime.checkpoints.conftest import PROMPT

ROOT = 27


def drafted(checkpoint, target, watched, depth=4):
    """Log probabilities of the words that a session's one pass gives, (L, K), and the words."""
    session = checkpoint.drafter(target).start()
    session.observe(checkpoint.reads.take(watched.hidden_states)[0], [*PROMPT[1:], ROOT])
    marginals = session.marginals(ROOT, depth)
    return marginals.tokens, torch.from_numpy(marginals.log_probs)


def expected_rows(tensors, config, watched, mask=45, visible=None):
    """The published pass: what leaves the layers of target_layer_ids, and a block of the root and masks."""
    ids, block = config["dflash_config"]["target_layer_ids"], config["block_size"]
    taps = torch.cat([watched.left[k] for k in ids], -1)
    rows = watched.embedding[torch.tensor([ROOT] + [mask] * (block - 1))]
    return oracle.dflash(tensors, config, taps, rows, visible)[1:]


def require_same(checkpoint, target, watched, rows):
    tokens, log_probs = drafted(checkpoint, target, watched)
    expected = (rows @ watched.head.T).log_softmax(-1).topk(tokens.shape[1], dim=-1)
    assert tokens[:, :3].tolist() == expected.indices[:, :3].tolist()
    torch.testing.assert_close(log_probs.float(), expected.values, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"rope_scaling": None, "rope_theta": 10000.0, "rms_norm_eps": 1e-4},
        {
            "rope_scaling": {
                "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 24,
            },
            "rope_theta": 100.0,
        },
    ],
)  # fmt: skip
def test_a_block_drafts_as_the_published_equations(tmp_path, target, watched, fields):
    config, tensors = published.dflash(**fields)
    checkpoint = read_dflash(published.write(tmp_path, config, tensors), target)
    assert (checkpoint.reads.layers, checkpoint.reads.final) == ((2, 4, 6), "none")
    assert checkpoint.head.config.block == 4  # the root is the fifth
    require_same(checkpoint, target, watched, expected_rows(tensors, config, watched))


def test_the_fields_of_transformers_5_say_the_same(tmp_path, target, watched):
    config, tensors = published.dflash()
    rows = expected_rows(tensors, config, watched)
    for name in ("rope_theta", "rope_scaling"):
        del config[name]
    config["rope_parameters"] = {"rope_theta": 1000000.0, "rope_type": "default"}
    config["dflash_config"]["block_size"] = config.pop("block_size")
    require_same(read_dflash(published.write(tmp_path, config, tensors), target), target, watched, rows)


@pytest.mark.parametrize("causal", [None, False])
def test_sliding_layers_see_a_window_and_are_causal_unless_told(tmp_path, target, watched, causal):
    sliding = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4, "use_sliding_window": True}
    config, tensors = published.dflash(**sliding)
    config |= {} if causal is None else {"is_causal": causal}
    checkpoint = read_dflash(published.write(tmp_path, config, tensors), target)
    # Query row j stands at len(PROMPT) + j; keys at 0, 1, ...
    count = len(PROMPT)
    visible = torch.zeros(2, 5, count + 5, dtype=torch.bool)
    visible[1] = True
    for j in range(5):
        for key in range(count + 5):
            away = count + j - key
            visible[0, j, key] = away < 4 and (away >= 0 if causal is None else away > -4)
    require_same(checkpoint, target, watched, expected_rows(tensors, config, watched, visible=visible))
    assert not torch.allclose(
        expected_rows(tensors, config, watched, visible=visible), expected_rows(tensors, config, watched), atol=1e-3
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_target_layers": 36}, "num_target_layers is 36, the target has 8"),
        ({"hidden_size": 64}, "hidden_size is 64, the target has 32"),
        ({"vocab_size": 151936}, "vocab_size is 151936, the target has 48"),
        ({"block_size": 1}, "block_size is 1, expected a whole number from 2"),
        ({"dflash_config": {"target_layer_ids": [1]}}, r"fc.weight is \(32, 96\), expected \(32, 32\)"),
        ({"dflash_config": {"mask_token_id": 48, "target_layer_ids": [1, 3, 5]}}, "mask_token_id is 48"),
        ({"dflash_config": {"mask_token_id": 4, "target_layer_ids": [1, 3, 7]}}, "target_layer_ids .* from 0 to 6"),
        ({"dflash_config": {"mask_token_id": 4}}, "target_layer_ids is absent"),
        ({"selector_rank": 256}, "DFlash 2"),
        ({"output_multiplier": 0.2}, "output_multiplier is 0.2, expected 1"),
        ({"final_logit_softcapping": 20.0}, "final_logit_softcapping is 20.0, expected none"),
        ({"layer_types": ["sliding_attention", "full_attention"]}, "use_sliding_window is False, expected true"),
        ({"layer_types": ["full_attention"]}, "expected 2 of full_attention and sliding_attention"),
        ({"is_causal": True}, "is_causal is True, expected false where a layer sees everything"),
        ({"num_hidden_layers": 3, "layer_types": None}, r"layers.2.input_layernorm.weight is absent, expected \(32,\)"),
        ({"num_hidden_layers": 1, "layer_types": None}, "layers.1.*, expected no such tensor"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_type is 'yarn', expected default, linear or"),
        ({"head_dim": 15}, "head_dim is 15, expected an even width"),
        ({"num_key_value_heads": 3}, "num_key_value_heads is 3, expected a divisor of the 4"),
        ({"attention_bias": True}, "self_attn.k_proj.bias is absent"),
    ],
)  # fmt: skip
def test_a_field_that_does_not_fit_is_named(tmp_path, target, fields, message):
    config, tensors = published.dflash()
    with pytest.raises(ManifestMismatch, match=message):
        read_dflash(published.write(tmp_path, config | fields, tensors), target)
