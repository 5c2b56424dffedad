"""`lawfit generate` with a temperature, run as a user runs it."""

import json

import pytest

from lawfit.readers import own
from tests.runtime.cli.command import lawfit

TEXT = "w1 w2 w3 w1 w2 w3"


def tokens(folder, *extra):
    done = lawfit("generate", TEXT, "--target", folder, "-n", 30, "--json", *extra)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)[0]["tokens"]


def test_a_seed_gives_the_same_tokens_at_every_budget_and_another_seed_others(folder, tmp_path):
    log = tmp_path / "rounds.parquet"
    settings = ("--temperature", 0.7, "--top-p", 0.9, "--top-k", 20, "--seed", 4)
    drafted = tokens(folder, *settings, "--budget", 16, "--log", log)
    assert drafted == tokens(folder, *settings, "--budget", 0)
    assert drafted != tokens(folder, *settings[:-1], 5)
    assert set(own.read(log).frame["temperature"].to_list()) == {0.7}


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--temperature", "nan", "temperature nan, expected"),
        ("--top-p", 0, "top_p 0.0, expected"),
    ],
)
def test_settings_without_a_meaning_are_one_clear_line(option, value, message, tmp_path):
    done = lawfit("generate", "x", option, value, "--target", "/nowhere", cwd=tmp_path)
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert message in lines[0]
