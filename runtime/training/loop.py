"""The training loop: steps that resume exactly, a log of everything watched, weights in safetensors."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from lawfit.files import remove_unfinished, replacing, write_text
from runtime.errors import TrainingError


@dataclass(frozen=True)
class Schedule:
    """Steps and step sizes.

    Attributes
    ----------
    steps, warmup
        Steps in all, and those over which the learning rate rises; after that it falls as a cosine to a twentieth.
    learning_rate, weight_decay, clip
        AdamW's, with betas .9 and .95 as EAGLE's code, and the largest gradient norm.
    save_every
        Steps between checkpoints.
    seed
        Of noise and of whatever else a step draws.
    """

    steps: int
    warmup: int = 50
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    clip: float = 0.5
    save_every: int = 200
    seed: int = 0

    def rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.learning_rate * (0.05 + 0.95 * 0.5 * (1.0 + math.cos(math.pi * min(done, 1.0))))


Step = Callable[[Any, torch.Generator, int], Iterable[tuple[Tensor, dict[str, float]]]]
"""Makes the losses of one batch at a step: pairs of a loss to be added to the gradient, and what is watched of it."""


def train(
    head: nn.Module,
    batches_from: Callable[[int], Iterator[Any]],
    losses: Step,
    schedule: Schedule,
    folder: Path,
    *,
    dtype: torch.dtype = torch.float32,
    on_step: Callable[[dict[str, float]], object] = lambda record: None,
) -> list[dict[str, float]]:
    """Train a head, from the last checkpoint in ``folder`` if there is one; return the log of all steps.

    A step draws from a generator seeded by (seed, step) and takes its batch by number, so that a run that was killed
    gives the same loss curve as one that was not. A batch without a supervised row is skipped: nothing is decayed.

    Parameters
    ----------
    head
        Its parameters alone are trained.
    batches_from
        Gives the batches from a number on.
    losses, schedule
        See `Step` and `Schedule`.
    folder
        Checkpoint and log: ``checkpoint.safetensors``, ``log.jsonl``.
    dtype
        Of the products; weights, losses and softmax are in fp32 in any case.
    on_step
        Told each step's record.

    Raises
    ------
    TrainingError
        The checkpoint is of another head.
    """
    folder.mkdir(parents=True, exist_ok=True)
    remove_unfinished(folder / "checkpoint.safetensors", folder / "log.jsonl")
    optimizer = torch.optim.AdamW(
        head.parameters(), lr=schedule.learning_rate, betas=(0.9, 0.95), weight_decay=schedule.weight_decay
    )
    log = _resume(head, optimizer, folder)
    start = len(log)
    head.train()
    for step, batch in zip(range(start, schedule.steps), batches_from(start), strict=False):
        began = perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate(step)
        generator = torch.Generator().manual_seed(schedule.seed * 1_000_003 + step)
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            parts = list(losses(batch, generator, step))
        record = {"step": step, "rate": schedule.rate(step), **_update(head, optimizer, parts, schedule.clip)}
        record["seconds"] = perf_counter() - began
        log.append(record)
        on_step(record)
        if len(log) % schedule.save_every == 0 or len(log) == schedule.steps:
            _save(head, optimizer, log, folder)
    head.eval()
    return log


def _update(
    head: nn.Module, optimizer: torch.optim.Optimizer, parts: Sequence[tuple[Tensor, dict[str, float]]], clip: float
) -> dict[str, float]:
    """Take one step along the sum of the losses, unless there is none or its gradient is no number."""
    record = {f"{name}.{number}": value for number, (_, seen) in enumerate(parts) for name, value in seen.items()}
    if parts:
        optimizer.zero_grad(set_to_none=True)
        total = torch.stack([loss for loss, _ in parts]).sum()
        total.backward()  # type: ignore[no-untyped-call]
        record["loss"] = float(total.detach())
        record["gradient"] = float(nn.utils.clip_grad_norm_(head.parameters(), clip))
        if math.isfinite(record["gradient"]):
            optimizer.step()
    return record


def _save(head: nn.Module, optimizer: torch.optim.Optimizer, log: list[dict[str, float]], folder: Path) -> None:
    """Write weights, moments and log; the checkpoint names how many lines of the log are its own."""
    tensors = {f"weight.{name}": value.detach() for name, value in head.state_dict().items()}
    for name, parameter in head.named_parameters():
        for moment in ("exp_avg", "exp_avg_sq", "step"):
            if moment in optimizer.state.get(parameter, {}):
                tensors[f"{moment}.{name}"] = torch.as_tensor(optimizer.state[parameter][moment]).detach()
    write_text(folder / "log.jsonl", "".join(json.dumps(record) + "\n" for record in log))
    with replacing(folder / "checkpoint.safetensors") as temporary:
        save_file({name: value.contiguous() for name, value in tensors.items()}, temporary, {"steps": str(len(log))})


def _resume(head: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> list[dict[str, float]]:
    path = folder / "checkpoint.safetensors"
    if not path.exists():
        return []
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:  # type: ignore[no-untyped-call]
            steps = int(file.metadata()["steps"])
        tensors = load_file(path)
        lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
        log = [json.loads(line) for line in lines[:steps]]
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{path}: a damaged checkpoint or log ({str(error)[:120]}): remove the folder") from error
    if len(log) != steps:
        raise TrainingError(f"{path}: of {steps} steps, its log has {len(log)}: remove the folder")
    weights = {name[7:]: value for name, value in tensors.items() if name.startswith("weight.")}
    try:
        head.load_state_dict(weights)
    except RuntimeError as error:
        raise TrainingError(f"{path}: a checkpoint of another head ({str(error).splitlines()[0]})") from error
    for name, parameter in head.named_parameters():
        found = {moment: tensors.get(f"{moment}.{name}") for moment in ("exp_avg", "exp_avg_sq", "step")}
        if all(value is not None for value in found.values()):
            optimizer.state[parameter] = found
    return log
