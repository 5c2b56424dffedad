"""Text that the target did not write: documentation of installed packages, to be read teacher-forced."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, files

from runtime.errors import TrainingError
from runtime.target import Target
from runtime.training.corpus import Text, worth_keeping

# Shorter docstrings say little, and a parser needs no larger file.
_SHORTEST, _LARGEST = 400, 400_000


def docstrings(package: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the cleaned text of every longer docstring of an installed package, in file order.

    Raises
    ------
    TrainingError
        The package is not installed.
    """
    try:
        found = sorted(files(package) or [], key=str)
    except PackageNotFoundError as error:
        raise TrainingError(f"{package}: not installed, expected a package with docstrings") from error
    for entry in found:
        path = entry.locate()
        if entry.suffix != ".py" or "tests" in entry.parts or path.stat().st_size > _LARGEST:  # type: ignore[attr-defined]
            continue
        tree = ast.parse(entry.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = inspect.cleandoc(ast.get_docstring(node, clean=False) or "")
                if len(text) >= _SHORTEST:
                    yield f"{package}/{entry}:{getattr(node, 'name', 'module')}", text


def documents(target: Target, packages: list[str], tokens: int, *, prompt: int = 16, longest: int = 272) -> list[Text]:
    """Read documentation as texts of a corpus until they hold ``tokens`` output tokens.

    The packages take turns, so that each gives about the same.

    Parameters
    ----------
    target
        Its tokenizer is used, without the chat template.
    packages, tokens
        Names of installed packages; output tokens wanted.
    prompt, longest
        Tokens at a text's start that are context only, and the most tokens of a text.
    """
    sources = [docstrings(package) for package in packages]
    texts, held = list[Text](), 0
    while sources and held < tokens:
        for source in list(sources):
            name, text = next(source, (None, ""))
            if name is None:
                sources.remove(source)
                continue
            ids = target.tokenizer(text)["input_ids"][:longest]
            if worth_keeping(ids[prompt:]):
                texts.append(Text(name, "document", tuple(ids[:prompt]), tuple(ids[prompt:]), kept=True))
                held += len(texts[-1].output)
    return texts
