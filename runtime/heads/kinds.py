"""Heads by name: how a configuration in a manifest becomes a head."""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from types import MappingProxyType
from typing import Any, get_type_hints

import torch

from lawfit.json_object import require_keys
from lawfit.laws.details import typed
from runtime.errors import ManifestMismatch
from runtime.heads.block import BlockConfig, DiffusionBlock, FeatureBlock
from runtime.heads.drafter import Head
from runtime.heads.eagle import EagleConfig, EagleHead
from runtime.heads.eagle3 import Eagle3Config, Eagle3Head
from runtime.heads.layers import Shape
from runtime.heads.medusa import MedusaConfig, MedusaHeads

KINDS: MappingProxyType[str, tuple[type, type]] = MappingProxyType(
    {
        "eagle": (EagleConfig, EagleHead),
        "eagle3": (Eagle3Config, Eagle3Head),
        "feature-block": (BlockConfig, FeatureBlock),
        "diffusion-block": (BlockConfig, DiffusionBlock),
        "medusa": (MedusaConfig, MedusaHeads),
    }
)
# A head is small beside its target; a hostile manifest must not make us allocate.
_MOST_PARAMETERS = 4_000_000_000


def head_fields(head: Head) -> dict[str, Any]:
    """Give a head's kind and configuration as plain values for a manifest."""
    kind = next(name for name, (_, cls) in KINDS.items() if type(head) is cls)
    return {"kind": kind, **asdict(head.config)}


def make_head(values: dict[str, Any], source: str) -> Head:
    """Make a head without weights, on the device ``meta``, from what `head_fields` gave.

    Raises
    ------
    ManifestMismatch
        An unknown kind, or sizes that make no head.
    LawfitError
        A field is absent, unknown or mistyped.
    """
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ManifestMismatch(f"{source}: head.kind is {kind!r:.40}, expected {', '.join(KINDS)}")
    config_class, head_class = KINDS[kind]
    config = _config(config_class, {key: value for key, value in values.items() if key != "kind"}, f"{source}: head")
    try:
        with torch.device("meta"):
            head = head_class(config)
        if (size := sum(parameter.numel() for parameter in head.parameters())) > _MOST_PARAMETERS:
            raise ValueError(f"{size} parameters, expected at most {_MOST_PARAMETERS}")
        return head  # type: ignore[no-any-return]
    except (ValueError, RuntimeError, ZeroDivisionError, TypeError) as error:
        raise ManifestMismatch(
            f"{source}: head: sizes that make no head ({str(error).splitlines()[0]:.120})"
        ) from error


def _config(kind: type, values: dict[str, Any], where: str) -> Any:
    hints, defaults = get_type_hints(kind), {field.name: field.default for field in fields(kind)}
    require_keys(values, set(defaults), where)
    read = {}
    for name, value in values.items():
        if hints[name] is Shape:
            if not isinstance(value, dict):
                raise ManifestMismatch(f"{where}.{name} is {value!r:.60}, expected an object")
            read[name] = _config(Shape, value, f"{where}.{name}")
        else:
            read[name] = typed(value, hints[name], f"{where}.{name}")
            if isinstance(read[name], float) and not 0 < read[name] < math.inf:
                raise ManifestMismatch(f"{where}.{name} is {value!r:.40}, expected a positive number")
            least = 0 if defaults[name] == 0 else 1  # 0 is a size only where it stands for a default
            if type(read[name]) is int and not least <= read[name] <= 1 << 24:
                raise ManifestMismatch(f"{where}.{name} is {read[name]}, expected a size")
    return kind(**read)
