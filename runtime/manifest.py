"""What a drafter was trained against: it loads only where all of it is the same."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch

from lawfit.json_object import read_object, require_keys
from lawfit.laws.details import typed
from runtime.errors import ManifestMismatch
from runtime.states import FeatureAddress
from runtime.target import Target

_DTYPES = ("fp16", "bf16", "fp32")
FORMAT, VERSION = "lawfit.drafter", 1
TREE_ABI = "parent-array, best-first, root excluded, 1"


@dataclass(frozen=True)
class TargetIdentity:
    """The frozen target (seed 000, 0x01A): a drafter is not portable because another model has the same width.

    Attributes
    ----------
    weights, tokenizer
        SHA-256 of the weights by name, rounded to bf16, and of the vocabulary with the chat template.
    hidden_size, layers, vocabulary
        Shapes, named first where they differ: they say more than a digest.
    """

    weights: str
    tokenizer: str
    hidden_size: int
    layers: int
    vocabulary: int

    @classmethod
    def of(cls, target: Target) -> TargetIdentity:
        """Identify a loaded target; the same whether a folder is loaded in fp32 or in bf16."""
        return cls(
            weights_digest(target.model),
            tokenizer_digest(target.tokenizer),
            target.hidden,
            target.layers,
            target.vocabulary,
        )


@dataclass(frozen=True)
class Manifest:
    """Everything that must agree before a drafter's weights mean anything.

    Attributes
    ----------
    recipe
        Kind of head: eagle1, hass, eagle3, glance, medusa.
    target, features
        What it was trained against, and what it reads of it.
    dtype
        Of the stored weights; compute policy is fp32 losses and softmax.
    head
        The head's configuration, as its class takes it.
    tree_abi
        How its candidates become a tree.
    vocabulary
        SHA-256 of the draft vocabulary map, or "" for the target's own vocabulary.
    """

    recipe: str
    target: TargetIdentity
    features: FeatureAddress
    dtype: str
    head: dict[str, Any]
    tree_abi: str
    vocabulary: str

    def require(self, target: Target, source: str = "manifest") -> None:
        """Check that a drafter may read this target.

        Raises
        ------
        ManifestMismatch
            The first field that differs, with both values.
        """
        found = TargetIdentity.of(target)
        for name in ("hidden_size", "layers", "vocabulary", "tokenizer", "weights"):
            self._same(f"target.{name}", getattr(self.target, name), getattr(found, name), source)
        self._same("tree_abi", self.tree_abi, TREE_ABI, source)
        if self.dtype not in _DTYPES:
            raise ManifestMismatch(f"{source}: dtype is {self.dtype!r:.40}, expected {', '.join(_DTYPES)}")

    @staticmethod
    def _same(name: str, own: object, found: object, source: str) -> None:
        if own != found:
            raise ManifestMismatch(f"{source}: {name} is {found!s:.40}, the drafter was trained with {own!s:.40}")

    @property
    def fingerprint(self) -> str:
        """Name of the features that it reads: caches with another one are stale."""
        return fingerprint(self.target, self.features)

    def to_json(self) -> str:
        """Write it as JSON."""
        record = {"format": FORMAT, "version": VERSION, **asdict(self)}
        return json.dumps(record, indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, source: str = "manifest") -> Manifest:
        """Read what `to_json` wrote.

        Raises
        ------
        ManifestMismatch
            Another format or version.
        LawfitError
            A field is absent, unknown or mistyped.
        """
        record = read_object(text, source, limit=1_000_000)
        for name, wanted in (("format", FORMAT), ("version", VERSION)):
            if record.pop(name, None) != wanted:
                raise ManifestMismatch(f"{source}: not a drafter manifest of version {VERSION} ({name} differs)")
        require_keys(record, {field.name for field in fields(cls)}, source)
        for name, kind in (("target", TargetIdentity), ("features", FeatureAddress), ("head", dict)):
            if not isinstance(record[name], dict):
                raise ManifestMismatch(f"{source}: {name} is {record[name]!r:.60}, expected an object")
            if kind is not dict:
                record[name] = _part(kind, record[name], f"{source}: {name}")
        for name in ("recipe", "dtype", "tree_abi", "vocabulary"):
            record[name] = typed(record[name], str, f"{source}: {name}")
        return cls(**record)


def _part(kind: type, values: dict[str, Any], where: str) -> Any:
    hints = {"weights": str, "tokenizer": str, "final": str, "layers": int, "hidden_size": int, "vocabulary": int}
    if kind is FeatureAddress:
        hints["layers"] = tuple[int, ...]  # type: ignore[assignment]
    require_keys(values, {field.name for field in fields(kind)}, where)
    return kind(**{name: typed(value, hints[name], f"{where}.{name}") for name, value in values.items()})


def fingerprint(target: TargetIdentity, features: FeatureAddress) -> str:
    """SHA-256 of a target and the states read of it."""
    text = json.dumps([asdict(target), asdict(features)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def weights_digest(model: Any) -> str:
    """SHA-256 over the names and values of the weights, rounded to bf16, tied ones once."""
    digest, seen = hashlib.sha256(), set[int]()
    for name, parameter in sorted(model.named_parameters(remove_duplicate=False)):
        if parameter.data_ptr() in seen:
            continue
        seen.add(parameter.data_ptr())
        digest.update(name.encode())
        digest.update(parameter.detach().bfloat16().cpu().contiguous().view(torch.int16).numpy().tobytes())
    return digest.hexdigest()


def tokenizer_digest(tokenizer: Any) -> str:
    """SHA-256 of the vocabulary and the chat template; "" without a tokenizer."""
    if tokenizer is None:
        return ""
    vocabulary = json.dumps(sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1]), ensure_ascii=True)
    return hashlib.sha256(f"{vocabulary}\n{tokenizer.chat_template or ''}".encode()).hexdigest()
