"""How far drafters run on held-out prompts: tokens per target pass, by walking rounds along the target's own output.

    python benchmarks/acceptance.py data/heads/* --texts 231 --json acceptance.json

Every row walks the same texts. No target pass is needed: the states are cached. Intervals are prompt bootstraps.
The lookup's weights are fitted on one half of the prompts and scored on the other, both ways.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.ngram_counts import CountDrafter, LookupElseCounts
from policy.build import best_first
from policy.candidates import Candidates
from policy.chain import spine
from policy.tree import DraftTree
from runtime.drafters import Drafter
from runtime.drafters.mixed import MixedDrafter
from runtime.drafters.ngram import NgramDrafter
from runtime.embedded import embedded_target
from runtime.heads.block_session import BlockOffer
from runtime.heads.drafter import HeadDrafter
from runtime.heads.files import load_head, read_manifest
from runtime.heads.trie import Expansion
from runtime.target import Target
from runtime.training.corpus import Text, read_corpus
from runtime.training.evaluation import Walked, tau, walk_texts
from runtime.training.features import Features
from runtime.training.recipes import SHARED_TAPS
from runtime.training.session import cached_states, lookup_weights

CORPUS = Path("data/corpus")
_EXPAND = {"chain": Expansion(5, 1, 1), "tree": Expansion(6, 8, 8)}
_OFFERS = {"chain": BlockOffer(8, 1, width=1), "tree": BlockOffer(), "extended": BlockOffer(extend_above=0.3)}


@dataclass(frozen=True)
class Row:
    """One line of the table: a drafter by name, a shape and a budget."""

    drafter: str
    shape: str
    budget: int

    @property
    def label(self) -> str:
        """Name for the table."""
        return f"{self.drafter}, {self.shape} {self.budget}"

    def build(self, offer: Candidates) -> DraftTree:
        """Make the tree of a round."""
        return spine(offer, self.budget) if self.shape == "chain" else best_first(offer, offer.root, self.budget)


@cache
def held_out(count: int) -> tuple[Target, list[Text]]:
    """Load the target and the kept held-out texts."""
    torch.set_num_threads(1)
    target = Target.load(embedded_target(), "fp32")
    return target, [text for text in read_corpus(CORPUS / "held-out-7.parquet") if text.kept][:count]


@cache
def counts() -> CountDrafter:
    """Count the training texts."""
    texts = [text for path in sorted(CORPUS.glob("training-*.parquet")) for text in read_corpus(path) if text.kept]
    return CountDrafter.count((*text.prompt, *text.output) for text in texts)


def states(target: Target, folder: Path, reads: Any) -> Features:
    """Open the states of all kept held-out texts."""
    texts = [text for text in read_corpus(CORPUS / "held-out-7.parquet") if text.kept]
    return cached_states(target, texts, SHARED_TAPS.reads(target.layers), reads, folder / "held-out", lambda n: None)


def head_drafter(folder: str, shape: str, target: Target) -> HeadDrafter:
    """Load a head, to expand as a shape says."""
    head = load_head(Path(folder), target)
    return replace(head, expansion=_EXPAND["chain" if shape == "chain" else "tree"], offer=_OFFERS[shape])


def walk_row(task: tuple[Row, int, str]) -> tuple[Row, list[Walked]]:
    """Walk one row's texts."""
    row, count, cache_folder = task
    target, texts = held_out(count)
    plain = NgramDrafter()
    simple: dict[str, Drafter] = {
        "prompt lookup": plain,
        "lookup, 7 ahead": NgramDrafter(matches=1, depth=7),
    }
    if row.drafter in ("4-gram counts", "lookup, else counts"):
        simple["4-gram counts"] = counts()
        simple["lookup, else counts"] = LookupElseCounts(NgramDrafter(matches=1, depth=7), counts())
    folder = row.drafter.removesuffix("+lookup")
    reads = SHARED_TAPS.reads(target.layers) if row.drafter in simple else read_manifest(Path(folder)).features
    features = states(target, Path(cache_folder), reads)
    numbers = list(range(len(texts)))
    if row.drafter in simple:
        return row, list(walk_texts(simple[row.drafter], features, numbers, row.build))
    head = head_drafter(folder, row.shape, target)
    if not row.drafter.endswith("+lookup"):
        return row, list(walk_texts(head, features, numbers, row.build))
    walked: list[Walked] = []
    for half in (0, 1):
        weights = lookup_weights(head, features, numbers[1 - half :: 2])
        walked += walk_texts(MixedDrafter(plain, head, weights), features, numbers[half::2], row.build)
    return row, sorted(walked, key=lambda one: one.text)


def summarise(walked: list[Walked], texts: list[Text]) -> dict[str, Any]:
    """Sum up one row: tau with its interval, by task, and the conditional acceptance of each offset."""
    found = tau(walked)
    lengths = np.concatenate([np.array(one.accept_len) for one in walked])
    reached = [(lengths >= k).sum() for k in range(10)]
    by_task = {}
    for task in sorted({texts[one.text].task for one in walked}):
        some = [one for one in walked if texts[one.text].task == task]
        by_task[task] = round(float(tau(some).estimate), 2)
    return {
        "tau": float(found.estimate),
        "low": float(found.low),
        "high": float(found.high),
        "rounds": len(lengths),
        "given_earlier": [round(float(b / a), 3) for a, b in pairwise(reached) if b],
        "by_task": by_task,
    }


def rows_of(heads: list[str]) -> list[Row]:
    """List the rows: baselines, then each head in its shapes."""
    rows = [Row("lookup, 7 ahead", "chain", 7), Row("prompt lookup", "tree", 31)]
    rows += [Row("4-gram counts", "chain", 7), Row("lookup, else counts", "chain", 7)]
    for folder in heads:
        kind = read_manifest(Path(folder)).head["kind"]
        if kind in ("eagle", "eagle3"):
            rows += [Row(folder, "chain", 5), Row(folder, "tree", 31)]
        else:
            rows += [Row(folder, "chain", 8), Row(folder, "tree", 15), Row(folder, "tree", 31)]
        if "block" in kind:
            rows.append(Row(folder, "extended", 31))
        rows.append(Row(f"{folder}+lookup", "tree", 31))
    return rows


def main() -> None:
    """Run the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("heads", nargs="*")
    parser.add_argument("--texts", type=int, default=231)
    parser.add_argument("--states", default=".states")
    parser.add_argument("--only", default="", help="rows whose label holds this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    _, texts = held_out(given.texts)
    rows = [row for row in rows_of([folder.rstrip("/") for folder in given.heads]) if given.only in row.label]
    table = {}
    with get_context("spawn").Pool(given.jobs) as pool:
        for row, walked in pool.imap(walk_row, [(row, given.texts, given.states) for row in rows]):
            found = table[row.label] = summarise(walked, texts)
            print(
                f"{row.label:48} {found['tau']:.2f} [{found['low']:.2f}, {found['high']:.2f}]  "
                + " ".join(f"{share:.2f}" for share in found["given_earlier"]),
                flush=True,
            )
            print(" " * 49 + " ".join(f"{task} {value}" for task, value in found["by_task"].items()), flush=True)
    if given.json:
        given.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
