"""Where a run's texts come from: corpora that are given, or the target's own output on prompts, split by prompt."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from runtime.errors import TrainingError
from runtime.prompts import Prompt
from runtime.target import Target
from runtime.training.corpus import Text, grow_corpus, read_corpus
from runtime.training.prompts import load_words, make_prompts

# One prompt in ten is held out, and at most so many tokens of them are written.
_HELD_OUT, _HELD_OUT_TOKENS = 10, 24_000


def kept_texts(paths: Sequence[Path], target: Target) -> list[Text]:
    """Read the texts of corpora that a head of ``target`` can be trained on: those that fit its context.

    Raises
    ------
    TrainingError
        A file is no corpus, a token is outside the vocabulary, or no text is left.
    """
    names = ", ".join(map(str, paths))
    texts = [text for path in paths for text in read_corpus(path) if text.kept]
    texts = [text for text in texts if len(text.prompt) + len(text.output) <= target.max_context]
    texts = [text for text in texts if text.prompt and len(text.output) > 2]
    if not texts:
        raise TrainingError(
            f"{names}: no text worth training on, expected some with a prompt and three tokens of output"
        )
    for text in texts:
        ids = (*text.prompt, *text.output)
        if not 0 <= min(ids) <= max(ids) < target.vocabulary:
            odd = min(ids) if min(ids) < 0 else max(ids)
            raise TrainingError(
                f"{names}: text {text.prompt_id!r} holds token {odd}, the target has {target.vocabulary}"
            )
    return texts


def require_other_prompts(training: Sequence[Text], held_out: Sequence[Text]) -> None:
    """Refuse held-out texts that are trained on: their curve would tell nothing.

    Raises
    ------
    TrainingError
        A prompt stands on both sides.
    """
    prompts = {text.prompt for text in training}
    shared = [text.prompt_id for text in held_out if text.prompt in prompts]
    if shared:
        raise TrainingError(
            f"{len(shared)} held-out prompts are trained on too, such as {shared[0]!r}: expected others"
        )


def own_output(
    target: Target,
    prompts: Sequence[Prompt] | None,
    folder: Path,
    tokens: int,
    seed: int,
    on_text: Callable[[int], object] = lambda kept: None,
) -> tuple[Path, Path]:
    """Let the target write a corpus, and one of held-out prompts; files that are there already are gone on with.

    Parameters
    ----------
    target
        In the dtype in which it is fast.
    prompts
        Prompts to answer, one in ten held out by a hash of its name; ``None`` for prompts made from word lists, whose
        topics of training and of holding out are different.
    folder
        Gets ``corpus.jsonl`` and ``held-out.jsonl``.
    tokens, seed
        Kept output tokens wanted, and the seed of made prompts.
    on_text
        Told the kept tokens of the training side after each text.
    """
    made, held = folder / "corpus.jsonl", folder / "held-out.jsonl"
    if prompts is not None and len({_place(prompt) == 0 for prompt in prompts}) < 2:
        raise TrainingError(f"{len(prompts)} prompts are too few to hold one in {_HELD_OUT} out, expected some dozens")
    sides = {side: _prompts(prompts, side, seed) for side in ("training", "held_out")}
    folder.mkdir(parents=True, exist_ok=True)
    grow_corpus(target, sides["held_out"], held, min(_HELD_OUT_TOKENS, max(1, tokens // _HELD_OUT)))
    grow_corpus(target, sides["training"], made, tokens, on_text=on_text)
    return made, held


def _prompts(prompts: Sequence[Prompt] | None, side: str, seed: int) -> Iterator[Prompt]:
    if prompts is None:
        return make_prompts(load_words(side), seed)
    wanted = side == "held_out"
    return iter([prompt for prompt in prompts if (_place(prompt) == 0) == wanted])


def _place(prompt: Prompt) -> int:
    return int(hashlib.sha256(prompt.prompt_id.encode()).hexdigest(), 16) % _HELD_OUT
