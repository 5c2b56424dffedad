"""Prompts to generate training rows from: eight tasks from open to grounded, in any number, from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

from runtime.prompts import Prompt


@dataclass(frozen=True)
class Words:
    """The words that prompts are made of."""

    people: tuple[str, ...]
    places: tuple[str, ...]
    jobs: tuple[str, ...]
    things: tuple[str, ...]
    animals: tuple[str, ...]
    subjects: tuple[str, ...]
    functions: tuple[str, ...]
    records: tuple[str, ...]


TASKS = ("story", "qa", "code", "json", "extract", "copy", "list", "rewrite")


def load_words(side: Literal["training", "held_out"]) -> Words:
    """Load the words of one side; no topic stands on both."""
    text = files("runtime.training").joinpath("topics.json").read_text(encoding="utf-8")
    return Words(**{name: tuple(words) for name, words in json.loads(text)[side].items()})


def make_prompts(words: Words, seed: int) -> Iterator[Prompt]:
    """Yield different prompts without end, the tasks in turn."""
    rng = random.Random(seed)
    seen: set[str] = set()
    number = 0
    while True:
        task = TASKS[number % len(TASKS)]
        text = next(text for text in iter(lambda: _MAKERS[task](words, rng), None) if text not in seen)  # noqa: B023
        seen.add(text)
        yield Prompt(f"{task}-{number // len(TASKS) + 1:04d}", task, text)
        number += 1


def passage(words: Words, rng: random.Random, sentences: int) -> str:
    """Make a passage of plain facts, with names and numbers to copy."""
    person, place = rng.choice(words.people), rng.choice(words.places)
    facts = [
        f"{person} is a {rng.choice(words.jobs)} from {place}.",
        f"In {rng.randint(1951, 2023)} {person} bought a {rng.choice(words.things)} for {rng.randint(12, 980)} euros.",
        f"The workshop at {rng.randint(2, 240)} {rng.choice(words.places)} Street opens at {rng.randint(6, 11)}.",
        f"Every {rng.choice(_DAYS)} {rng.randint(3, 60)} visitors come to see the {rng.choice(words.things)}.",
        f"A {rng.choice(words.animals)} lives in the yard and is called {rng.choice(words.people)}.",
        f"The phone number is {rng.randint(200, 999)}-{rng.randint(1000, 9999)}.",
        f"Last year {rng.choice(words.people)}, a {rng.choice(words.jobs)}, joined the team.",
        f"They plan to move to {rng.choice(words.places)} in {rng.randint(2, 30)} months.",
        f"The order number {rng.randint(10000, 99999)} was shipped on {rng.randint(1, 28)} {rng.choice(_MONTHS)}.",
    ]
    first, rest = facts[0], facts[1:]
    return " ".join([first, *rng.sample(rest, min(sentences - 1, len(rest)))])


def _story(words: Words, rng: random.Random) -> str:
    who = f"a {rng.choice(words.jobs)} named {rng.choice(words.people)}"
    other = rng.choice([f"a {rng.choice(words.animals)}", f"a lost {rng.choice(words.things)}"])
    place, length = rng.choice(words.places), rng.choice((60, 80, 100, 120, 150))
    return rng.choice(
        (
            f"Write a short story of about {length} words about {who} and {other} in {place}.",
            f"Tell a story in about {length} words: {who} travels to {place} and finds {other}.",
            f"Write a letter of about {length} words from {who} in {place} to a friend about {other}.",
            f"Describe a morning in {place} in about {length} words. Mention {who} and {other}.",
            f"Write a fable of about {length} words with a {rng.choice(words.animals)} and {other}. End with a lesson.",
        )
    )


def _qa(words: Words, rng: random.Random) -> str:
    subject, other = rng.sample(words.subjects, 2)
    return rng.choice(
        (
            f"What is {subject}? Answer in {rng.randint(2, 6)} sentences.",
            f"Why does {subject} matter? Give {rng.randint(2, 4)} reasons.",
            f"Explain {subject} to a {rng.choice(words.jobs)}.",
            f"How are {subject} and {other} related? Answer in {rng.randint(2, 5)} sentences.",
            f"What should a {rng.choice(words.jobs)} know about {subject}?",
        )
    )


def _code(words: Words, rng: random.Random) -> str:
    task = rng.choice(words.functions)
    language = rng.choice(("Python", "Python", "Python", "JavaScript"))
    return rng.choice(
        (
            f"Write a {language} function that {task}.",
            f"Write a {language} function that {task}. Add a docstring and an example with {rng.randint(3, 90)}.",
            f"Show me {language} code that {task}, and explain it in {rng.randint(2, 4)} sentences.",
            f"Write a {language} function `{rng.choice(_NAMES)}` that {task}, with {rng.randint(2, 4)} tests.",
        )
    )


def _json(words: Words, rng: random.Random) -> str:
    record, count = rng.choice(words.records), rng.randint(2, 5)
    return rng.choice(
        (
            f"Write a JSON array of {count} examples of {record}. Use places such as {rng.choice(words.places)}.",
            f"Give {count} JSON objects for {record}. One of them belongs to {rng.choice(words.people)}.",
            f"Turn this into JSON with one key for each fact: {passage(words, rng, rng.randint(3, 5))}",
        )
    )


def _extract(words: Words, rng: random.Random) -> str:
    text = passage(words, rng, rng.randint(4, 8))
    wanted = rng.choice(
        (
            "List every name in this text",
            "List all numbers in this text with the words beside them",
            "Quote the sentences of this text that hold a number",
            "Quote the first two sentences of this text",
            "Which places does this text name? Quote their sentences",
        )
    )
    return f"{wanted}:\n\n{text}"


def _copy(words: Words, rng: random.Random) -> str:
    text = passage(words, rng, rng.randint(4, 8))
    return (
        rng.choice(("Repeat this text exactly", "Copy this text word for word", "Write this text again"))
        + f":\n\n{text}"
    )


def _list(words: Words, rng: random.Random) -> str:
    count, subject = rng.randint(4, 12), rng.choice(words.subjects)
    return rng.choice(
        (
            f"List {count} facts about {subject}.",
            f"Give a numbered list of {count} tools that a {rng.choice(words.jobs)} needs, with one line for each.",
            f"Name {count} things to do in {rng.choice(words.places)} with a {rng.choice(words.things)}.",
            f"Make a table in Markdown with {count} rows about {subject} and {rng.choice(words.subjects)}.",
        )
    )


def _rewrite(words: Words, rng: random.Random) -> str:
    text = passage(words, rng, rng.randint(3, 6))
    return rng.choice(("Summarize", "Rewrite in a friendly tone", "Rewrite in the past tense", "Shorten")) + f": {text}"


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("January", "March", "April", "June", "August", "October", "December")
_NAMES = ("solve", "process", "compute", "transform", "check", "collect")
_MAKERS = {
    "story": _story,
    "qa": _qa,
    "code": _code,
    "json": _json,
    "extract": _extract,
    "copy": _copy,
    "list": _list,
    "rewrite": _rewrite,
}
