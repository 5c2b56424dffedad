"""Tiny folders with the key names, shapes and fields of published checkpoints."""

import json

import torch
from safetensors.torch import save_file

D, V, INNER, HEADS, KV = 32, 48, 40, 4, 2


def write(folder, config, tensors):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file({name: value.contiguous() for name, value in tensors.items()}, folder / "model.safetensors")
    return folder


def layer(draw, prefix, norms, width=D, source=D, head_dim=D // HEADS, query_norm=False, bias=()):
    shapes = {
        "self_attn.q_proj.weight": (HEADS * head_dim, source),
        "self_attn.k_proj.weight": (KV * head_dim, source),
        "self_attn.v_proj.weight": (KV * head_dim, source),
        "self_attn.o_proj.weight": (width, HEADS * head_dim),
        "mlp.gate_proj.weight": (INNER, width),
        "mlp.up_proj.weight": (INNER, width),
        "mlp.down_proj.weight": (width, INNER),
    }
    tensors = {f"{prefix}.{name}": draw(*shape) for name, shape in shapes.items()}
    for kind in bias:
        tensors[f"{prefix}.self_attn.{kind}_proj.bias"] = draw(shapes[f"self_attn.{kind}_proj.weight"][0])
    for name in norms:
        tensors[f"{prefix}.{name}.weight"] = 1 + 0.2 * draw(width)
    if query_norm:
        for kind in ("q", "k"):
            tensors[f"{prefix}.self_attn.{kind}_norm.weight"] = 1 + 0.2 * draw(head_dim)
    return tensors


def drawing(seed=0, scale=0.3):
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(*shape, generator=generator) * scale


def eagle1(bias=True, qkv_bias=False, **fields):
    """eagle/train/*_config.json, and the state dict of eagle/model/cnets1.py."""
    draw = drawing()
    config = {
        "architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
        "hidden_size": D, "initializer_range": 0.02, "intermediate_size": INNER, "max_position_embeddings": 2048,
        "model_type": "llama", "num_attention_heads": HEADS, "num_key_value_heads": KV, "num_hidden_layers": 1,
        "pad_token_id": 0, "rms_norm_eps": 1e-05, "tie_word_embeddings": False, "torch_dtype": "float16",
        "use_cache": True, "vocab_size": V,
    }  # fmt: skip
    config |= {} if bias else {"bias": False}
    config |= {"qkv_bias": True} if qkv_bias else {}
    tensors = {"fc.weight": draw(D, 2 * D)} | ({"fc.bias": draw(D)} if bias else {})
    tensors |= layer(draw, "layers.0", ("post_attention_layernorm",), bias="qkv" if qkv_bias else "")
    return config | fields, tensors


def word_maps(words, size=V):
    words = torch.tensor(words)
    marks = torch.zeros(size, dtype=torch.bool)
    marks[words] = True
    return {"d2t": words - torch.arange(len(words)), "t2d": marks}


WORDS = [0, 3, 4, 7, 9, 10, 15, 16, 17, 20, 21, 25, 30, 31, 33, 36, 40, 41, 44, 47]


def eagle3(words=WORDS, width=D, source=None, prefix="midlayer", taps=3, **fields):
    """eagle/traineagle3/config.json, and the state dict of eagle/model/cnets.py."""
    draw = drawing(1)
    config, _ = eagle1()
    config |= {"draft_vocab_size": len(words), "hidden_size": width} | fields
    config |= {"target_hidden_size": source} if source else {}
    tensors = {"fc.weight": draw(width, taps * (source or width)), "norm.weight": 1 + 0.2 * draw(width)}
    tensors |= {"lm_head.weight": draw(len(words), width)} | word_maps(words)
    norms = ("hidden_norm", "input_layernorm", "post_attention_layernorm")
    tensors |= layer(draw, prefix, norms, width, 2 * width, width // HEADS)
    return config, tensors


def dflash(ids=(1, 3, 5), layers=2, block=5, head_dim=16, **fields):
    """The config.json and state dict of a z-lab DFlash head."""
    draw = drawing(2)
    config = {
        "architectures": ["DFlashDraftModel"], "attention_bias": False, "attention_dropout": 0.0,
        "auto_map": {"AutoModel": "dflash.DFlashDraftModel"}, "block_size": block, "bos_token_id": 1,
        "dflash_config": {"mask_token_id": 45, "target_layer_ids": list(ids)}, "dtype": "bfloat16", "eos_token_id": 2,
        "head_dim": head_dim, "hidden_act": "silu", "hidden_size": D, "initializer_range": 0.02,
        "intermediate_size": INNER, "layer_types": ["full_attention"] * layers, "max_position_embeddings": 512,
        "max_window_layers": layers, "model_type": "qwen3", "num_attention_heads": HEADS,
        "num_hidden_layers": layers, "num_key_value_heads": KV, "num_target_layers": 8, "rms_norm_eps": 1e-06,
        "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None, "tie_word_embeddings": False,
        "use_cache": True, "use_sliding_window": False, "vocab_size": V,
    }  # fmt: skip
    tensors = {"fc.weight": draw(D, len(ids) * D)}
    tensors |= {name: 1 + 0.2 * draw(D) for name in ("hidden_norm.weight", "norm.weight")}
    for k in range(layers):
        norms = ("input_layernorm", "post_attention_layernorm")
        tensors |= layer(draw, f"layers.{k}", norms, head_dim=head_dim, query_norm=True)
    return config | fields, tensors


def speculators(kind, layer_config, **fields):
    """The config.json of a `speculators` folder."""
    greedy = {"accept_tolerance": 0.0, "proposal_type": "greedy", "speculative_tokens": 3, "verifier_accept_k": 1}
    return {
        "architectures": ["Speculator"], "has_no_defaults_at_init": False, "speculators_model_type": kind,
        "speculators_config": {
            "algorithm": kind, "default_proposal_method": "greedy", "proposal_methods": [greedy],
            "verifier": {"architectures": ["LlamaForCausalLM"], "name_or_path": "some/target"},
        },
        "speculators_version": "0.2.0", "tie_word_embeddings": False, "transformer_layer_config": layer_config,
    } | fields  # fmt: skip
