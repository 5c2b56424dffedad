"""The layout of SafeAILab/EAGLE: EAGLE-1 and -2 (cnets1.py), EAGLE-3 (cnets.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from runtime.checkpoints.checkpoint import Checkpoint, own_rows
from runtime.checkpoints.settings import MOST_LAYERS, Settings, read_settings
from runtime.checkpoints.shapes import (
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
from runtime.heads.eagle import EagleConfig, EagleHead
from runtime.heads.eagle3 import Eagle3Config, Eagle3Head
from runtime.heads.layers import Shape
from runtime.loading import DTYPES
from runtime.states import FeatureAddress
from runtime.target import Target

EMBEDDING = "embed_tokens.weight"
PAIR_NORMS = ("input_layernorm", "hidden_norm", "post_attention_layernorm")
# Of its configuration class.
_DEFAULTS = {"rms_norm_eps": 1e-6, "rope_theta": 10000.0}


def read_eagle(folder: Path, target: Target, taps: Sequence[int] | None = None) -> Checkpoint:
    """Read an EAGLE folder; one with ``midlayer`` tensors is EAGLE-3.

    Parameters
    ----------
    folder
        With config.json and model.safetensors.
    target
        The model that it was trained on. Only sizes can be checked: the layout does not name it.
    taps
        Counts of decoder layers passed, low to high, for an EAGLE-3 head whose training departed from the layout's
        convention (2, L // 2, L - 3): there the state that enters the layer of that index is tapped.

    Raises
    ------
    ManifestMismatch
        A file is absent, damaged or a pickle; a field or tensor is not as this layout has it, or not this target's.
    """
    settings, weights = read_settings(folder).over(_DEFAULTS), open_weights(folder)
    require_target(settings, "vocab_size", settings.size("vocab_size", MOST_VOCABULARY), target.vocabulary)
    if any(name.startswith("midlayer.") for name in weights.entries):
        return _eagle3(settings, weights, target, taps)
    return _eagle1(settings, weights, target)


def _eagle1(settings: Settings, weights: Weights, target: Target) -> Checkpoint:
    require_target(settings, "hidden_size", settings.size("hidden_size"), target_width(target))
    if settings.size("num_hidden_layers", MOST_LAYERS) != 1:
        raise settings.fail("num_hidden_layers", "1")
    bias = settings.over({"bias": True}).flag("bias")
    shape = replace(_shape(settings), query_bias=settings.flag("qkv_bias"))
    head = empty(lambda: EagleHead(EagleConfig(shape, bias)), settings)
    names = {"fc.weight": "fc.weight", **({"fc.bias": "fc.bias"} if bias else {})}
    names |= layer_names("layer", "layers.0", shape, ("post_attention_layernorm",))
    expected = dict(shapes_of(head, names))
    if EMBEDDING in weights:
        expected[EMBEDDING] = (target.vocabulary, shape.hidden)
    weights.check(expected)
    weights.fill(head, names, DTYPES[target.dtype], {"fc.weight": swap_halves})
    embedding = _embedding(weights, target)
    words = torch.arange(target.vocabulary)
    return Checkpoint("eagle1", head, words, FeatureAddress(()), weights.source, embedding)


def _eagle3(settings: Settings, weights: Weights, target: Target, taps: Sequence[int] | None) -> Checkpoint:
    shape = _shape(settings)
    vocabulary, words = target.vocabulary, settings.size("draft_vocab_size", target.vocabulary)
    source = shape.hidden
    if settings.values.get("target_hidden_size") is not None:
        source = settings.size("target_hidden_size")
    name = "hidden_size" if settings.values.get("target_hidden_size") is None else "target_hidden_size"
    require_target(settings, name, source, target_width(target))
    reads = FeatureAddress(_taps(settings, target, taps), "none")
    config = Eagle3Config(shape, len(reads.layers), words=words, source=0 if source == shape.hidden else source)
    head = empty(lambda: Eagle3Head(config), settings)
    names = {name: name for name in ("fc.weight", "norm.weight", "lm_head.weight")}
    names |= layer_names("layer", "midlayer", shape, PAIR_NORMS)
    expected = dict(shapes_of(head, names))
    if EMBEDDING in weights or config.source:  # a head of another width needs embeddings of its own
        expected[EMBEDDING] = (vocabulary, shape.hidden)
    mapped = words != vocabulary or "d2t" in weights
    if mapped:
        expected |= {"d2t": (words,), "t2d": (vocabulary,)}
    weights.check(expected)
    # The published code leaves the maps aside where the draft vocabulary is the target's own.
    tokens = read_words(weights, vocabulary) if words != vocabulary else torch.arange(vocabulary)
    weights.fill(head, names, DTYPES[target.dtype])
    return Checkpoint("eagle3", head, tokens, reads, weights.source, _embedding(weights, target))


def _shape(settings: Settings) -> Shape:
    """Read the layer's sizes; this code divides the width among the heads, whatever head_dim says."""
    kind = settings.part("rope_scaling").values.get("type")
    values = {**settings.values, "head_dim": None, "attention_bias": False}
    if kind == "linear":
        # Its stretched rotary positions are made without the configured base.
        values["rope_theta"] = _DEFAULTS["rope_theta"]
    return read_shape(Settings(values, settings.source))


def _taps(settings: Settings, target: Target, taps: Sequence[int] | None) -> tuple[int, ...]:
    layers = target_layers(target)
    if taps is None:
        if settings.values.get("eagle_config") is not None:
            raise settings.fail("eagle_config", "no such field in this layout: name the layers with `taps`")
        taps = (2, layers // 2, layers - 3)
        if not taps[0] < taps[1] < taps[2]:
            raise ManifestMismatch(
                f"{settings.source}: a target of {layers} layers has no three taps, expected 7 or more"
            )
    if any(not 0 <= tap < layers for tap in taps) or not taps:
        raise ManifestMismatch(f"{settings.source}: taps {list(taps)}, expected counts of layers below {layers}")
    return tuple(taps)


def _embedding(weights: Weights, target: Target) -> Tensor | None:
    if EMBEDDING not in weights:
        return None
    return own_rows(weights.tensor(EMBEDDING), target.model.get_input_embeddings().weight.detach())


def swap_halves(weight: Tensor) -> Tensor:
    """Exchange the two halves of the columns: the embedding stands first there, the feature here."""
    first, second = weight.chunk(2, dim=1)
    return torch.cat([second, first], dim=1)
