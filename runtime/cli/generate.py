"""`lawfit generate`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lawfit.cli.console import note, print_json
from lawfit.errors import LawfitError
from runtime.cli.options import (
    AsJson,
    Device,
    DrafterName,
    Dtype,
    NewTokens,
    PromptFile,
    Seed,
    TargetFolder,
    Temperature,
    TopK,
    TopP,
    require_runtime,
)

if TYPE_CHECKING:
    from runtime.engine import Engine
    from runtime.prompts import Prompt
    from runtime.recorder import Recorder


def generate(
    text: Annotated[str | None, typer.Argument(help="One prompt; or give a file with --prompts.")] = None,
    prompts: PromptFile = None,
    budget: Annotated[int, typer.Option(min=0, max=64, help="Draft nodes a round; 0 is plain decoding.")] = 8,
    adaptive: Annotated[
        Path | None,
        typer.Option(help="Size every tree by the law fitted on this round log, and by cost measured here."),
    ] = None,
    log: Annotated[Path | None, typer.Option(help="Append every round to this .parquet round log.")] = None,
    max_new_tokens: NewTokens = 128,
    target: TargetFolder = None,
    dtype: Dtype = "fp32",
    device: Device = "auto",
    drafter: DrafterName = "ngram",
    temperature: Temperature = 0.0,
    top_p: TopP = 1.0,
    top_k: TopK = 0,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Decode prompts with draft trees; the text is the target's own output: greedy, or sampled with --temperature.

    A sampled output depends on its prompt and the seed, never on what was drafted. The entropies of the log are those
    of the target's own rows, before temperature and filters.

    Text goes to stdout, a summary of rounds and speed to stderr.

    Examples
    --------
      lawfit generate "Repeat word for word: the cat sat on the mat."

      lawfit generate --prompts data/prompts.jsonl --adaptive data/rounds.parquet --log my-rounds.parquet

      lawfit generate "Tell me a story." --temperature 0.8 --top-p 0.95 --seed 1
    """
    require_runtime()
    from lawfit.readers import read_with_notes
    from runtime.drafters.named import make_drafter
    from runtime.engine import Engine
    from runtime.prompts import Prompt, load_prompts
    from runtime.recorder import Recorder
    from runtime.sampling import Sampling
    from runtime.setup import ENGINE, load_target, make_policy

    if (text is None) == (prompts is None):
        raise LawfitError("give one prompt as text, or a file with --prompts")
    sampling = Sampling(temperature, top_p, top_k, seed)
    chosen = [Prompt("prompt", "prompt", text)] if text is not None else load_prompts(prompts)
    fitted_on = None
    if adaptive:
        reading = read_with_notes([adaptive])
        fitted_on = reading.log
        for line in reading.notes[1:]:
            note(line)
    loaded = load_target(target, dtype, device)
    engine = Engine(loaded, make_drafter(drafter, loaded), make_policy(loaded, budget, fitted_on), sampling)
    keys = {"engine": ENGINE, "target": loaded.name, "drafter": engine.drafter.name, "temperature": float(temperature)}
    with Recorder(log, keys) if log else nullcontext() as recorder:
        results = []
        for prompt in chosen:
            if not as_json and len(chosen) > 1:
                print(f"\n## {prompt.prompt_id} ({prompt.task})", flush=True)
            results.append(_decode(engine, prompt, max_new_tokens, recorder, show=not as_json))
    if as_json:
        print_json(results)
    _summary(results, log)


def _decode(
    engine: Engine, prompt: Prompt, max_new_tokens: int, recorder: Recorder | None, *, show: bool
) -> dict[str, Any]:
    """Decode one prompt, streaming its text; return what `--json` reports of it."""
    from runtime.loops import loops

    target = engine.target
    request = engine.start(target.encode(prompt.text), max_new_tokens)
    keys = {"request_id": prompt.prompt_id, "prompt_id": prompt.prompt_id, "task": prompt.task}
    rounds, speculated, elapsed, shown = 0, 0, 0.0, ""
    for done in engine.rounds(request):
        rounds, elapsed = rounds + 1, elapsed + done.times.round_ms
        speculated += done.decision.tree.budget > 0
        if recorder is not None:
            recorder.record({**keys, **done.row()})
        if show:
            shown = _stream(target.decode(request.output), shown)
    text = target.decode(request.output)
    if show:
        print(text[len(shown) :], flush=True)
    decoded = len(request.output) - 1
    return {
        **{name: keys[name] for name in ("prompt_id", "task")},
        "text": text,
        "tokens": request.output,
        "rounds": rounds,
        "tau": decoded / rounds if rounds else None,
        "speculated": speculated / rounds if rounds else None,
        "decode_ms": elapsed,
        "loops": loops(request.output),
    }


def _stream(text: str, shown: str) -> str:
    """Print what is new of ``text``, holding back a character that is not whole yet."""
    whole = text.rstrip("\ufffd")
    if not whole.startswith(shown):
        return shown
    sys.stdout.write(whole[len(shown) :])
    sys.stdout.flush()
    return whole


def _summary(results: list[dict[str, Any]], log: Path | None) -> None:
    tokens = sum(len(result["tokens"]) - 1 for result in results)
    rounds = sum(result["rounds"] for result in results)
    seconds = sum(result["decode_ms"] for result in results) / 1e3
    looping = [result["prompt_id"] for result in results if result["loops"]]
    if looping:
        note(f"{len(looping)} outputs end in a loop, which inflates acceptance: {', '.join(looping)}")
    if rounds:
        speculated = sum((result["speculated"] or 0) * result["rounds"] for result in results) / rounds
        note(
            f"{len(results)} prompts, {tokens} tokens in {rounds} rounds: tau {tokens / rounds:.2f}, "
            f"{tokens / seconds:.1f} tokens/s decoding, {speculated:.0%} of rounds speculated"
        )
    if log:
        note(f"{rounds} rounds appended to {log}" if rounds else f"no round was needed, so {log} is as it was")
