"""The tensors of a published head: safetensors only, looked at before anything is allocated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from lawfit.errors import LawfitError
from lawfit.json_object import read_object
from runtime.errors import ManifestMismatch
from runtime.heads.drafter import Head
from runtime.heads.files import PICKLES

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_FLOATS = ("F32", "F16", "BF16")
_A_PICKLE = f"may be a pickle, which runs code when it is loaded: convert it to {WEIGHTS} where you trust it"
NOTHING: Mapping[str, Any] = MappingProxyType({})
_MOST_FILES = 64
_MOST_HEADER = 100_000_000
_MOST_INDEX = 10_000_000
# What old versions of the modelling code stored beside the weights; it follows from the configuration.
_DERIVED = "rotary_emb.inv_freq"

Adapt = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Entry:
    """One stored tensor: its file, shape and dtype as safetensors names it."""

    path: Path
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Weights:
    """What the safetensors files of a folder hold, by name; the tensors themselves stay on disk."""

    entries: Mapping[str, Entry]
    source: str

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def check(self, expected: Mapping[str, tuple[int, ...]]) -> None:
        """Check that these tensors are there, in these shapes, and no others.

        Raises
        ------
        ManifestMismatch
            The first that is absent, unknown or of another shape, with both.
        """
        for name in sorted(set(expected) | set(self.entries)):
            found = self.entries[name].shape if name in self.entries else "absent"
            wanted = expected.get(name, "no such tensor")
            if found != wanted:
                raise ManifestMismatch(f"{self.source}: {name} is {found}, expected {wanted}")

    def tensor(self, name: str, dtypes: tuple[str, ...] = _FLOATS) -> Tensor:
        """Load one tensor.

        Raises
        ------
        ManifestMismatch
            It is stored in another dtype, or holds what is not finite.
        """
        entry = self.entries[name]
        if entry.dtype not in dtypes:
            raise ManifestMismatch(f"{entry.path}: {name} is stored as {entry.dtype}, expected {' or '.join(dtypes)}")
        with _opened(entry.path) as file:
            tensor = torch.as_tensor(file.get_tensor(name))
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise ManifestMismatch(f"{entry.path}: {name} holds values that are not finite")
        return tensor

    def fill(
        self,
        head: Head,
        names: Mapping[str, str],
        dtype: torch.dtype,
        adapt: Mapping[str, Adapt] = NOTHING,
        made: Mapping[str, Tensor] = NOTHING,
    ) -> None:
        """Give an empty head its tensors and freeze it.

        Parameters
        ----------
        head
            Made on the meta device: nothing is allocated before the files were checked.
        names
            Stored name of each of the head's tensors.
        adapt
            How a stored tensor becomes the head's, by the head's name, where it is not the same.
        made
            Tensors of the head that are not stored.
        """
        read = {own: adapt.get(own, torch.as_tensor)(self.tensor(stored)) for own, stored in names.items()}
        head.load_state_dict(
            {own: value.to(dtype).contiguous() for own, value in {**read, **made}.items()}, assign=True
        )
        head.eval().requires_grad_(False)


def open_weights(folder: Path) -> Weights:
    """Look at the safetensors files of a folder.

    Raises
    ------
    ManifestMismatch
        There are none, only pickles, or one is no safetensors file.
    """
    paths = [folder / WEIGHTS] if (folder / WEIGHTS).is_file() else _indexed(folder)
    entries: dict[str, Entry] = {}
    for path in paths:
        with _opened(path) as file:
            for name in file.keys():  # noqa: SIM118 - it is no mapping
                if name in entries:
                    raise ManifestMismatch(f"{path}: {name} also stands in {entries[name].path.name}")
                part = file.get_slice(name)
                if not name.endswith(_DERIVED):
                    entries[name] = Entry(path, tuple(part.get_shape()), str(part.get_dtype()))
    return Weights(entries, str(paths[0]))


def _indexed(folder: Path) -> list[Path]:
    """Find the files of a sharded folder."""
    index = folder / INDEX
    if not index.is_file():
        pickles = sorted(path.name for path in folder.glob("*") if path.suffix in PICKLES)
        if pickles:
            raise ManifestMismatch(f"{folder / pickles[0]}: {_A_PICKLE}")
        raise ManifestMismatch(f"{folder}: no {WEIGHTS}, expected a published draft head")
    try:
        record = read_object(index.read_text(encoding="utf-8"), str(index), _MOST_INDEX)
    except (OSError, UnicodeDecodeError, LawfitError) as error:
        raise ManifestMismatch(f"{index}: cannot be read ({error!s:.160})") from error
    files = record.get("weight_map")
    names = (
        set(files.values()) if isinstance(files, dict) and all(isinstance(f, str) for f in files.values()) else set()
    )
    if not 1 <= len(names) <= _MOST_FILES or any(Path(name).name != name for name in names):
        raise ManifestMismatch(f"{index}: weight_map names no files of this folder, or more than {_MOST_FILES}")
    odd = sorted(name for name in names if not name.endswith(".safetensors") or not (folder / name).is_file())
    if odd:
        raise ManifestMismatch(f"{index}: {odd[0]:.80} is absent or no safetensors file")
    return sorted(folder / name for name in names)


def _opened(path: Path) -> Any:
    """Open a file whose header is sound: the format's own reader checks lengths and offsets."""
    try:
        return safe_open(path, framework="pt", device="cpu")
    except (SafetensorError, OSError, ValueError) as error:
        if path.is_file() and _pickled(path):
            raise ManifestMismatch(f"{path}: {_A_PICKLE}") from error
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ManifestMismatch(f"{path}: not a whole safetensors file ({reason:.120})") from error


def _pickled(path: Path) -> bool:
    """Tell whether a file that is no safetensors begins as a pickle, or as the archive that torch puts one in."""
    with path.open("rb") as file:
        start = file.read(8)
    # As the length of a header, a pickle's first bytes would be more than the format allows.
    return start[:4] == b"PK\x03\x04" or (start[:1] == b"\x80" and int.from_bytes(start, "little") > _MOST_HEADER)
