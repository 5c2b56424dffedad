"""`lawfit train`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lawfit.cli.console import note, progress
from lawfit.errors import LawfitError
from runtime.cli.options import TargetFolder, require_runtime

if TYPE_CHECKING:
    from runtime.heads.drafter import HeadDrafter
    from runtime.states import FeatureAddress
    from runtime.target import Target
    from runtime.training.corpus import Text
    from runtime.training.curve import CurvePoint
    from runtime.training.features import Features
    from runtime.training.recipes import Recipe
    from runtime.training.session import Course, Sources


def train(
    recipe: Annotated[str, typer.Argument(help="eagle1, hass, eagle3, glance or medusa; more with --help.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the head; a run that was killed goes on there.")],
    corpus: Annotated[
        list[Path] | None,
        typer.Option(help="Texts to train on, .parquet or .jsonl; again for more. [the target's own output, made now]"),
    ] = None,
    held_out: Annotated[
        Path | None, typer.Option(help="Texts of other prompts, for the learning curve; needed with --corpus.")
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(help="Prompts that the target answers for its corpus, JSON Lines. [made from word lists]"),
    ] = None,
    tokens: Annotated[int, typer.Option(min=100, help="Kept tokens of output to make.")] = 300_000,
    states: Annotated[
        Path | None, typer.Option(help="Folder for the target's states; made when absent (7 kB a token here).")
    ] = None,
    begin: Annotated[
        Path | None,
        typer.Option("--from", help="A trained head to begin from: of the same kind, or EAGLE's for glance."),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Optimiser steps.")] = 1000,
    rows: Annotated[int, typer.Option(min=16, help="Places of a batch.")] = 1500,
    draft_words: Annotated[int, typer.Option(min=0, help="Draft vocabulary; 0 for the target's own.")] = 12288,
    curve_every: Annotated[int, typer.Option(min=1, help="Steps between points of the learning curve.")] = 200,
    seed: Annotated[int, typer.Option(min=0, max=1_000_000, help="Of weights, batches and noise.")] = 0,
    threads: Annotated[int, typer.Option(min=0, max=1024, help="CPU threads; 0 for torch's choice.")] = 0,
    target: TargetFolder = None,
    dtype: Annotated[str, typer.Option(help="fp32, or bf16 for the products where that is fast.")] = "bf16",
) -> None:
    """Train a draft head on a frozen target, from texts that the target wrote.

    Without --corpus the target first writes one: its own greedy output, loops dropped, one prompt in ten held out. A
    run killed while that is written goes on with other texts; from then on it gives the head of a run undisturbed.
    The head, its manifest, its learning curve on held-out prompts (tokens per target pass of its trees) and a plot
    are written to --out. Recipes: eagle1, hass, eagle3, glance (working forms), hass-paper, eagle3-paper,
    glance-paper (as published), medusa.

    Examples
    --------
      lawfit train hass -o my-head --target FOLDER

      lawfit train hass -o my-head --corpus data/corpus/training-1.parquet --held-out data/corpus/held-out-7.parquet
    """
    require_runtime()
    import torch

    from runtime.heads.files import load_head
    from runtime.setup import load_target
    from runtime.training.recipes import find_recipe
    from runtime.training.session import Course

    chosen = find_recipe(recipe)
    if (corpus is None) != (held_out is None) or (corpus and prompts):
        raise LawfitError("give --corpus with --held-out, or neither of them and perhaps --prompts")
    if out.exists() and not out.is_dir():
        raise LawfitError(f"{out}: is a file, expected a folder for the head")
    if threads:
        torch.set_num_threads(threads)
    loaded = load_target(target, dtype, "cpu")
    first = load_head(begin, loaded) if begin else None
    if corpus is None or held_out is None:
        made, held_out = _write_corpora(loaded, prompts, out / "work", tokens, seed)
        corpus = [made]
    budget = 5 if chosen.kind in ("eagle", "eagle3") else 8
    course = Course(steps, rows, draft_words, curve_every, budget=budget, seed=seed)
    _run(recipe, _sources(loaded, chosen, corpus, held_out, states or out / "states"), course, out, first)
    note(f"head written to {out}")


def _write_corpora(target: Target, prompts: Path | None, folder: Path, tokens: int, seed: int) -> tuple[Path, Path]:
    from runtime.prompts import load_prompts
    from runtime.training.sources import own_output

    asked = load_prompts(prompts) if prompts else None
    with progress("kept tokens of the target's output", tokens) as advance:
        return own_output(target, asked, folder, tokens, seed, _Told(advance))


def _sources(target: Target, recipe: Recipe, corpus: list[Path], held_out: Path, folder: Path) -> Sources:
    from runtime.training.session import Sources
    from runtime.training.sources import kept_texts, require_other_prompts

    texts, others = kept_texts(corpus, target), kept_texts([held_out], target)
    require_other_prompts(texts, others)
    reads = recipe.reads(target.layers)
    training = _states(target, texts, reads, folder / "training")
    return Sources(target, texts, training, _states(target, others, reads, folder / "held-out"), reads,
                   (*corpus, held_out))  # fmt: skip


def _run(name: str, sources: Sources, course: Course, out: Path, begin: HeadDrafter | None) -> None:
    from runtime.training.card import write_card
    from runtime.training.curve import steps_done
    from runtime.training.recipes import find_recipe
    from runtime.training.session import run

    def tell(point: CurvePoint) -> None:
        note(f"step {point.step}: tau {point.tau:.2f} [{point.low:.2f}, {point.high:.2f}] on held-out prompts")

    recipe = find_recipe(name)
    with progress(f"training {name}", course.steps) as advance:
        if done := steps_done(out):
            advance(done)
        _, points = run(
            recipe, sources, course, out, name=name, begin=begin, on_step=lambda record: advance(), on_point=tell
        )
    write_card(out, recipe, course, sources.paths, points, sys.argv[1:])


class _Told:
    """Turns a count that grows into steps of a bar."""

    def __init__(self, advance: Callable[[int], object]) -> None:
        self.advance, self.count = advance, 0

    def __call__(self, count: int) -> None:
        self.advance(count - self.count)
        self.count = count


def _states(target: Target, texts: list[Text], reads: FeatureAddress, folder: Path) -> Features:
    from runtime.training.recipes import SHARED_TAPS
    from runtime.training.session import cached_states

    # One cache serves every recipe of one target where the shared taps hold those of this one.
    shared = SHARED_TAPS.reads(target.layers)
    stored = shared if set(reads.layers) <= set(shared.layers) else reads
    with progress(f"states of {len(texts)} texts", len(texts)) as advance:
        return cached_states(target, texts, stored, reads, folder, advance)
