"""Every format: recognised without help, read with its notes, or refused with its reason."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from lawfit.errors import LogFormatError
from lawfit.readers import FORMATS, read_rounds, read_with_notes
from lawfit.readers.given import parse_pairs
from lawfit.schema import COLUMNS

PAGE = (Path(__file__).parents[3] / "docs" / "formats.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"### `(\S+)`\n\n`(\S+)`(.*)\n\n```\w+\n((?:(?!```).*\n)+)```", PAGE)


def sample(samples, write, name):
    chosen = samples[name]
    return chosen, write(chosen.text, f"log{chosen.suffix}")


def test_every_format_has_a_sample(samples):
    assert {chosen.format for chosen in samples.values()} == {known.name for known in FORMATS}


def test_each_sample_is_recognised_as_its_format_and_says_what_it_holds(samples, write):
    for name, chosen in samples.items():
        path = write(chosen.text, f"{name}{chosen.suffix}")
        if chosen.refused:
            with pytest.raises(LogFormatError, match="no rounds|no law can be fitted") as caught:
                read_rounds(path, constants=chosen.constants)
            assert f"{path}" in str(caught.value), name
            continue
        reading = read_with_notes(path, constants=chosen.constants)
        assert reading.notes[0] == f"{path}: read as {chosen.format}", name
        assert len(reading.log), name
        assert not reading.log.frame["truncated"].cast(bool).any() or name == "own", name


def test_readers_of_other_engines_say_what_the_format_cannot_hold(samples, write):
    for name, chosen in samples.items():
        if chosen.refused or chosen.format in ("own", "glance", "proposals", "mapped"):
            continue
        notes = read_with_notes(write(chosen.text, f"{name}{chosen.suffix}"), constants=chosen.constants).notes
        assert any("no entropy" in note or "no clusters" in note for note in notes), name


def test_a_format_may_be_named_instead_of_recognised(samples, write):
    for name, chosen in samples.items():
        if not chosen.refused:
            path = write(chosen.text, f"{name}{chosen.suffix}")
            found = read_rounds(path, constants=chosen.constants)
            assert read_rounds(path, chosen.format, constants=chosen.constants).frame.equals(found.frame), name


def test_the_page_shows_a_sample_of_every_format_and_the_meaning_of_every_column():
    assert sorted(name for name, *_ in SHOWN) == sorted(known.name for known in FORMATS)
    for column in COLUMNS:
        assert f"| `{column.name}`{' (required)' if column.required else ''} | {column.doc} |" in PAGE


@pytest.mark.parametrize(("name", "file", "told", "text"), SHOWN, ids=[name for name, *_ in SHOWN])
def test_the_sample_on_the_page_is_of_its_format(write, name, file, told, text):
    words = shlex.split(told.replace("`", ""))
    mapping, constants = (
        parse_pairs([value for option, value in pairwise(words) if option == wanted], wanted)
        for wanted in ("--map", "--set")
    )
    path = write(text, file)
    if "refused" in told:
        with pytest.raises(LogFormatError, match="no law can be fitted"):
            read_rounds(path)
        return
    reading = read_with_notes(path, mapping=mapping, constants=constants)
    assert reading.notes[0] == f"{path}: read as {name}"
