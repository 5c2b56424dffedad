"""`lawfit trace`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lawfit.cli.console import note, progress
from lawfit.errors import LawfitError
from runtime.cli.options import (
    Device,
    DrafterName,
    Dtype,
    NewTokens,
    Seed,
    TargetFolder,
    Temperature,
    TopK,
    TopP,
    require_runtime,
)


def trace(
    prompts: Annotated[Path, typer.Option(help='JSON Lines of {"prompt_id", "task", "prompt"}.')],
    out: Annotated[Path, typer.Option("--out", "-o", help="Trace to write (.parquet).")],
    max_new_tokens: NewTokens = 128,
    drafter: DrafterName = "ngram",
    target: TargetFolder = None,
    dtype: Dtype = "fp32",
    device: Device = "auto",
    temperature: Temperature = 0.0,
    top_p: TopP = 1.0,
    top_k: TopK = 0,
    seed: Seed = 0,
) -> None:
    """Draft from every position of the target's own greedy output, and write the trace.

    The output does not depend on the policy, so a trace replays any policy exactly; it also reads as a round log
    (`lawfit fit trace.parquet`), one row per position.
    """
    require_runtime()
    import polars as pl

    from lawfit.trace import Trace
    from runtime.drafters.named import make_drafter
    from runtime.prompts import load_prompts
    from runtime.sampling import Sampling
    from runtime.setup import ENGINE, load_target
    from runtime.trace import trace_request

    if out.suffix.lower() != ".parquet":
        raise LawfitError(f"{out}: suffix {out.suffix!r}, expected .parquet")
    if out.is_dir() or any(parent.is_file() for parent in out.parents):
        raise LawfitError(f"{out}: cannot be written: it is a folder, or a file stands where its folder should")
    chosen, sampling = load_prompts(prompts), Sampling(temperature, top_p, top_k, seed)
    loaded = load_target(target, dtype, device)
    offering = make_drafter(drafter, loaded)
    keys = {
        "run_id": out.stem,
        "engine": ENGINE,
        "target": loaded.name,
        "drafter": offering.name,
        "temperature": float(temperature),
    }
    rows = []
    with progress("tracing", len(chosen)) as advance:
        for prompt in chosen:
            names = {"request_id": prompt.prompt_id, "prompt_id": prompt.prompt_id, "task": prompt.task}
            traced = trace_request(loaded, offering, loaded.encode(prompt.text), max_new_tokens, sampling)
            rows.extend({**keys, **names, **row} for row in traced)
            advance()
    if not rows:
        raise LawfitError("no output has two tokens, so there is no position to draft from")
    Trace.from_frame(pl.DataFrame(rows, infer_schema_length=None)).write(out)
    note(f"{len(rows)} positions of {len(chosen)} prompts written to {out}")
