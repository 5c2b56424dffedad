"""Heads on disk: a folder with weights in safetensors and the manifest of what they were trained against."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from lawfit.files import replacing, write_text
from runtime.errors import ManifestMismatch
from runtime.frozen import Frozen
from runtime.heads.drafter import Head, HeadDrafter, require_reads
from runtime.heads.kinds import head_fields, make_head
from runtime.manifest import TREE_ABI, Manifest, TargetIdentity
from runtime.states import FeatureAddress
from runtime.target import DTYPES, Target

MANIFEST, WEIGHTS, LOOKUP, WORDS = "manifest.json", "head.safetensors", "lookup.json", "draft_tokens"
STORED = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")


def save_head(
    folder: Path,
    recipe: str,
    head: Head,
    draft_tokens: Tensor,
    reads: FeatureAddress,
    identity: TargetIdentity,
    dtype: str = "fp16",
) -> Manifest:
    """Write a head: ``head.safetensors`` with its weights and draft words, and ``manifest.json``.

    Raises
    ------
    ManifestMismatch
        A weight does not fit the stored dtype.
    """
    tensors = {name: value.detach().to(STORED[dtype]).contiguous() for name, value in head.state_dict().items()}
    wide = [name for name, value in tensors.items() if not bool(torch.isfinite(value).all())]
    if wide:
        raise ManifestMismatch(f"{folder}: {wide[0]} is not finite in {dtype}")
    words = draft_tokens.to(torch.int32).contiguous()
    manifest = Manifest(recipe, identity, reads, dtype, head_fields(head), TREE_ABI, words_digest(words))
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / WEIGHTS) as temporary:
        save_file({**tensors, WORDS: words}, temporary, {"format": "pt"})
    write_text(folder / MANIFEST, manifest.to_json())
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """Read a head's manifest.

    Raises
    ------
    ManifestMismatch
        The folder holds no head, or pickled weights.
    """
    if not (folder / MANIFEST).is_file() or not (folder / WEIGHTS).is_file():
        pickles = sorted(path.name for path in folder.glob("*") if path.suffix in PICKLES)
        if pickles:
            raise ManifestMismatch(f"{folder}: {pickles[0]} may be a pickle, which runs code: expected {WEIGHTS}")
        raise ManifestMismatch(f"{folder}: not a head, expected {MANIFEST} and {WEIGHTS}")
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestMismatch(f"{folder / MANIFEST}: cannot be read ({error})") from error
    return Manifest.from_json(text, str(folder / MANIFEST))


def load_head(folder: Path, target: Target) -> HeadDrafter:
    """Load a head against the target that it was trained on, in the target's dtype.

    Raises
    ------
    ManifestMismatch
        It was trained on another target, or the files do not belong together; the field is named.
    """
    manifest = read_manifest(folder)
    source = str(folder / MANIFEST)
    manifest.require(target, source)
    manifest.features.check(target.layers, source)
    head = make_head(manifest.head, source)
    require_reads(head, manifest.features, source)
    tensors = _tensors(folder / WEIGHTS, manifest)
    words = _words(tensors.pop(WORDS), head, target, folder / WEIGHTS)
    own = head.state_dict()
    for name in sorted(set(own) | set(tensors)):
        found = tuple(tensors[name].shape) if name in tensors else "absent"
        wanted = tuple(own[name].shape) if name in own else "absent"
        if found != wanted:
            raise ManifestMismatch(f"{folder / WEIGHTS}: {name} is {found}, the head has {wanted}")
        if tensors[name].dtype != STORED[manifest.dtype]:
            stored = str(tensors[name].dtype).removeprefix("torch.")
            raise ManifestMismatch(f"{folder / WEIGHTS}: {name} is of {stored}, the manifest says {manifest.dtype}")
    dtype = DTYPES[target.dtype]
    head.load_state_dict({name: value.to(dtype) for name, value in tensors.items()}, assign=True)
    broken = [name for name, value in head.state_dict().items() if not bool(torch.isfinite(value).all())]
    if broken:
        raise ManifestMismatch(f"{folder / WEIGHTS}: {broken[0]} holds values that are not finite")
    head.to(target.device).eval().requires_grad_(False)
    return HeadDrafter(head, Frozen.of(target, words, dtype), manifest.features, name=manifest.recipe)


def _words(words: Tensor, head: Head, target: Target, path: Path) -> Tensor:
    """Check a draft vocabulary against the head and the target."""
    own = getattr(head.config, "words", 0)
    if words.ndim != 1 or words.is_floating_point() or not len(words) or (own and own != len(words)):
        shown = f"{tuple(words.shape)} of {words.dtype}, expected {own or 'some'} token ids"
        raise ManifestMismatch(f"{path}: {WORDS} is {shown}")
    if not 0 <= int(words.min()) <= int(words.max()) < target.vocabulary or words.unique().numel() != len(words):
        raise ManifestMismatch(f"{path}: {WORDS} reaches {int(words.max())}, expected different ids of the target")
    return words.long()


def words_digest(draft_tokens: Tensor) -> str:
    """SHA-256 of a draft vocabulary map (D,)."""
    return hashlib.sha256(draft_tokens.to(torch.int32).numpy().tobytes()).hexdigest()


def _tensors(path: Path, manifest: Manifest) -> dict[str, Tensor]:
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise ManifestMismatch(f"{path}: not safetensors ({str(error).splitlines()[0]:.120})") from error
    if WORDS not in tensors:
        raise ManifestMismatch(f"{path}: {WORDS} is absent")
    if tensors[WORDS].is_complex():
        raise ManifestMismatch(f"{path}: {WORDS} is of {tensors[WORDS].dtype}, expected token ids")
    if words_digest(tensors[WORDS]) != manifest.vocabulary:
        raise ManifestMismatch(
            f"{path}: vocabulary is {words_digest(tensors[WORDS]):.12}, the manifest has {manifest.vocabulary:.12}"
        )
    return tensors
