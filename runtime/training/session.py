"""A training run from corpus to head: states, draft vocabulary, steps, a learning curve on other prompts, files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lawfit.errors import FitError
from lawfit.files import write_text
from policy.build import best_first
from policy.match_weights import MatchWeights
from runtime.drafters.mixed import MixedDrafter, match_rows
from runtime.drafters.ngram import NgramDrafter
from runtime.errors import TrainingError
from runtime.frozen import Frozen, draft_vocabulary
from runtime.heads.block import FeatureBlock
from runtime.heads.drafter import Head, HeadDrafter
from runtime.heads.drafting import Expansion
from runtime.heads.eagle import EagleHead
from runtime.heads.files import LOOKUP, save_head
from runtime.manifest import TargetIdentity, weights_digest
from runtime.states import FeatureAddress
from runtime.target import DTYPES, Target
from runtime.training.batches import Batch, batches
from runtime.training.corpus import Text
from runtime.training.evaluation import Walked, tau, walk_texts
from runtime.training.features import Features, extract
from runtime.training.identity import claim, texts_digest
from runtime.training.loop import Schedule, train
from runtime.training.recipes import Part, Recipe

_LOOKUP_TEXTS = 96


@dataclass(frozen=True)
class Course:
    """Sizes of a run.

    Attributes
    ----------
    steps, rows
        Steps, and places of a batch.
    words
        Draft vocabulary; 0 for the target's own.
    curve_every, curve_texts
        Steps between the points of the learning curve, and held-out texts walked for each.
    budget
        Of the trees that are walked; the chain of the offsets for a head that drafts one token a pass.
    seed
        Of the head, the batches and what a step draws.
    """

    steps: int
    rows: int = 1500
    words: int = 12288
    curve_every: int = 200
    curve_texts: int = 24
    budget: int = 5
    seed: int = 0


@dataclass(frozen=True)
class CurvePoint:
    """Acceptance on held-out prompts after ``step`` steps and ``seconds`` of training."""

    step: int
    seconds: float
    tau: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Sources:
    """What a run learns from and is judged by: kept texts and their states, of training and of held-out prompts.

    ``paths`` are the files of both.
    """

    target: Target
    texts: list[Text]
    features: Features
    held_out: Features
    reads: FeatureAddress
    paths: tuple[Path, ...] = ()


def cached_states(
    target: Target,
    texts: Sequence[Text],
    stored: FeatureAddress,
    reads: FeatureAddress,
    folder: Path,
    on_texts: Callable[[int], object],
) -> Features:
    """Open the states of some texts, computed now where ``folder`` holds none; a stale cache is refused.

    The final state is always among them: it is what every head is taught by, also one that does not read it.
    """
    identity = TargetIdentity.of(target)
    if not (folder / "fingerprint.json").is_file():
        extract(target, texts, stored, folder, on_texts=on_texts)
    found = Features.load(folder, replace(reads, final="post-norm"), identity)
    same = len(found) == len(texts) and all(
        found.text_ids(k) == (*text.prompt, *text.output) and int(found.prompts[k]) == len(text.prompt)
        for k, text in enumerate(texts)
    )
    if not same:
        raise TrainingError(f"{folder}: states of other texts than the corpus has: remove the folder, or name another")
    return found


def run(
    recipe: Recipe,
    sources: Sources,
    course: Course,
    folder: Path,
    *,
    name: str,
    theta: float = 10000.0,
    begin: HeadDrafter | None = None,
    on_step: Callable[[dict[str, float]], object] = lambda record: None,
    on_point: Callable[[CurvePoint], object] = lambda point: None,
) -> tuple[Head, list[CurvePoint]]:
    """Train a head and write it to ``folder``; a run that was killed goes on from its checkpoint.

    Returns
    -------
    Head, list of CurvePoint
        The head, and its curve on the held-out texts.
    """
    target, dtype = sources.target, DTYPES[sources.target.dtype]
    identity = TargetIdentity.of(target)
    words = _words(sources, course)
    claim(
        folder / "work",
        {
            "recipe": [name, asdict(recipe)],
            **asdict(course),
            "texts": texts_digest(sources.texts),
            "target": asdict(identity),
            "dtype": target.dtype,
            "theta": theta,
            "from": "" if begin is None else weights_digest(begin.head),
        },
    )
    head = recipe.head(target, words, theta, course.seed)
    if begin is not None:
        begin_from(head, begin, words)
    frozen = Frozen.of(target, words, dtype)
    schedule = Schedule(course.steps, learning_rate=recipe.learning_rate, seed=course.seed)
    points = _read_curve(folder / "work" / "curve.jsonl")

    def losses(batch: Batch, generator: torch.Generator, step: int) -> Iterator[Part]:
        yield from recipe.losses(head, batch, frozen, generator, step / course.steps)

    def watch(record: dict[str, float]) -> None:
        on_step(record)
        done = int(record["step"]) + 1
        seconds.append(record["seconds"])
        if (done % course.curve_every == 0 or done == course.steps) and all(point.step != done for point in points):
            points.append(_point(head, frozen, sources, course, done, sum(seconds)))
            _write_curve(folder / "work" / "curve.jsonl", points)
            on_point(points[-1])

    seconds = [record["seconds"] for record in _lines(folder / "work" / "log.jsonl")]
    train(head, partial(_batches, sources.features, course, dtype), losses, schedule, folder / "work", dtype=dtype,
          on_step=watch)  # fmt: skip
    save_head(folder, name, head, words, sources.reads, identity)
    exact = Frozen.of(target, words)
    drafter = HeadDrafter(head, exact, sources.reads)
    (folder / LOOKUP).unlink(missing_ok=True)
    with suppress(FitError):  # no text copies: there is nothing to weigh
        weights = lookup_weights(drafter, sources.held_out, range(len(sources.held_out)))
        write_text(folder / LOOKUP, weights.to_json())
    return head, points


def begin_from(head: Head, other: HeadDrafter, words: Tensor) -> None:
    """Begin with the weights of a trained head: of the same kind, or an EAGLE head for a block of features.

    Raises
    ------
    TrainingError
        The head cannot begin from that one.
    """
    try:
        if isinstance(head, FeatureBlock) and isinstance(other.head, EagleHead):
            head.begin_from(other.head)
        elif getattr(head, "config", None) != other.head.config or not torch.equal(words, other.frozen.draft_tokens):
            raise TrainingError(f"{other.name}: another configuration or other draft words, so its weights mean others")
        else:
            head.load_state_dict(other.head.state_dict())
    except RuntimeError as error:
        raise TrainingError(f"{other.name}: another head ({str(error).splitlines()[0]:.120})") from error


def lookup_weights(drafter: HeadDrafter, features: Features, texts: Sequence[int]) -> MatchWeights:
    """Fit how far prompt lookup is trusted beside a head, on texts that the head was not trained on (96 at most)."""
    mixed = MixedDrafter(NgramDrafter(), drafter, MatchWeights((1,), (0.5,)))
    rows = []
    for text in texts[:_LOOKUP_TEXTS]:
        tokens, states, prompt = features.text(text)
        rows.extend(match_rows(mixed, tokens.tolist(), prompt, states.float()))
    return MatchWeights.fit(rows)


def evaluate(
    head: Head, frozen: Frozen, sources: Sources, budget: int, texts: Sequence[int], expansion: Expansion
) -> list[Walked]:
    """Walk held-out texts with a head as it is."""
    head.eval()
    drafter = HeadDrafter(head, frozen, sources.reads, expansion)
    return list(walk_texts(drafter, sources.held_out, texts, lambda offer: best_first(offer, offer.root, budget)))


def _point(head: Head, frozen: Frozen, sources: Sources, course: Course, step: int, seconds: float) -> CurvePoint:
    texts = range(min(course.curve_texts, len(sources.held_out)))
    plain = Frozen(frozen.embedding.float(), frozen.head.float(), frozen.draft_tokens)
    found = tau(evaluate(head, plain, sources, course.budget, texts, Expansion(course.budget, 1, 1)))
    head.train()
    return CurvePoint(step, seconds, float(found.estimate), float(found.low), float(found.high))


def _batches(features: Features, course: Course, dtype: torch.dtype, start: int) -> Iterator[Batch]:
    return batches(features, course.rows, course.seed, dtype, start)


def _words(sources: Sources, course: Course) -> Tensor:
    vocabulary = sources.target.vocabulary
    size = min(course.words or vocabulary, vocabulary)
    return draft_vocabulary([text.output for text in sources.texts], size, vocabulary)


def steps_done(folder: Path) -> int:
    """Count the steps that a run in ``folder`` has saved."""
    return len(_lines(folder / "work" / "log.jsonl"))


def _read_curve(path: Path) -> list[CurvePoint]:
    try:
        return [CurvePoint(**record) for record in _lines(path)]
    except TypeError as error:
        raise TrainingError(f"{path}: not a learning curve ({error})") from error


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    except ValueError as error:
        raise TrainingError(f"{path}: a damaged log ({error}): remove the folder") from error


def _write_curve(path: Path, points: Sequence[CurvePoint]) -> None:
    write_text(path, "".join(json.dumps(asdict(point)) + "\n" for point in points))
