"""`lawfit audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lawfit.cli.console import print_json, progress
from lawfit.errors import LawfitError
from runtime.cli.options import AsJson, Device, Dtype, NewTokens, TargetFolder, require_runtime


def audit(
    prompts: Annotated[Path, typer.Option(help='JSON Lines of {"prompt_id", "task", "prompt"}.')],
    trees: Annotated[
        str,
        typer.Option(help="ngram: the drafter's trees; random: random trees, with the truth on some branches."),
    ] = "ngram",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random budgets and trees.")] = 0,
    max_new_tokens: NewTokens = 64,
    target: TargetFolder = None,
    dtype: Dtype = "fp32",
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Check that speculative output is the target's own, token for token; exit 1 where it is not.

    Every prompt is decoded plainly, then with trees of a random budget each round. Exactness is decided in fp32:
    in bf16 the target itself is not reproducible across pass sizes.
    """
    require_runtime()
    from runtime.audit import RandomBudget, compare, plain_output
    from runtime.drafters.ngram import NgramDrafter
    from runtime.drafters.random import RandomDrafter
    from runtime.engine import Engine
    from runtime.prompts import load_prompts
    from runtime.setup import load_target

    if trees not in ("ngram", "random"):
        raise LawfitError(f"--trees {trees!r}, expected ngram or random")
    chosen = load_prompts(prompts)
    loaded = load_target(target, dtype, device)
    differing = []
    with progress("auditing", len(chosen)) as advance:
        for at, prompt in enumerate(chosen):
            tokens = loaded.encode(prompt.text)
            expected = plain_output(loaded, tokens, max_new_tokens)
            truth = (*tokens, *expected)
            drafter = NgramDrafter() if trees == "ngram" else RandomDrafter(loaded.vocabulary, seed + at, oracle=truth)
            engine = Engine(loaded, drafter, RandomBudget(24, seed + at))
            found = compare(loaded, tokens, expected, engine.generate(tokens, max_new_tokens))
            if found:
                differing.append({"prompt_id": prompt.prompt_id, **vars(found)})
            advance()
    identical = len(chosen) - len(differing)
    if as_json:
        print_json({"prompts": len(chosen), "identical": identical, "dtype": loaded.dtype, "differing": differing})
    else:
        for row in differing:
            print(
                f"{row['prompt_id']}: differs at output token {row['position']} "
                f"(expected {row['expected']}, found {row['found']}, logit gap {row['gap']:.2g})"
            )
        print(f"identical {identical}/{len(chosen)} prompts ({loaded.dtype})")
    if differing:
        raise typer.Exit(1)
