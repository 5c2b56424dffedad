"""What heads cost beside their target: training rows a second, and drafting time, both against the target's own pass.

    python -m benchmarks.heads_speed data/heads/* [--threads 2]

Training: one step of each recipe on one batch of real texts, interleaved with the target's forward over the same
places. Drafting: one offer behind the first 160 tokens of each of eight held-out texts, interleaved with the target's
pass over one row and over a tree behind the first of them. Medians of ratios; both in the stated dtype.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch

from policy.tree import DraftTree
from runtime.embedded import embedded_target
from runtime.frozen import Frozen, draft_vocabulary
from runtime.heads.drafter import HeadDrafter
from runtime.heads.files import load_head
from runtime.heads.trie import Expansion
from runtime.manifest import TargetIdentity
from runtime.pack import pack
from runtime.target import DTYPES, Target
from runtime.training.batches import Batch, batches
from runtime.training.corpus import read_corpus
from runtime.training.features import Features
from runtime.training.recipes import RECIPES

CONTEXT, TEXTS, REPEATS = 160, 8, 9


def interleaved(jobs: dict[str, Callable[[], object]], repeats: int = REPEATS) -> dict[str, list[float]]:
    """Time jobs in turns, ms; the first turn warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(repeats + 1):
        for name, job in jobs.items():
            start = perf_counter()
            job()
            if turn:
                seconds[name].append(1e3 * (perf_counter() - start))
    return seconds


def training(target: Target, states: Path) -> dict[str, Any]:
    """Compare a training step of every recipe with the target's forward over the same places."""
    dtype, identity = DTYPES[target.dtype], TargetIdentity.of(target)
    words = draft_vocabulary([], 12288, target.vocabulary)
    frozen = Frozen.of(target, words, dtype)
    jobs: dict[str, Callable[[], object]] = {}
    places = 0
    for name, recipe in RECIPES.items():
        features = Features.load(states / "held-out", recipe.reads(target.layers), identity)
        batch = next(batches(features, 1500, 0, dtype))
        head = recipe.head(target, words, 10000.0, 0)
        optimizer = torch.optim.AdamW(head.parameters(), lr=1e-6)
        places = batch.tokens.numel()
        jobs["target"] = lambda batch=batch: forward(target, batch)  # type: ignore[misc]
        jobs[name] = lambda head=head, batch=batch, recipe=recipe, optimizer=optimizer: step(  # type: ignore[misc]
            recipe, head, batch, frozen, optimizer, dtype
        )
    times = interleaved(jobs, 3)
    return {name: share(times, name, places) for name in times}


def share(times: dict[str, list[float]], name: str, places: int) -> dict[str, float]:
    """Places a second, and as a share of the target's forward."""
    ratio = median(own / other for own, other in zip(times["target"], times[name], strict=True))
    return {"tokens_per_s": 1e3 * places / median(times[name]), "share_of_target": ratio}


@torch.inference_mode()
def forward(target: Target, batch: Batch) -> None:
    """Run the target over a batch."""
    target.model(batch.tokens, use_cache=False, logits_to_keep=1)


def step(recipe: Any, head: Any, batch: Batch, frozen: Frozen, optimizer: Any, dtype: torch.dtype) -> None:
    """Take one training step, in the passes of the recipe's end."""
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        parts = list(recipe.losses(head, batch, frozen, torch.Generator(), 1.0))
    torch.stack([loss for loss, _ in parts]).sum().backward()
    optimizer.step()


def held_out_contexts() -> list[list[int]]:
    """Take the first tokens of held-out texts that are long enough, prompt and output."""
    texts = read_corpus(Path("data/corpus/held-out-7.parquet"))
    whole = [[*text.prompt, *text.output] for text in texts if text.kept]
    return [ids[: CONTEXT + 1] for ids in whole if len(ids) > CONTEXT][:TEXTS]


def offers(target: Target, head: HeadDrafter, contexts: list[list[int]]) -> Callable[[], object]:
    """Make one offer behind every context; the rows before it are observed already."""
    sessions = []
    for tokens in contexts:
        session, cold = head.start(), target.new_cache(CONTEXT)
        session.observe(target.prefill(tokens[:-1], cold, head.reads).states, tokens[1:])
        sessions.append((session, tokens))
    return lambda: [session.propose(tokens, CONTEXT, 64) for session, tokens in sessions]


def drafting(target: Target, folders: list[str]) -> dict[str, Any]:
    """Compare one offer of every head with the target's pass over one row."""
    rng = np.random.default_rng(0)
    contexts = held_out_contexts()
    cache = target.new_cache(CONTEXT + 64)
    target.prefill(contexts[0][:-1], cache)

    def verify(rows: int) -> Callable[[], object]:
        tree = DraftTree(rng.integers(0, 999, rows), np.arange(-1, rows - 1), -np.arange(float(rows)))
        packed = pack(tree, CONTEXT, target.device)

        def once() -> None:
            target.verify(packed, cache)
            cache.commit([])

        return once

    jobs = {"target 1 row": verify(1), "target 8 rows": verify(8), "target 32 rows": verify(32)}
    for folder in folders:
        for shape, expansion in (("chain", Expansion(5, 1, 1)), ("tree", Expansion(6, 8, 8))):
            head = replace(load_head(Path(folder), target), expansion=expansion)
            if head.one_pass and shape == "chain":
                continue
            jobs[f"{folder}, {shape}"] = offers(target, head, contexts)
    times = interleaved(jobs)
    for name in times.keys() & {name for name in jobs if "," in name}:
        times[name] = [time / TEXTS for time in times[name]]
    one = times["target 1 row"]
    return {
        name: {"ms": median(found), "of_target_1_row": median(a / b for a, b in zip(found, one, strict=True))}
        for name, found in times.items()
    }


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("heads", nargs="*")
    parser.add_argument("--states", type=Path, default=Path(".states"))
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    found: dict[str, Any] = {}
    for dtype in ("fp32", "bf16"):
        target = Target.load(embedded_target(), dtype)
        found[dtype] = {"drafting": drafting(target, given.heads)}
        print(f"\ndrafting, {dtype}")
        for name, row in found[dtype]["drafting"].items():
            print(f"  {name:34} {row['ms']:8.2f} ms  {row['of_target_1_row']:6.3f} of the target's pass over one row")
    found["bf16"]["training"] = training(target, given.states)
    print("\ntraining, bf16 (products; weights and losses fp32)")
    for name, row in found["bf16"]["training"].items():
        print(f"  {name:34} {row['tokens_per_s']:8.0f} tokens/s  {row['share_of_target']:6.3f} of the target's forward")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
