"""Heads written in the layout of vllm-project/speculators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from lawfit.files import replacing, write_text
from runtime.checkpoints.checkpoint import Checkpoint
from runtime.checkpoints.dflash import block_names
from runtime.checkpoints.safeailab import EMBEDDING, swap_halves
from runtime.checkpoints.settings import CONFIG
from runtime.checkpoints.speculators import OUTPUT, eagle3_names, eagle_names
from runtime.checkpoints.weights import WEIGHTS
from runtime.errors import TrainingError
from runtime.heads.block import DiffusionBlock
from runtime.heads.eagle import EagleHead
from runtime.heads.eagle3 import Eagle3Head
from runtime.heads.layers import Shape
from runtime.target import Target

# The version whose layout this is. The eagle type is that of the versions before 0.5, which had it.
LAYOUT = "0.9.0"
_TAP_EPS = 1e-5

Parts = tuple[dict[str, Any], dict[str, Tensor]]


def write_speculators(
    folder: Path,
    checkpoint: Checkpoint,
    target: Target,
    verifier: str | None = None,
    mask_token: int | None = None,
    tokens: int = 5,
) -> None:
    """Write config.json and model.safetensors, in the dtype that the head's weights have.

    Parameters
    ----------
    folder
        Made where it is absent.
    checkpoint
        EAGLE-1 or HASS, EAGLE-3 in the form of the code, or the paper's block head.
    target
        What it was trained on; the embedding and the output rows that the layout stores besides come from it.
    verifier
        Hugging Face name or folder of the target. `speculators` itself loads no EAGLE-3 folder without one.
    mask_token
        For a block head whose mask is no token's embedding: a token that text never holds. Its row of the stored
        embedding becomes the mask.
    tokens
        Draft tokens a round that the file proposes for an EAGLE head.

    Raises
    ------
    TrainingError
        The layout cannot express this head; the option is named.
    """
    head = checkpoint.head
    if isinstance(head, EagleHead):
        config, tensors = _eagle(checkpoint, head, target)
    elif isinstance(head, Eagle3Head):
        config, tensors = _eagle3(checkpoint, head, target)
    elif isinstance(head, DiffusionBlock):
        config, tensors = _dflash(checkpoint, head, target, mask_token)
        tokens = head.config.block
    else:
        raise TrainingError(f"{checkpoint.source}: the speculators layout has no {type(head).__name__}")
    record = {
        **config,
        "speculators_config": _speculators(config["speculators_model_type"], target, verifier, tokens),
        "speculators_version": LAYOUT,
        "tie_word_embeddings": False,
        "dtype": str(next(head.parameters()).dtype).removeprefix("torch."),
    }
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / WEIGHTS) as temporary:
        save_file(
            {name: value.detach().cpu().contiguous() for name, value in tensors.items()}, temporary, {"format": "pt"}
        )
    write_text(folder / CONFIG, json.dumps(record, indent=2, sort_keys=True, allow_nan=False) + "\n")


def _eagle(checkpoint: Checkpoint, head: EagleHead, target: Target) -> Parts:
    _only(not head.config.shape.query_norm, checkpoint, "query_norm, which its EAGLE-1 layer has not")
    _only(checkpoint.embedding is None and checkpoint.output is None, checkpoint, "an embedding or output of its own")
    count = len(checkpoint.draft_tokens)
    _only(
        count == target.vocabulary,
        checkpoint,
        f"{count} draft words, which EAGLE-1 has no place for: write it with all {target.vocabulary} of the target's",
    )
    tensors = _stored(head, eagle_names(head.config))
    tensors["fusion_fc.weight"] = swap_halves(tensors["fusion_fc.weight"])
    config = {
        "speculators_model_type": "eagle",
        "architectures": ["EagleSpeculator", "LlamaDecoderLayer"],
        "transformer_layer_architecture": "LlamaDecoderLayer",
        "transformer_layer_config": _layer(head.config.shape, target, 1, checkpoint),
        "layernorms": False,
        "fusion_bias": head.config.bias,
    }
    return config, tensors


def _eagle3(checkpoint: Checkpoint, head: Eagle3Head, target: Target) -> Parts:
    own = head.config
    _only(own.form == "code", checkpoint, "the form of the paper; the layout has the form of the code")
    names = eagle3_names(own)
    if not own.words:
        names.pop(OUTPUT)
    tensors = _stored(head, names) | _vocabulary(checkpoint, target)
    if own.words:
        tensors[OUTPUT] = head.lm_head.weight
    each = own.read_norm == "each"
    if own.tap_norm:
        # A norm of each tap without a gain is one with gains of 1, where its epsilon is the layer's.
        plain = own.read_norm == "none" and own.shape.eps == _TAP_EPS
        _only(plain, checkpoint, f"tap_norm beside read_norm {own.read_norm!r} or with eps {own.shape.eps}")
        gain = torch.ones(own.source or own.shape.hidden, dtype=head.fc.weight.dtype)
        tensors |= {f"fc_norm.{k}.weight": gain.clone() for k in range(own.taps)}
        each = True
    config = {
        "speculators_model_type": "eagle3",
        "architectures": ["Eagle3Speculator"],
        "transformer_layer_config": _layer(own.shape, target, 1, checkpoint),
        "draft_vocab_size": len(checkpoint.draft_tokens),
        "norm_before_residual": own.residual_norm,
        "norm_before_fc": own.read_norm == "joined",
        "fc_norm": each,
        "norm_output": own.carry_norm,
        "target_hidden_size": own.source or None,
        "eagle_aux_hidden_state_layer_ids": list(checkpoint.reads.layers),
    }
    return config, tensors


def _dflash(checkpoint: Checkpoint, head: DiffusionBlock, target: Target, mask_token: int | None) -> Parts:
    own = head.config
    _only(own.shape.query_norm, checkpoint, "no query_norm, which every block layer of the layout has")
    sliding = sorted(set(own.windows) - {0})
    _only(len(sliding) < 2, checkpoint, f"windows of {sliding}; the layout has one size")
    tensors = _stored(head, block_names(own)) | _vocabulary(checkpoint, target)
    # The scales of the taps are folded into the columns that read them.
    scale = head.tap_scale.detach().repeat_interleave(own.shape.hidden)
    tensors["fc.weight"] = head.fc.weight.detach() * scale
    mask = head.mask.detach()
    same = (tensors[EMBEDDING] == mask).all(dim=1).nonzero().flatten().tolist()
    if mask_token is None:
        _only(bool(same), checkpoint, "a mask that is no token's embedding: name a token for it with mask_token")
        mask_token = int(same[0])
    _only(0 <= mask_token < target.vocabulary, checkpoint, f"mask_token {mask_token}, which is no token")
    tensors[EMBEDDING] = tensors[EMBEDDING].clone()
    tensors[EMBEDDING][mask_token] = mask
    layer = _layer(own.shape, target, own.layers, checkpoint)
    layer["layer_types"] = [
        "sliding_attention" if window else "full_attention" for window in own.windows or (0,) * own.layers
    ]
    layer |= {"use_sliding_window": bool(sliding), "sliding_window": sliding[0] if sliding else None}
    config = {
        "speculators_model_type": "dflash",
        "architectures": ["DFlashSpeculator"],
        "transformer_layer_config": layer,
        "draft_vocab_size": len(checkpoint.draft_tokens),
        "block_size": own.block + 1,
        "aux_hidden_state_layer_ids": list(checkpoint.reads.layers),
        "mask_token_id": mask_token,
        "sliding_window_non_causal": bool(sliding) and not own.windows_causal,
        "sample_from_anchor": False,
    }
    return config, tensors


def _only(true: bool, checkpoint: Checkpoint, what: str) -> None:
    if not true:
        raise TrainingError(f"{checkpoint.source}: the speculators layout cannot express {what}")


def _stored(head: torch.nn.Module, names: dict[str, str]) -> dict[str, Tensor]:
    state = head.state_dict()
    return {stored: state[own] for own, stored in names.items()}


def _vocabulary(checkpoint: Checkpoint, target: Target) -> dict[str, Tensor]:
    """Give what the layout stores of the target: the embedding, the output rows, and the maps of a draft vocabulary."""
    dtype = next(checkpoint.head.parameters()).dtype
    words, size = checkpoint.draft_tokens.cpu(), target.vocabulary
    embedding, output = checkpoint.embedding, checkpoint.output
    if embedding is None:
        embedding = target.model.get_input_embeddings().weight.detach()
    if output is None:
        output = target.model.get_output_embeddings().weight.detach()[words]
    # Copies: tensors of one file must not share memory, and a tied target's embedding and output do.
    tensors = {EMBEDDING: embedding.to(dtype), OUTPUT: output.to(dtype).clone()}
    if len(words) == size:
        if not torch.equal(words, torch.arange(size)):
            raise TrainingError(f"{checkpoint.source}: all of the target's words, but not in the order of their ids")
        return tensors
    marks = torch.zeros(size, dtype=torch.bool)
    marks[words] = True
    return {**tensors, "d2t": words.long() - torch.arange(len(words)), "t2d": marks}


def _layer(shape: Shape, target: Target, layers: int, checkpoint: Checkpoint) -> dict[str, Any]:
    """Give the configuration of the layers, every field of it: readers differ in their defaults."""
    _only(shape.query_bias == shape.output_bias, checkpoint, "query_bias without output_bias")
    scaling: dict[str, Any] | None = {"rope_type": shape.rotary, "factor": shape.rotary_factor}
    if shape.rotary == "default":
        scaling = None
    if shape.rotary == "llama3" and scaling is not None:
        scaling |= {"low_freq_factor": shape.rotary_low, "high_freq_factor": shape.rotary_high}
        scaling["original_max_position_embeddings"] = shape.rotary_context
    return {
        "model_type": "qwen3" if shape.query_norm else "llama",
        "vocab_size": target.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_hidden_layers": layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": shape.eps,
        "attention_bias": shape.query_bias,
        "max_position_embeddings": target.max_context,
        "rope_theta": shape.theta,
        "rope_scaling": scaling,
        "tie_word_embeddings": False,
    }


def _speculators(kind: str, target: Target, verifier: str | None, tokens: int) -> dict[str, Any]:
    architectures = getattr(target.model.config, "architectures", None) or [type(target.model).__name__]
    return {
        "algorithm": kind,
        "default_proposal_method": "greedy",
        "proposal_methods": [
            {"proposal_type": "greedy", "speculative_tokens": tokens, "verifier_accept_k": 1, "accept_tolerance": 0.0}
        ],
        "verifier": {"name_or_path": verifier, "architectures": list(architectures)},
    }
