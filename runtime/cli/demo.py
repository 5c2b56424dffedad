"""`lawfit demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lawfit.cli.console import note, print_json, progress
from runtime.cli.options import AsJson, Device, TargetFolder, require_runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lawfit.log import RoundLog
    from runtime.prompts import Prompt


def demo(
    prompts: Annotated[Path, typer.Option(help="Prompts to decode.")] = Path("data/prompts.jsonl"),
    rounds: Annotated[Path, typer.Option(help="Round log of these prompts, to fit.")] = Path("data/rounds.parquet"),
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for demo.json, report.html, speed.png.")] = Path(
        "out"
    ),
    per_task: Annotated[int, typer.Option(min=1, help="Most prompts of each task.")] = 1000,
    max_new_tokens: Annotated[
        int | None, typer.Option("--max-new-tokens", "-n", min=1, help="Most tokens to emit for a prompt.")
    ] = None,
    minutes: Annotated[
        float, typer.Option(min=0.1, help="Without -n: about how long decoding may take; sets the length of outputs.")
    ] = 5.0,
    target: TargetFolder = None,
    dtype: Annotated[str, typer.Option(help="Speed is measured in this dtype: fp32, bf16 or auto (fastest).")] = "auto",
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Fit a round log, decode with plain, fixed and fitted tree sizes side by side, and report.

    Exactness is decided in fp32; speed in the dtype that verifies fastest on this machine. Exit 1 if an fp32 output
    differs from plain decoding.
    """
    require_runtime()
    from lawfit.files import replacing, write_text
    from lawfit.readers import read_rounds
    from runtime import demo_table
    from runtime.demo import fold_of
    from runtime.demo_report import plot_speed, report
    from runtime.prompts import load_prompts

    log = read_rounds([rounds])
    everything = load_prompts(prompts)
    chosen = first_of_each(everything, per_task)
    folds = fold_of(everything)
    result = _measure(log, chosen, folds, (target, dtype, device), (max_new_tokens, minutes))
    rows = demo_table.lines(result["runs"])
    same = demo_table.identical(result["exact"])
    summary = demo_table.to_json(rows, same, result["extra"])
    write_text(out / "demo.json", _json(summary))
    with replacing(out / "speed.png") as temporary:
        plot_speed(rows).figure.savefig(temporary, format="png")
    write_text(out / "report.html", report(log, rows, same, result["cost"], result["extra"]))
    if as_json:
        print_json(summary)
    else:
        _print_table(demo_table.to_table(rows), summary)
        print(f"identical {same[0]}/{same[1]} prompts")
    if result["extra"]["plain_spread"] > demo_table.RESTLESS:
        note(
            f"plain decoding itself varied {result['extra']['plain_spread']:.1f}-fold between prompts: "
            "the machine was busy, so the ratios of this run say little"
        )
    note(f"wrote {out / 'demo.json'}, {out / 'report.html'} and {out / 'speed.png'}")
    if same[0] < same[1]:
        raise typer.Exit(1)


def first_of_each(prompts: Sequence[Prompt], per_task: int) -> list[Prompt]:
    """Keep the first ``per_task`` prompts of every task."""
    seen: dict[str, int] = {}
    kept = []
    for prompt in prompts:
        seen[prompt.task] = seen.get(prompt.task, 0) + 1
        if seen[prompt.task] <= per_task:
            kept.append(prompt)
    return kept


def _measure(
    log: RoundLog,
    prompts: Sequence[Prompt],
    folds: dict[str, int],
    how: tuple[Path | None, str, str],
    length: tuple[int | None, float],
) -> dict[str, Any]:
    """Fit, measure cost, and decode in every arm; where speed is not fp32, audit in fp32 as well."""
    from runtime.demo import ADAPTIVE, PLAIN, Demo, affordable, fit_folds
    from runtime.demo_table import spread
    from runtime.drafters.ngram import NgramDrafter
    from runtime.profile import profile
    from runtime.setup import load_target

    note(f"fitting {log.source}: {len(log)} rounds")
    laws = fit_folds(log, folds)
    folder, dtype, device = how
    loaded = load_target(folder, dtype, device)
    note(f"target {loaded.name}, {loaded.dtype} on {loaded.device}; measuring what a round costs here")
    cost = profile(loaded)
    max_new_tokens = length[0] or affordable(len(prompts), cost, length[1], audit=loaded.dtype != "fp32")
    note(f"{len(prompts)} prompts, at most {max_new_tokens} new tokens each")
    demo = Demo(loaded, NgramDrafter(), cost, laws, max_new_tokens)
    # One uncounted prompt warms code paths and memory for every arm.
    demo.compare(prompts[0], demo.arms(0), 0)
    with progress("decoding plain, 4, 8, 16, adaptive", len(prompts)) as advance:
        runs = demo.run(prompts, folds, advance)
    exact = runs
    if loaded.dtype != "fp32":
        fp32 = Demo(load_target(folder, "fp32", device), demo.drafter, cost, laws, max_new_tokens)
        with progress("auditing in fp32", len(prompts)) as advance:
            exact = []
            for at, prompt in enumerate(prompts):
                arms = fp32.arms(folds[prompt.prompt_id])
                exact += fp32.compare(prompt, {name: arms[name] for name in (PLAIN, ADAPTIVE)}, at)
                advance()
    plain = [run for run in runs if run.arm == PLAIN]
    extra = {
        "target": loaded.name,
        "dtype": loaded.dtype,
        "device": str(loaded.device),
        "max_new_tokens": max_new_tokens,
        "plain_spread": spread(runs),
        "plain_tokens_per_s": sum(run.tokens for run in plain) / sum(run.seconds for run in plain),
        "cost": {"budgets": cost.budgets.tolist(), "round_ms": cost.round_ms.tolist()},
    }
    return {"runs": runs, "exact": exact, "cost": cost, "extra": extra}


def _print_table(table: list[list[str]], summary: dict[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    title = f"tokens per second over plain decoding ({summary['plain_tokens_per_s']:.1f}/s, {summary['dtype']})"
    view = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for at, cell in enumerate(table[0]):
        view.add_column(cell, justify="left" if at == 0 else "right", no_wrap=True)
    for at, row in enumerate(table[1:], 1):
        view.add_row(*row, style="bold" if at == len(table) - 1 else "", end_section=at == len(table) - 2)
    Console().print(view)


def _json(value: dict[str, Any]) -> str:
    import json

    return json.dumps(value, indent=2) + "\n"
