"""`lawfit audit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lawfit.cli.console import print_json, progress
from lawfit.errors import LawfitError
from runtime.cli.options import AsJson, Device, NewTokens, Seed, TargetFolder, Temperature, TopK, TopP, require_runtime

if TYPE_CHECKING:
    from runtime.audit import System
    from runtime.prompts import Prompt
    from runtime.sampling import Sampling
    from runtime.target import Target

_CHAIN, _TREE, _RANDOM = 8, 31, 24
_SHAPES = ("chain", "tree", "random")


def audit(
    prompts: Annotated[Path, typer.Option(help='JSON Lines of {"prompt_id", "task", "prompt"}.')],
    drafter: Annotated[
        list[str] | None,
        typer.Option(help="ngram, random, a head's folder, HEAD+ngram, two-model:FOLDER; again for more. [ngram]"),
    ] = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="chain (8), tree (31), or random trees; again for more. [all three]")
    ] = None,
    budget: Annotated[int | None, typer.Option(min=0, max=512, help="Instead of shapes: trees of this size.")] = None,
    adaptive: Annotated[
        Path | None, typer.Option(help="Instead of shapes: trees sized by the law fitted on this round log.")
    ] = None,
    dtype: Annotated[list[str] | None, typer.Option(help="fp32 or bf16; again for both. [fp32]")] = None,
    seed: Seed = 0,
    max_new_tokens: NewTokens = 64,
    temperature: Temperature = 0.0,
    top_p: TopP = 1.0,
    top_k: TopK = 0,
    target: TargetFolder = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Check that speculative output is the target's own, token for token; exit 1 where it is not in fp32.

    Every prompt is decoded plainly, once more plainly as a control, and by every drafter in every shape. Exactness is
    decided in fp32: in bf16 the target itself is not reproducible across pass sizes, and the control shows it only
    where its two runs differ. With a temperature the outputs are draws under one seed, and must be identical too.
    """
    require_runtime()
    from runtime.prompts import load_prompts
    from runtime.sampling import Sampling
    from runtime.setup import load_target

    if unknown := sorted(set(shape or ()) - set(_SHAPES)):
        raise LawfitError(f"--shape {unknown[0]!r}, expected {', '.join(_SHAPES)}")
    if budget is not None and adaptive is not None:
        raise LawfitError("give --budget or --adaptive, not both")
    chosen, sampling = load_prompts(prompts), Sampling(temperature, top_p, top_k, seed)
    rows = []
    for name in dtype or ["fp32"]:
        loaded = load_target(target, name, device)
        systems = _systems(loaded, drafter or ["ngram"], shape or list(_SHAPES), budget, adaptive)
        rows.extend(_audit(loaded, systems, chosen, max_new_tokens, sampling))
    if as_json:
        print_json({"prompts": len(chosen), "systems": rows})
    else:
        _print(rows, len(chosen))
    if any(row["differing"] and row["dtype"] == "fp32" for row in rows):
        raise typer.Exit(1)


def _systems(
    target: Target, drafters: list[str], shapes: list[str], budget: int | None, adaptive: Path | None
) -> list[System]:
    from lawfit.readers import read_with_notes
    from policy.chain import FixedChain
    from policy.controller import FixedBudget
    from runtime.audit import RandomTree, System
    from runtime.drafters.named import make_drafter
    from runtime.setup import make_policy

    policies: dict[str, tuple[str, Any]] = {
        "chain": (f"chain {_CHAIN}", FixedChain(_CHAIN)),
        "tree": (f"tree {_TREE}", FixedBudget(_TREE)),
        "random": ("random", RandomTree(_RANDOM)),
    }
    kept = dict(policies[shape] for shape in _SHAPES if shape in shapes)
    if budget is not None:
        kept = {f"tree {budget}": FixedBudget(budget)}
    if adaptive is not None:
        kept = {"adaptive": make_policy(target, 0, read_with_notes([adaptive]).log)}
    systems = [System("target, no drafter, again")]
    for name in drafters:
        made = make_drafter(name, target)
        systems += [System(f"{made.name}, {shape}", made, policy) for shape, policy in kept.items()]
    return systems


def _audit(
    target: Target, systems: list[System], prompts: list[Prompt], max_new_tokens: int, sampling: Sampling
) -> list[dict[str, Any]]:
    from runtime.audit import audit_prompt

    rows: list[dict[str, Any]] = [
        {"system": system.name, "dtype": target.dtype, "identical": 0, "differing": []} for system in systems
    ]
    with progress(f"auditing in {target.dtype}", len(prompts)) as advance:
        for number, prompt in enumerate(prompts):
            tokens = target.encode(prompt.text)
            found = audit_prompt(target, systems, tokens, max_new_tokens, sampling, seed=number)
            for row, divergence in zip(rows, found, strict=True):
                row["identical"] += divergence is None
                if divergence is not None:
                    row["differing"].append({"prompt_id": prompt.prompt_id, **vars(divergence)})
            advance()
    return rows


def _print(rows: list[dict[str, Any]], prompts: int) -> None:
    """Print the table of output equivalence (GLANCE Table 6), and every first divergence under it."""
    width = max(len(row["system"]) for row in rows)
    print(f"{'system':{width}}  dtype  identical")
    for row in rows:
        print(f"{row['system']:{width}}  {row['dtype']:5}  {row['identical']}/{prompts}")
    for row in rows:
        for at in row["differing"]:
            print(
                f"{row['system']} ({row['dtype']}), {at['prompt_id']}: differs at output token {at['position']} "
                f"(expected {at['expected']}, found {at['found']}, gap of the two largest logits {at['gap']:.2g})"
            )
