"""What all published layouts have in common: a Llama or Qwen3 layer's sizes, its tensors, and draft vocabularies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from runtime.checkpoints.settings import Settings
from runtime.checkpoints.weights import Weights
from runtime.errors import ManifestMismatch
from runtime.heads.layers import Shape
from runtime.target import Target

MOST_VOCABULARY = 1 << 24

# A saved configuration leaves out what is its class's default, so the defaults are part of the layout.
DEFAULTS: MappingProxyType[str, MappingProxyType[str, Any]] = MappingProxyType(
    {
        "llama": MappingProxyType(
            {
                "vocab_size": 32000,
                "hidden_size": 4096,
                "intermediate_size": 11008,
                "num_hidden_layers": 32,
                "num_attention_heads": 32,
                "rms_norm_eps": 1e-6,
                "rope_theta": 10000.0,
            }
        ),
        "qwen3": MappingProxyType(
            {
                "vocab_size": 151936,
                "hidden_size": 4096,
                "intermediate_size": 22016,
                "num_hidden_layers": 32,
                "num_attention_heads": 32,
                "num_key_value_heads": 32,
                "head_dim": 128,
                "rms_norm_eps": 1e-6,
                "rope_theta": 10000.0,
            }
        ),
    }
)


def target_config(target: Target) -> Any:
    """Give the configuration of a target's language model."""
    return target.config


def target_layers(target: Target) -> int:
    """Count the target's decoder layers."""
    return int(target_config(target).num_hidden_layers)


def target_width(target: Target) -> int:
    """Give the width of the target's states."""
    return int(target_config(target).hidden_size)


def require_target(settings: Settings, name: str, found: int, wanted: int) -> None:
    """Check a size of a checkpoint against its target's.

    Raises
    ------
    ManifestMismatch
        They differ; the field is named.
    """
    if found != wanted:
        raise ManifestMismatch(f"{settings.source}: {name} is {found}, the target has {wanted}")


def read_shape(settings: Settings, *, query_norm: bool = False) -> Shape:
    """Read a layer's sizes from the fields of a Llama or Qwen3 configuration.

    Raises
    ------
    ManifestMismatch
        A field is absent or no size, or asks for what our layers do not compute.
    """
    settings.require("hidden_act", "silu")
    settings.require("mlp_bias", False, "our feed-forward part has none")
    settings.require("partial_rotary_factor", 1.0, "all of a head's width is turned")
    hidden, heads = settings.size("hidden_size"), settings.size("num_attention_heads", 4096)
    kv_heads = (
        heads if settings.values.get("num_key_value_heads") is None else settings.size("num_key_value_heads", heads)
    )
    if heads % kv_heads:
        raise settings.fail("num_key_value_heads", f"a divisor of the {heads} attention heads")
    if settings.values.get("head_dim") is None and hidden % heads:
        raise settings.fail("hidden_size", f"a multiple of the {heads} attention heads, or a head_dim")
    width = hidden // heads if settings.values.get("head_dim") is None else settings.size("head_dim", 4096)
    if width % 2:
        raise settings.fail("head_dim", "an even width")
    bias = settings.flag("attention_bias")
    return Shape(
        hidden,
        heads,
        kv_heads,
        settings.size("intermediate_size"),
        head_width=0 if width * heads == hidden else width,
        query_norm=query_norm,
        eps=settings.positive("rms_norm_eps"),
        query_bias=bias,
        output_bias=bias,
        **_rotary(settings),
    )


def _rotary(settings: Settings) -> dict[str, Any]:
    """Read theta and the stretching, under the names of transformers 4 or 5."""
    rope = settings.part("rope_parameters" if settings.values.get("rope_parameters") else "rope_scaling")
    if any(isinstance(value, dict) for value in rope.values.values()):
        raise settings.fail("rope_parameters", "one set for all layers")
    theta = rope.positive("rope_theta") if "rope_theta" in rope.values else settings.positive("rope_theta")
    rope.require("partial_rotary_factor", 1.0, "all of a head's width is turned")
    name = "rope_type" if "rope_type" in rope.values else "type"
    kind = rope.values.get(name, "default")
    if kind == "linear":
        return {"theta": theta, "rotary": "linear", "rotary_factor": rope.positive("factor")}
    if kind == "llama3":
        low, high = rope.positive("low_freq_factor"), rope.positive("high_freq_factor")
        if high <= low:
            raise rope.fail("high_freq_factor", f"more than low_freq_factor, {low}")
        return {
            "theta": theta,
            "rotary": "llama3",
            "rotary_factor": rope.positive("factor"),
            "rotary_low": low,
            "rotary_high": high,
            "rotary_context": rope.size("original_max_position_embeddings", 1 << 24),
        }
    if kind != "default":
        raise rope.fail(name, "default, linear or llama3")
    return {"theta": theta}


def layer_names(own: str, stored: str, shape: Shape, norms: tuple[str, ...]) -> dict[str, str]:
    """Name a layer's tensors: those of our module ``own`` to those under the stored prefix."""
    parts = [f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")] + [f"{norm}.weight" for norm in norms]
    for name in ("q", "k", "v", "o"):
        parts.append(f"self_attn.{name}_proj.weight")
        if shape.output_bias if name == "o" else shape.query_bias:
            parts.append(f"self_attn.{name}_proj.bias")
    if shape.query_norm:
        parts += ["self_attn.q_norm.weight", "self_attn.k_norm.weight"]
    return {f"{own}.{part}": f"{stored}.{part}" for part in parts}


def empty(make: Callable[[], nn.Module], settings: Settings) -> Any:
    """Make a head that takes no memory.

    Raises
    ------
    ManifestMismatch
        Its sizes make no head.
    """
    try:
        with torch.device("meta"):
            return make()
    except (RuntimeError, ValueError, ZeroDivisionError, OverflowError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ManifestMismatch(f"{settings.source}: sizes that make no head ({reason:.120})") from error


def shapes_of(head: nn.Module, names: dict[str, str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Give the stored names with the shapes that the head's tensors have."""
    state = head.state_dict()
    return ((stored, tuple(state[own].shape)) for own, stored in names.items())


def read_words(weights: Weights, size: int) -> Tensor:
    """Read the draft words: the target id of draft word i is i + d2t[i], and t2d marks the same ids.

    Raises
    ------
    ManifestMismatch
        An id is outside the vocabulary or stands twice, or the two maps differ.
    """
    offsets = weights.tensor("d2t", ("I64", "I32")).long()
    marks = weights.tensor("t2d", ("BOOL", "U8")).bool()
    words = torch.arange(len(offsets)) + offsets
    if int(words.min()) < 0 or int(words.max()) >= size or words.unique().numel() != len(words):
        raise ManifestMismatch(f"{weights.source}: d2t gives ids that are not different ones below {size}")
    expected = torch.zeros(size, dtype=torch.bool)
    expected[words] = True
    if not torch.equal(marks, expected):
        raise ManifestMismatch(f"{weights.source}: t2d marks other ids than d2t gives")
    return words
