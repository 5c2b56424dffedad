"""`lawfit train` from corpus to a head that drafts, on a tiny target."""

import json
import signal
import subprocess
import sys
import time

import pytest

from runtime.audit import plain_output
from runtime.target import Target
from runtime.training.corpus import Text, pack_corpus
from tests.runtime.cli.command import lawfit

MAIN = "from lawfit.cli.app import main; main()"


@pytest.fixture(scope="module")
def corpora(folder, tmp_path_factory):
    target = Target.load(folder)
    out = tmp_path_factory.mktemp("corpus")
    for name, first in (("training", 0), ("held-out", 20)):
        texts = []
        for k in range(first, first + 20):
            prompt = [(7 * k + j * j) % 40 for j in range(5)]
            texts.append(Text(f"{name}-{k}", "list", tuple(prompt), tuple(plain_output(target, prompt, 20)), True))
        pack_corpus(texts, out / f"{name}.parquet")
    return out


def arguments(folder, corpora, out, recipe, steps, every=4):
    sizes = ("--dtype", "fp32", "--steps", steps, "--rows", 128, "--draft-words", 40, "--curve-every", every)
    texts = ("--corpus", corpora / "training.parquet", "--held-out", corpora / "held-out.parquet")
    return ["train", recipe, "-o", out, *texts, "--target", folder, *sizes]


@pytest.mark.parametrize("recipe", ["hass", "eagle3", "glance", "medusa"])
def test_a_recipe_gives_a_head_that_drafts_and_leaves_the_output_alone(folder, corpora, tmp_path, recipe):
    out = tmp_path / "head"
    done = lawfit(*arguments(folder, corpora, out, recipe, 8))
    assert done.returncode == 0, done.stderr
    assert "step 4: tau" in done.stderr
    card = json.loads((out / "training.json").read_text())
    assert [point["step"] for point in card["curve"]] == [4, 8]
    assert card["course"]["steps"] == 8
    assert (out / "training.png").stat().st_size > 5000
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"w{k} w{k + 1} w{k} w3"}) + "\n" for k in range(4)))
    audited = lawfit("audit", "--target", folder, "--prompts", prompts, "--drafter", out, "-n", 16)
    assert audited.returncode == 0, audited.stdout
    assert audited.stdout.count("4/4") == 4  # the control, and three shapes
    if (out / "lookup.json").exists():
        mixed = lawfit("audit", "--target", folder, "--prompts", prompts, "--drafter", f"{out}+ngram", "-n", 16)
        assert mixed.returncode == 0, mixed.stdout


