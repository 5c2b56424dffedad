"""What a command needs before it decodes: the target, its drafter, a policy."""

from __future__ import annotations

from pathlib import Path

import torch

from lawfit.cli.console import note
from lawfit.log import RoundLog
from policy.acceptance import Acceptance
from policy.controller import Adaptive, FixedBudget, Policy
from policy.tree import DraftTree
from runtime.embedded import embedded_target
from runtime.pack import pack
from runtime.profile import profile
from runtime.target import DTYPES, Target

ENGINE = "lawfit 0.1"


def load_target(folder: Path | None, dtype: str, device: str = "auto") -> Target:
    """Load ``folder``, or the embedded target; ``auto`` takes the dtype that verifies 16 rows fastest.

    Raises
    ------
    TargetError
        The folder holds no usable target.
    """
    if folder is None:
        folder = embedded_target(lambda where: note(f"converting the embedded target once, into {where} (0.5 GB) ..."))
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if dtype != "auto":
        return Target.load(folder, dtype, device)
    targets = [Target.load(folder, name, device) for name in DTYPES]
    return min(targets, key=verify_seconds)


def verify_seconds(target: Target, rows: int = 16, context: int = 128, repeats: int = 5) -> float:
    """Median time of one verify pass over a chain of ``rows`` rows, s."""
    from statistics import median
    from time import perf_counter

    import numpy as np

    tree = DraftTree(np.arange(rows), np.arange(-1, rows - 1), -np.arange(rows, dtype=np.float64))
    cache = target.new_cache(context + rows)
    target.prefill([1] * context, cache)
    packed, seconds = pack(tree, context, target.device), []
    for _ in range(repeats + 1):
        start = perf_counter()
        target.verify(packed, cache).choices  # noqa: B018
        seconds.append(perf_counter() - start)
        cache.commit([])
    return median(seconds[1:])


def make_policy(target: Target, budget: int, adaptive: RoundLog | None) -> Policy:
    """Make the fixed policy, or the adaptive one from a log's acceptance and this machine's cost."""
    if adaptive is None:
        return FixedBudget(budget)
    acceptance = Acceptance.fit(adaptive)
    note("measuring what a round costs on this machine ...")
    return Adaptive(acceptance, profile(target))
