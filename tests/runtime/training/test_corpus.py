"""The corpus of training rows, and the prompts that it is made from."""

import itertools

import polars as pl
import pytest

from runtime.errors import TrainingError
from runtime.prompts import Prompt, load_prompts
from runtime.training.corpus import Text, grow_corpus, pack_corpus, read_corpus, worth_keeping
from runtime.training.prompts import TASKS, load_words, make_prompts


class Spelled:
    """A target whose prompts are numbers in words: no tokenizer is needed."""

    def __init__(self, target):
        self._target = target

    def __getattr__(self, name):
        return getattr(self._target, name)

    def encode(self, text):
        return [int(word) % 48 for word in text.split()]


def numbered():
    for k in itertools.count():
        yield Prompt(f"p{k}", "story", f"{k} {k * 7} {k * 5 + 1}")


def test_a_corpus_grows_to_its_size_and_goes_on_after_a_kill(llama, tmp_path):
    path = tmp_path / "corpus.jsonl"
    target = Spelled(llama)
    first = grow_corpus(target, numbered(), path, 60, slots=3, max_new_tokens=20)
    assert first >= 60
    with path.open("a") as file:
        file.write('{"prompt_id": "half')
    before = read_corpus(path)
    more = grow_corpus(target, numbered(), path, 120, slots=3, max_new_tokens=20)
    texts = read_corpus(path)
    assert texts[: len(before)] == before
    assert more == sum(len(text.output) for text in texts if text.kept) >= 120
    assert len({text.prompt_id for text in texts}) == len(texts)


def test_a_full_corpus_is_left_alone(llama, tmp_path):
    path = tmp_path / "corpus.jsonl"
    kept = grow_corpus(Spelled(llama), numbered(), path, 40, slots=3, max_new_tokens=20)
    text = path.read_text()
    assert grow_corpus(Spelled(llama), numbered(), path, 40) == kept
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("output", "kept"),
    [
        (list(range(40)), True),
        (list(range(8)), False),
        ([*range(20), *([7, 8, 9] * 10)], False),
        ([5, 1, 5, 2, 5, 3, 5, 4, 5, 6, 5, 7, 5, 8, 5], False),
    ],
    ids=["plain", "short", "loop", "one token"],
)
def test_what_teaches_nothing_is_not_kept(output, kept):
    assert worth_keeping(output) is kept


def test_a_line_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"prompt_id": "a", "task": "qa", "prompt": [1], "output": [2], "kept": true}\n{"prompt": 3}\n')
    with pytest.raises(TrainingError, match=r"corpus\.jsonl:2: not a text"):
        read_corpus(path)


def test_prompts_are_different_in_turn_and_repeatable():
    some = list(itertools.islice(make_prompts(load_words("training"), 5), 400))
    assert [prompt.task for prompt in some[:8]] == list(TASKS)
    assert len({prompt.text for prompt in some}) == len({prompt.prompt_id for prompt in some}) == 400
    assert some == list(itertools.islice(make_prompts(load_words("training"), 5), 400))


def test_no_topic_stands_on_both_sides():
    training, held_out = vars(load_words("training")), vars(load_words("held_out"))
    for name in training:
        assert not set(training[name]) & set(held_out[name]), name


def test_no_training_prompt_is_a_shipped_one():
    from pathlib import Path

    shipped = {prompt.text for prompt in load_prompts(Path(__file__).parents[3] / "data" / "prompts.jsonl")}
    for side in ("training", "held_out"):
        made = {prompt.text for prompt in itertools.islice(make_prompts(load_words(side), 1), 800)}
        assert not made & shipped


def test_a_packed_corpus_is_the_same(tmp_path):
    texts = [Text("a", "qa", (1, 2), (3, 49000), True), Text("b", "copy", (5,), (6,), False)]
    pack_corpus(texts, tmp_path / "corpus.parquet")
    assert read_corpus(tmp_path / "corpus.parquet") == texts
    assert read_corpus(tmp_path / "corpus.parquet", 1) == texts[:1]


@pytest.mark.parametrize("name", ["absent.jsonl", "absent.parquet", "broken.parquet"])
def test_what_is_no_corpus_is_refused(tmp_path, name):
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    with pytest.raises(TrainingError, match="corpus"):
        read_corpus(tmp_path / name)


@pytest.mark.parametrize(
    "frame",
    [
        {"prompt": [["a"]], "output": [[1]]},
        {"prompt": [[1, None]], "output": [[1]]},
        {"prompt": [[-1]], "output": [[1]]},
        {"prompt": [[1.5]], "output": [[1]]},
        {"prompt": [[1]], "output": [None]},
    ],
    ids=["text", "null token", "negative", "a share", "null list"],
)
def test_a_table_of_other_types_is_no_corpus(tmp_path, frame):
    path = tmp_path / "corpus.parquet"
    pl.DataFrame({"prompt_id": ["a"], "task": ["b"], "kept": [True], **frame}).write_parquet(path)
    with pytest.raises(TrainingError, match="not a corpus"):
        read_corpus(path)


@pytest.mark.parametrize(
    ("output", "message"),
    [("[1.5, 2]", "token 1.5, expected a whole number"), ("[Infinity]", "token inf"), ('["7"]', "token '7'"),
     ("[" * 100_000, "not a text of a corpus")],
)  # fmt: skip
def test_a_line_with_other_tokens_than_whole_numbers_is_refused(tmp_path, output, message):
    path = tmp_path / "corpus.jsonl"
    path.write_text(f'{{"prompt_id": "a", "task": "t", "prompt": [1], "output": {output}, "kept": true}}\n')
    with pytest.raises(TrainingError, match=message):
        read_corpus(path)