def test_a_killed_run_goes_on_to_the_same_curve(folder, corpora, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert lawfit(*arguments(folder, corpora, whole, "eagle1", 260, 130)).returncode == 0
    command = [sys.executable, "-c", MAIN, *map(str, arguments(folder, corpora, killed, "eagle1", 260, 130))]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    checkpoint = killed / "work" / "checkpoint.safetensors"
    deadline = time.monotonic() + 100
    while not checkpoint.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert checkpoint.exists()
    assert not (killed / "training.json").exists(), "the run had ended before it was killed"
    assert lawfit(*arguments(folder, corpora, killed, "eagle1", 260, 130)).returncode == 0
    one, other = (json.loads((path / "training.json").read_text()) for path in (whole, killed))
    losses = [[record["loss"] for record in card["log"]] for card in (one, other)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert [point["tau"] for point in one["curve"]] == pytest.approx([point["tau"] for point in other["curve"]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({1: "eagle9"}, "recipe 'eagle9', expected"),
        ({5: "/nowhere.parquet"}, "no such file"),
        ({7: "/nowhere.parquet"}, "no such file"),
    ],
    ids=["recipe", "corpus", "held out"],
)
def test_what_cannot_be_trained_is_one_clear_line(folder, corpora, tmp_path, change, message):
    given = arguments(folder, corpora, tmp_path / "head", "eagle1", 2)
    for at, value in change.items():
        given[at] = value
    done = lawfit(*given)
    assert done.returncode == 2
    assert message in done.stderr


def test_states_of_other_texts_are_refused(folder, corpora, tmp_path):
    assert lawfit(*arguments(folder, corpora, tmp_path / "head", "eagle1", 1)).returncode == 0
    given = arguments(folder, corpora, tmp_path / "head", "eagle1", 1)
    given[5] = tmp_path / "other.parquet"
    pack_corpus([Text("t", "list", (1, 2, 3), (4, 5, 6, 7), True)], given[5])
    done = lawfit(*given)
    assert done.returncode == 2
    assert "states of other texts than the corpus has" in done.stderr


def test_without_a_corpus_the_target_writes_its_own(folder, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    rows = [{"prompt_id": f"p{k}", "prompt": " ".join(f"w{(k * j + k) % 40}" for j in range(6))} for k in range(120)]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "head"
    sizes = ("--dtype", "fp32", "--steps", 3, "--rows", 128, "--draft-words", 40, "--tokens", 400)
    done = lawfit("train", "eagle1", "-o", out, "--target", folder, "--prompts", prompts, *sizes)
    assert done.returncode == 0, done.stderr
    trained, held = (
        {json.loads(line)["prompt_id"] for line in (out / "work" / name).read_text().splitlines()}
        for name in ("corpus.jsonl", "held-out.jsonl")
    )
    assert trained
    assert held
    assert not trained & held


def test_a_corpus_needs_its_held_out_side(folder, corpora, tmp_path):
    done = lawfit("train", "eagle1", "-o", tmp_path, "--target", folder, "--corpus", corpora / "training.parquet")
    assert done.returncode == 2
    assert "give --corpus with --held-out" in done.stderr


def test_a_folder_is_gone_on_with_by_the_same_run_only(folder, corpora, tmp_path):
    out = tmp_path / "head"
    assert lawfit(*arguments(folder, corpora, out, "eagle1", 2)).returncode == 0
    assert lawfit(*arguments(folder, corpora, out, "eagle1", 2)).returncode == 0
    for recipe, steps, more, named in (
        ("hass", 2, (), "recipe"),
        ("eagle1", 3, (), "steps"),
        ("eagle1", 2, ("--seed", 1), "seed"),
    ):
        done = lawfit(*arguments(folder, corpora, out, recipe, steps), *more)
        assert done.returncode == 2
        assert f"another run was begun here: {named} is" in done.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": (1, 99), "output": (2, 3, 4, 5)}, "holds token 99, the target has"),
        ({"prompt": (), "output": (2, 3, 4, 5)}, "no text worth training on"),
    ],
    ids=["vocabulary", "empty"],
)
def test_texts_that_are_not_the_targets_are_refused(folder, corpora, tmp_path, change, message):
    pack_corpus([Text(prompt_id="t", task="list", kept=True, **change)], tmp_path / "odd.parquet")
    given = arguments(folder, corpora, tmp_path / "head", "eagle1", 1)
    given[5] = tmp_path / "odd.parquet"
    done = lawfit(*given)
    assert done.returncode == 2
    assert message in done.stderr


def test_held_out_prompts_that_are_trained_on_are_refused(folder, corpora, tmp_path):
    given = arguments(folder, corpora, tmp_path / "head", "eagle1", 1)
    given[7] = given[5]
    done = lawfit(*given)
    assert done.returncode == 2
    assert "held-out prompts are trained on too" in done.stderr


def test_a_head_of_other_draft_words_is_nothing_to_begin_from(folder, corpora, tmp_path):
    assert lawfit(*arguments(folder, corpora, tmp_path / "one", "eagle3", 1)).returncode == 0
    more = ("--draft-words", 30, "--from", tmp_path / "one")
    done = lawfit(*arguments(folder, corpora, tmp_path / "other", "eagle3", 1), *more)
    assert done.returncode == 2
    assert "another configuration or other draft words" in done.stderr


def test_a_head_that_is_nothing_to_begin_from_claims_no_folder(folder, corpora, tmp_path):
    assert lawfit(*arguments(folder, corpora, tmp_path / "one", "eagle1", 1)).returncode == 0
    given = arguments(folder, corpora, tmp_path / "other", "medusa", 1)
    assert lawfit(*given, "--from", tmp_path / "one").returncode == 2
    assert lawfit(*given).returncode == 0


def test_a_file_is_no_folder_for_a_head(folder, corpora, tmp_path):
    (tmp_path / "head").write_text("")
    done = lawfit(*arguments(folder, corpora, tmp_path / "head", "eagle1", 1))
    assert (done.returncode, done.stderr.count("is a file, expected a folder")) == (2, 1)


def test_a_damaged_checkpoint_says_what_to_remove(folder, corpora, tmp_path):
    out = tmp_path / "head"
    assert lawfit(*arguments(folder, corpora, out, "eagle1", 2)).returncode == 0
    checkpoint = out / "work" / "checkpoint.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:200])
    done = lawfit(*arguments(folder, corpora, out, "eagle1", 2))
    assert done.returncode == 2
    assert "a damaged checkpoint or log" in done.stderr
