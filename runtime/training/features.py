"""Target states of a corpus, computed once: the labels and the inputs of every head."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from runtime.errors import TrainingError
from runtime.manifest import TargetIdentity, fingerprint
from runtime.states import FeatureAddress
from runtime.target import Target
from runtime.training.corpus import Text

_FILES = ("tokens.npy", "starts.npy", "prompts.npy", "states.npy")


@dataclass(frozen=True, eq=False)
class Features:
    """Texts with the target's states, one after another.

    Attributes
    ----------
    tokens
        (T,) token ids of all texts.
    starts
        (N + 1,) where each text starts.
    prompts
        (N,) tokens of each prompt.
    states
        (T, K, d) bf16 in 16-bit words: the taps, and the final state last.
    columns
        Which of the K states are given out.
    """

    tokens: np.ndarray
    starts: np.ndarray
    prompts: np.ndarray
    states: np.ndarray
    columns: tuple[int, ...]

    def __len__(self) -> int:
        """Count the texts."""
        return len(self.prompts)

    def text_ids(self, k: int) -> tuple[int, ...]:
        """Give a text's tokens without its states."""
        return tuple(self.tokens[int(self.starts[k]) : int(self.starts[k + 1])].tolist())

    def text(self, k: int) -> tuple[Tensor, Tensor, int]:
        """Give a text's tokens (S,), its addressed states (S, K', d) in bf16, and the length of its prompt."""
        rows = slice(int(self.starts[k]), int(self.starts[k + 1]))
        tokens = torch.from_numpy(self.tokens[rows].astype(np.int64))
        states = torch.from_numpy(self.states[rows][:, self.columns]).view(torch.bfloat16)
        return tokens, states, int(self.prompts[k])

    @classmethod
    def load(cls, folder: Path, address: FeatureAddress, identity: TargetIdentity) -> Features:
        """Open a cache of states that holds those of ``address``, and perhaps more.

        Raises
        ------
        TrainingError
            The folder holds none, or one of another target: stale labels; or the cache lacks a state.
        """
        try:
            held = json.loads((folder / "fingerprint.json").read_text(encoding="utf-8"))
            layers, final, found = list(held["layers"]), str(held["final"]), str(held["fingerprint"])
            arrays = [np.load(folder / name, mmap_mode="r", allow_pickle=False) for name in _FILES]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TrainingError(f"{folder}: no cache of target states ({error})") from error
        wanted = fingerprint(identity, FeatureAddress(tuple(layers), final))
        if found != wanted:
            raise TrainingError(f"{folder}: states of {found:.12}, expected {wanted:.12}: stale, of another target")
        tokens, starts, prompts, states = arrays
        count = len(layers) + (final != "none")
        if states.ndim != 3 or states.dtype != np.uint16 or states.shape[:2] != (len(tokens), count):
            raise TrainingError(f"{folder}: states of shape {states.shape}, expected ({len(tokens)}, {count}, d)")
        if len(starts) != len(prompts) + 1 or int(starts[-1]) != len(tokens):
            raise TrainingError(
                f"{folder}: {len(prompts)} prompts with {len(starts)} starts: damaged, remove the folder"
            )
        if missing := sorted(set(address.layers) - set(layers)) or (address.final not in ("none", final)):
            raise TrainingError(f"{folder}: holds taps {layers} and final {final!r}, not {missing} of {address}")
        columns = [layers.index(layer) for layer in address.layers] + [len(layers)] * (address.final != "none")
        return cls(*arrays, tuple(columns))


@torch.inference_mode()
def extract(
    target: Target,
    texts: Sequence[Text],
    address: FeatureAddress,
    folder: Path,
    *,
    batch: int = 8,
    on_texts: Callable[[int], object] = lambda count: None,
) -> None:
    """Run the target over whole texts and keep its states, in a folder that appears when it is complete.

    Parameters
    ----------
    target, address
        The frozen target and the states to keep.
    texts
        Each is its prompt and output.
    folder
        Where; one that exists is replaced.
    batch, on_texts
        Texts in one pass; told after each pass how many were in it.
    """
    if address.final != "post-norm":
        raise TrainingError(f"final is {address.final!r}, expected post-norm: the state that the output head reads")
    lengths = [len(text.prompt) + len(text.output) for text in texts]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    width = target.hidden
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = _room(folder)
    try:
        shape = (int(starts[-1]), len(address.layers) + 1, width)
        states = np.lib.format.open_memmap(temporary / "states.npy", mode="w+", dtype=np.uint16, shape=shape)
        order = sorted(range(len(texts)), key=lambda k: lengths[k])
        for first in range(0, len(order), batch):
            chosen = order[first : first + batch]
            for k, kept in zip(chosen, _states(target, [texts[k] for k in chosen], address), strict=True):
                states[starts[k] : starts[k + 1]] = kept.bfloat16().view(torch.uint16).numpy()
            on_texts(len(chosen))
        states.flush()
        tokens = np.concatenate([np.array([*text.prompt, *text.output], dtype=np.int32) for text in texts])
        prompts = np.array([len(text.prompt) for text in texts], dtype=np.int32)
        for name, array in zip(_FILES, (tokens, starts, prompts), strict=False):
            np.save(temporary / name, array)
        found = fingerprint(TargetIdentity.of(target), address)
        record = {"fingerprint": found, "layers": list(address.layers), "final": address.final}
        (temporary / "fingerprint.json").write_text(json.dumps(record), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _room(folder: Path) -> Path:
    """Make a folder beside ``folder`` for this process; those of processes of this machine that died are removed."""
    prefix = f".{folder.name}.{platform.node()}."
    for left in folder.parent.glob(f"{escape(prefix)}*"):
        if not _runs(left.name.removeprefix(prefix)):
            shutil.rmtree(left, ignore_errors=True)
    room = folder.parent / f"{prefix}{os.getpid()}"
    room.mkdir(exist_ok=True)
    return room


def _runs(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (ValueError, OverflowError, PermissionError):  # no name of ours, or somebody else's process
        return True
    return True


def _states(target: Target, texts: Sequence[Text], address: FeatureAddress) -> list[Tensor]:
    """Run right-padded texts: the pass is causal, so that no token sees the padding."""
    rows = [[*text.prompt, *text.output] for text in texts]
    longest = max(map(len, rows))
    padded = torch.tensor([row + [row[-1]] * (longest - len(row)) for row in rows], device=target.device)
    output = target.model(padded, use_cache=False, output_hidden_states=True, logits_to_keep=1)
    kept = address.take(target.layer_states(output.hidden_states))
    return [part[: len(row)].cpu() for part, row in zip(kept, rows, strict=True)]
