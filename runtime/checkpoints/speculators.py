"""The layout of vllm-project/speculators: eagle (EAGLE-1, -2, HASS), eagle3 and dflash."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from runtime.checkpoints.checkpoint import Checkpoint, own_rows
from runtime.checkpoints.dflash import MOST_BLOCK, block_config, block_names
from runtime.checkpoints.safeailab import EMBEDDING, PAIR_NORMS, swap_halves
from runtime.checkpoints.settings import Settings, read_settings
from runtime.checkpoints.shapes import (
    DEFAULTS,
    MOST_VOCABULARY,
    empty,
    layer_names,
    read_shape,
    read_words,
    require_target,
    shapes_of,
    target_layers,
    target_width,
)
from runtime.checkpoints.weights import Weights, open_weights
from runtime.errors import ManifestMismatch
from runtime.heads.block import DiffusionBlock
from runtime.heads.eagle import EagleConfig, EagleHead
from runtime.heads.eagle3 import Eagle3Config, Eagle3Head
from runtime.heads.layers import Shape
from runtime.loading import DTYPES
from runtime.states import FeatureAddress
from runtime.target import Target

# Copies of the target's weights that its training holds, and some versions store.
_TRAINING = ("verifier_norm.weight", "verifier_lm_head.weight")
OUTPUT = "lm_head.weight"


def read_speculators(folder: Path, target: Target) -> Checkpoint:
    """Read a folder that `speculators` wrote.

    Layer ids count the decoder layers passed: id k is the state that enters layer k, as vLLM hands it out. The default
    is (2, L // 2, L - 3).

    Parameters
    ----------
    folder
        With config.json and model.safetensors.
    target
        The model that it was trained on; its sizes are checked.

    Raises
    ------
    ManifestMismatch
        A file is absent, damaged or a pickle; a field or tensor is not as this layout has it, or not this target's.
    """
    settings, weights = read_settings(folder), open_weights(folder)
    weights = Weights({name: entry for name, entry in weights.entries.items() if name not in _TRAINING}, weights.source)
    layer = settings.part("transformer_layer_config")
    kind = layer.values.get("model_type", "qwen3")
    if not isinstance(kind, str) or kind not in DEFAULTS:
        raise layer.fail("model_type", " or ".join(DEFAULTS))
    layer = layer.over({**DEFAULTS[kind], "model_type": kind})
    require_target(layer, "vocab_size", layer.size("vocab_size", MOST_VOCABULARY), target.vocabulary)
    match settings.values.get("speculators_model_type"):
        case "eagle":
            return _eagle(settings, layer, weights, target)
        case "eagle3":
            return _eagle3(settings, layer, weights, target)
        case "dflash":
            return _dflash(settings, layer, weights, target)
    raise settings.fail("speculators_model_type", "eagle, eagle3 or dflash")


def eagle_names(config: EagleConfig) -> dict[str, str]:
    """Name an EAGLE head's tensors in this layout."""
    bias = {"fc.bias": "fusion_fc.bias"} if config.bias else {}
    layer = layer_names("layer", "transformer", config.shape, ("post_attention_layernorm",))
    return {"fc.weight": "fusion_fc.weight", **bias, **layer}


def eagle3_names(config: Eagle3Config) -> dict[str, str]:
    """Name an EAGLE-3 head's tensors in this layout."""
    names = {name: name for name in ("fc.weight", "norm.weight", OUTPUT)}
    if config.read_norm == "joined":
        names["input_norm.weight"] = "input_norm.weight"
    if config.read_norm == "each":
        names |= {name: name for name in (f"fc_norm.{k}.weight" for k in range(config.taps))}
    return names | layer_names("layer", "layers.0", config.shape, PAIR_NORMS)


def _eagle(settings: Settings, layer: Settings, weights: Weights, target: Target) -> Checkpoint:
    require_target(layer, "hidden_size", layer.size("hidden_size"), target_width(target))
    settings.require("layernorms", False, "which state a head with them carries is not published")
    settings.require("transformer_layer_architecture", "LlamaDecoderLayer")
    config = EagleConfig(read_shape(layer), settings.flag("fusion_bias"))
    head = empty(lambda: EagleHead(config), settings)
    names = eagle_names(config)
    weights.check(dict(shapes_of(head, names)))
    weights.fill(head, names, DTYPES[target.dtype], {"fc.weight": swap_halves})
    return Checkpoint("eagle1", head, torch.arange(target.vocabulary), FeatureAddress(()), weights.source)


def _eagle3(settings: Settings, layer: Settings, weights: Weights, target: Target) -> Checkpoint:
    shape = _one_layer(layer)
    own_width = settings.values.get("target_hidden_size") is None
    source = shape.hidden if own_width else settings.size("target_hidden_size")
    require_target(layer if own_width else settings, "hidden_size", source, target_width(target))
    reads = FeatureAddress(_taps(settings, "eagle_aux_hidden_state_layer_ids", target), "none")
    each, joined = settings.flag("fc_norm"), settings.flag("norm_before_fc")
    if each and joined:
        raise settings.fail("fc_norm", "false where norm_before_fc is true")
    words = settings.over({"draft_vocab_size": 32000}).size("draft_vocab_size", target.vocabulary)
    config = Eagle3Config(
        shape,
        len(reads.layers),
        words=words,
        source=0 if source == shape.hidden else source,
        read_norm="each" if each else "joined" if joined else "none",
        residual_norm=settings.flag("norm_before_residual"),
        carry_norm=settings.flag("norm_output"),
    )
    head = empty(lambda: Eagle3Head(config), settings)
    names = eagle3_names(config)
    expected = dict(shapes_of(head, names)) | _borrowed(weights, shape, target, words)
    if config.source:
        expected[EMBEDDING] = (target.vocabulary, shape.hidden)
    weights.check(expected)
    tokens = _words(weights, target)
    weights.fill(head, names, DTYPES[target.dtype])
    return Checkpoint("eagle3", head, tokens, reads, weights.source, own_rows(*_embeddings(weights, target)))


def _dflash(settings: Settings, layer: Settings, weights: Weights, target: Target) -> Checkpoint:
    require_target(layer, "hidden_size", layer.size("hidden_size"), target_width(target))
    settings.require("sample_from_anchor", False, "the row of the root drafts nothing here")
    layers = _taps(settings, "aux_hidden_state_layer_ids", target)
    block = settings.over({"block_size": 8}).size("block_size", MOST_BLOCK, least=2) - 1
    config = block_config(layer, block, len(layers), causal=None)
    if config.windows:
        config = replace(config, windows_causal=not settings.flag("sliding_window_non_causal"))
    head = empty(lambda: DiffusionBlock(config), settings)
    names = block_names(config)
    words = settings.over({"draft_vocab_size": 32000}).size("draft_vocab_size", target.vocabulary)
    expected = dict(shapes_of(head, names)) | _borrowed(weights, config.shape, target, words)
    weights.check({**expected, OUTPUT: (words, config.shape.hidden)})
    mask = settings.size("mask_token_id", target.vocabulary - 1, least=0)
    tokens = _words(weights, target)
    found, own = _embeddings(weights, target)
    made = {"mask": (own if found is None else found)[mask].clone(), "tap_scale": torch.ones(len(layers))}
    weights.fill(head, names, DTYPES[target.dtype], made=made)
    rows = target.model.get_output_embeddings().weight.detach()[tokens]
    return Checkpoint(
        "glance",
        head,
        tokens,
        FeatureAddress(layers, "none"),
        weights.source,
        own_rows(found, own),
        own_rows(weights.tensor(OUTPUT), rows),
    )


def _one_layer(layer: Settings) -> Shape:
    """Read the shape of the one layer of an EAGLE-3 head."""
    if layer.size("num_hidden_layers") != 1:
        raise layer.fail("num_hidden_layers", "1")
    kinds = layer.values.get("layer_types")
    if kinds is not None and kinds != ["full_attention"]:
        raise layer.fail("layer_types", "one of full_attention")
    return read_shape(layer, query_norm=layer.values["model_type"] == "qwen3")


def _taps(settings: Settings, name: str, target: Target) -> tuple[int, ...]:
    layers = target_layers(target)
    if settings.values.get(name) is not None:
        return settings.sizes(name, layers - 1)
    if layers < 3:
        raise ManifestMismatch(f"{settings.source}: {name} is absent, and a target of {layers} layers has no default")
    return (2, layers // 2, layers - 3)


def _borrowed(weights: Weights, shape: Shape, target: Target, words: int) -> dict[str, tuple[int, ...]]:
    """Give the shapes of what may be stored of the target's embedding, and of the vocabulary maps."""
    expected: dict[str, tuple[int, ...]] = {}
    if EMBEDDING in weights:
        expected[EMBEDDING] = (target.vocabulary, shape.hidden)
    if words != target.vocabulary:
        expected |= {"d2t": (words,), "t2d": (target.vocabulary,)}
    return expected


def _words(weights: Weights, target: Target) -> Tensor:
    return read_words(weights, target.vocabulary) if "d2t" in weights else torch.arange(target.vocabulary)


def _embeddings(weights: Weights, target: Target) -> tuple[Tensor | None, Tensor]:
    """Give the stored embedding, if any, and the target's."""
    own = target.model.get_input_embeddings().weight.detach()
    return weights.tensor(EMBEDDING) if EMBEDDING in weights else None, own
