"""A training run from corpus to head: states, draft vocabulary, steps, a learning curve on other prompts, files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lawfit.bootstrap import Interval
from lawfit.errors import FitError
from lawfit.files import remove_unfinished, write_text
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
from runtime.heads.files import LOOKUP, MANIFEST, WEIGHTS, save_head
from runtime.manifest import TargetIdentity, weights_digest
from runtime.states import FeatureAddress
from runtime.target import DTYPES, Target
from runtime.training.batches import Batch, batches
from runtime.training.corpus import Text
from runtime.training.curve import CurvePoint, LearningCurve
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
    words = _words(sources, course)
    head = recipe.head(target, words, theta, course.seed)
    if begin is not None:
        begin_from(head, begin, words)
    claim(folder / "work", _identity(name, recipe, course, sources, theta, begin))
    frozen = Frozen.of(target, words, dtype)
    curve = LearningCurve(folder / "work", course.curve_every, course.steps)

    def losses(batch: Batch, generator: torch.Generator, step: int) -> Iterator[Part]:
        yield from recipe.losses(head, batch, frozen, generator, step / course.steps)

    def watch(record: dict[str, float]) -> None:
        on_step(record)
        if point := curve.follow(record, partial(_measure, head, frozen, sources, course)):
            on_point(point)

    schedule = Schedule(course.steps, learning_rate=recipe.learning_rate, seed=course.seed)
    dealt = partial(_batches, sources.features, course, dtype)
    train(head, dealt, losses, schedule, folder / "work", dtype=dtype, on_step=watch)
    _save(folder, name, head, words, sources)
    return head, curve.points


def _identity(
    name: str, recipe: Recipe, course: Course, sources: Sources, theta: float, begin: HeadDrafter | None
) -> dict[str, Any]:
    """Tell all that the steps depend on."""
    return {
        "recipe": [name, asdict(recipe)],
        **asdict(course),
        "texts": texts_digest(sources.texts),
        "target": asdict(TargetIdentity.of(sources.target)),
        "dtype": sources.target.dtype,
        "theta": theta,
        "from": "" if begin is None else weights_digest(begin.head),
    }


def _save(folder: Path, name: str, head: Head, words: Tensor, sources: Sources) -> None:
    """Write the head, and how far lookup is trusted beside it."""
    remove_unfinished(*(folder / file for file in (WEIGHTS, MANIFEST, LOOKUP)))
    save_head(folder, name, head, words, sources.reads, TargetIdentity.of(sources.target))
    drafter = HeadDrafter(head, Frozen.of(sources.target, words), sources.reads)
    (folder / LOOKUP).unlink(missing_ok=True)
    with suppress(FitError):  # no text copies: there is nothing to weigh
        weights = lookup_weights(drafter, sources.held_out, range(len(sources.held_out)))
        write_text(folder / LOOKUP, weights.to_json())


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


def _measure(head: Head, frozen: Frozen, sources: Sources, course: Course) -> Interval:
    texts = range(min(course.curve_texts, len(sources.held_out)))
    plain = Frozen(frozen.embedding.float(), frozen.head.float(), frozen.draft_tokens)
    found = tau(evaluate(head, plain, sources, course.budget, texts, Expansion(course.budget, 1, 1)))
    head.train()
    return found


def _batches(features: Features, course: Course, dtype: torch.dtype, start: int) -> Iterator[Batch]:
    return batches(features, course.rows, course.seed, dtype, start)


def _words(sources: Sources, course: Course) -> Tensor:
    vocabulary = sources.target.vocabulary
    size = min(course.words or vocabulary, vocabulary)
    return draft_vocabulary([text.output for text in sources.texts], size, vocabulary)
