from types import SimpleNamespace

import pytest

from runtime.errors import TrainingError
from runtime.training.documents import docstrings, documents


def tokenizer(text):
    return {"input_ids": [hash_of(word) for word in text.split()]}


def hash_of(word):
    return sum(ord(letter) * 31**k for k, letter in enumerate(word)) % 5000


def test_docstrings_of_a_package_are_its_own_text():
    name, text = next(docstrings("numpy"))
    assert name.startswith("numpy/")
    assert len(text) >= 400
    assert not text.startswith(" ")


def test_documents_take_turns_and_stop_at_the_wanted_size():
    target = SimpleNamespace(tokenizer=tokenizer)
    texts = documents(target, ["numpy", "scipy"], 3000, prompt=8, longest=100)
    assert 3000 <= sum(len(text.output) for text in texts) < 3100
    assert {text.prompt_id.split("/")[0] for text in texts[:2]} == {"numpy", "scipy"}
    assert all(len(text.prompt) == 8 and len(text.output) <= 92 for text in texts)
    assert len({text.prompt_id for text in texts}) == len(texts)


def test_an_absent_package_is_one_clear_error():
    with pytest.raises(TrainingError, match="no-such-package: not installed"):
        next(docstrings("no-such-package"))
