"""The layout of z-lab/dflash (dflash/model.py): a block head on the target's fused states."""

from __future__ import annotations

from pathlib import Path

import torch

from runtime.checkpoints.checkpoint import Checkpoint
from runtime.checkpoints.settings import MOST_LAYERS, Settings, read_settings
from runtime.checkpoints.shapes import (
    DEFAULTS,
    MOST_VOCABULARY,
    empty,
    layer_names,
    read_shape,
    require_target,
    shapes_of,
    target_layers,
    target_width,
)
from runtime.checkpoints.weights import open_weights
from runtime.errors import ManifestMismatch
from runtime.heads.block import BlockConfig, DiffusionBlock
from runtime.loading import DTYPES
from runtime.states import FeatureAddress
from runtime.target import Target

MOST_BLOCK = 1024
BLOCK_NORMS = ("input_layernorm", "post_attention_layernorm")
# Of DFlash 2, a different network.
_SECOND = ("selector_rank", "selector_top_k", "conv_kernel_size", "conv_group_size")


def read_dflash(folder: Path, target: Target) -> Checkpoint:
    """Read a DFlash folder. Embedding and output head are the target's; so is the mask: one token's embedding.

    ``target_layer_ids`` counts layers from 0 and means what leaves them: id k is the state behind k + 1 layers.
    ``block_size`` counts the root: a block of 16 drafts 15 offsets.

    Raises
    ------
    ManifestMismatch
        A file is absent, damaged or a pickle; a field or tensor is not as this layout has it, or not this target's.
    """
    settings, weights = read_settings(folder).over(DEFAULTS["qwen3"]), open_weights(folder)
    draft = settings.part("dflash_config")
    draft = Settings({**settings.values, **draft.values}, settings.source)
    require_target(settings, "vocab_size", settings.size("vocab_size", MOST_VOCABULARY), target.vocabulary)
    require_target(settings, "hidden_size", settings.size("hidden_size"), target_width(target))
    _refuse(draft)
    block = draft.size("block_size", MOST_BLOCK, least=2) - 1
    layers = target_layers(target)
    if settings.values.get("num_target_layers") is not None:
        require_target(settings, "num_target_layers", settings.size("num_target_layers", 1 << 12), layers)
    ids = draft.sizes("target_layer_ids", layers - 2) if layers > 1 else ()
    config = block_config(settings, block, len(ids), causal=settings.values.get("is_causal"))
    head = empty(lambda: DiffusionBlock(config), settings)
    names = block_names(config)
    weights.check(dict(shapes_of(head, names)))
    mask = draft.size("mask_token_id", target.vocabulary - 1, least=0)
    embedding = target.model.get_input_embeddings().weight.detach()
    made = {"mask": embedding[mask].clone(), "tap_scale": torch.ones(len(ids))}
    weights.fill(head, names, DTYPES[target.dtype], made=made)
    reads = FeatureAddress(tuple(k + 1 for k in ids), "none")
    return Checkpoint("glance", head, torch.arange(target.vocabulary), reads, weights.source)


def block_config(settings: Settings, block: int, taps: int, causal: object) -> BlockConfig:
    """Read the sizes of a block head from the fields of a Qwen3 configuration.

    Parameters
    ----------
    settings
        The configuration.
    block
        Offsets that it drafts.
    taps
        Target layers that are fused.
    causal
        Whether sliding layers see none of the block's later rows; ``None`` for the default, that they do not.

    Raises
    ------
    ManifestMismatch
        A field is no size, or asks for what our block does not compute.
    """
    if causal is not None and not isinstance(causal, bool):
        raise settings.fail("is_causal", "true or false")
    count = settings.size("num_hidden_layers", MOST_LAYERS)
    windows = _windows(settings, count)
    if causal and (not windows or 0 in windows):
        raise settings.fail("is_causal", "false where a layer sees everything")
    return BlockConfig(
        read_shape(settings, query_norm=True),
        layers=count,
        block=block,
        taps=taps,
        windows=windows,
        windows_causal=True if causal is None else causal,
    )


def block_names(config: BlockConfig) -> dict[str, str]:
    """Name a block head's tensors in this layout; the mask and the scales of the taps are not among them."""
    names = {name: name for name in ("fc.weight", "hidden_norm.weight", "norm.weight")}
    for k in range(config.layers):
        names |= layer_names(f"layers.{k}", f"layers.{k}", config.shape, BLOCK_NORMS)
    return names


def _windows(settings: Settings, count: int) -> tuple[int, ...]:
    """Read which layers slide, and how far they see."""
    kinds = settings.values.get("layer_types")
    slides = settings.flag("use_sliding_window")
    if kinds is None:
        first = settings.over({"max_window_layers": 28}).size("max_window_layers", 1 << 12, least=0)
        kinds = ["sliding_attention" if slides and k >= first else "full_attention" for k in range(count)]
    known = isinstance(kinds, list) and all(kind in ("full_attention", "sliding_attention") for kind in kinds)
    if not known or len(kinds) != count:
        raise settings.fail("layer_types", f"{count} of full_attention and sliding_attention")
    if "sliding_attention" not in kinds:
        return ()
    if not slides:
        raise settings.fail("use_sliding_window", "true, as layer_types has sliding layers")
    window = settings.over({"sliding_window": 4096}).size("sliding_window", 1 << 24)
    return tuple(window if kind == "sliding_attention" else 0 for kind in kinds)


def _refuse(draft: Settings) -> None:
    """Refuse what newer configurations may ask for and our block does not compute."""
    for name in _SECOND:
        if draft.values.get(name) is not None:
            raise ManifestMismatch(f"{draft.source}: {name} is set: this is DFlash 2, expected DFlash")
    for name in ("output_multiplier", "input_embedding_scale"):
        if draft.values.get(name) not in (None, 1, 1.0):
            raise draft.fail(name, "1")
    if draft.values.get("final_logit_softcapping"):
        raise draft.fail("final_logit_softcapping", "none")
