"""The runtime's sub-commands, run as a user runs them."""

import json

import polars as pl
import pytest

from lawfit.readers import own
from lawfit.trace import Trace
from tests.runtime.cli.command import lawfit


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    path = tmp_path_factory.mktemp("prompts") / "prompts.jsonl"
    rows = [
        {"prompt_id": f"{task}-{k}", "task": task, "prompt": " ".join(f"w{(k * 7 + j * step) % 40}" for j in range(12))}
        for task, step in (("near", 1), ("far", 11))
        for k in range(4)
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


@pytest.fixture(scope="module")
def log(folder, prompts, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "rounds.parquet"
    done = lawfit("generate", "--prompts", prompts, "--target", folder, "--budget", 8, "-n", 80, "--log", path)
    assert done.returncode == 0, done.stderr
    return path


def test_generate_writes_text_and_a_log_that_fits(log, prompts):
    assert {row["prompt_id"] for row in own.read(log).frame.iter_rows(named=True)} >= {"near-0", "far-3"}
    done = lawfit("fit", log, "--law", "affine", "--json")
    assert done.returncode == 0, done.stderr
    fit = json.loads(done.stdout)["fits"][0]
    assert fit["n"] == own.read(log).frame.filter(pl.col("horizon") > 0).height


def test_generate_gives_the_same_tokens_plainly_fixed_and_adaptively(folder, prompts, log):
    outputs = []
    for extra in (("--budget", 0), ("--budget", 16), ("--adaptive", log)):
        done = lawfit("generate", "--prompts", prompts, "--target", folder, "-n", 40, "--json", *extra)
        assert done.returncode == 0, done.stderr
        outputs.append([row["tokens"] for row in json.loads(done.stdout)])
    assert outputs[0] == outputs[1] == outputs[2]


def test_generate_streams_one_prompt(folder):
    done = lawfit("generate", "w1 w2 w3", "--target", folder, "-n", 12)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) >= 1
    assert "tokens/s" in done.stderr


def test_trace_writes_a_trace_that_fits(folder, prompts, tmp_path):
    out = tmp_path / "trace.parquet"
    done = lawfit("trace", "--prompts", prompts, "--target", folder, "-n", 40, "-o", out)
    assert done.returncode == 0, done.stderr
    trace = Trace.read(out)
    assert trace.frame["prompt_id"].n_unique() == 8
    assert lawfit("fit", out, "--law", "geometric", "--json").returncode == 0


@pytest.mark.parametrize("trees", ["ngram", "random"])
def test_audit_counts_identical_prompts(folder, prompts, trees):
    done = lawfit("audit", "--prompts", prompts, "--target", folder, "--drafter", trees, "-n", 30)
    assert done.returncode == 0, done.stderr
    assert "target, no drafter, again" in done.stdout
    assert done.stdout.count("8/8") == 4  # the control, and three shapes


def test_a_divergence_in_fp32_fails_the_audit_with_its_place_and_gap(folder, prompts, monkeypatch, capsys):
    import typer

    from runtime import audit as audits
    from runtime.cli.audit import audit

    def diverging(target, systems, *rest, seed=0, **more):
        wrong = audits.Divergence(3, 7, 9, 0.25) if seed == 2 else None
        return [None] * (len(systems) - 1) + [wrong]

    monkeypatch.setattr(audits, "audit_prompt", diverging)
    with pytest.raises(typer.Exit) as ended:
        audit(prompts, ["ngram"], ["chain"], target=folder, max_new_tokens=4)
    assert ended.value.exit_code == 1
    shown = capsys.readouterr().out
    assert "ngram, chain 8             fp32   7/8" in shown
    assert "near-2: differs at output token 3 (expected 7, found 9, gap of the two largest logits 0.25)" in shown
    audit(prompts, ["ngram"], ["chain"], dtype=["bf16"], target=folder, max_new_tokens=4)  # in bf16 it is only told
    assert "(bf16), near-2: differs" in capsys.readouterr().out


def test_sampled_output_is_audited_too(folder, prompts):
    done = lawfit(
        "audit", "--prompts", prompts, "--target", folder, "-n", 12, "--temperature", 1, "--seed", 3, "--json"
    )
    assert done.returncode == 0, done.stderr
    assert [row["identical"] for row in json.loads(done.stdout)["systems"]] == [8] * 4


def test_demo_writes_its_table_json_and_page(folder, prompts, log, tmp_path):
    done = lawfit(
        "demo", "--prompts", prompts, "--rounds", log, "--target", folder, "-n", 24, "-o", tmp_path, "--dtype", "fp32"
    )
    assert done.returncode == 0, done.stderr
    assert "identical 8/8 prompts" in done.stdout
    result = json.loads((tmp_path / "demo.json").read_text())
    assert (result["prompts"], result["identical"]) == (8, 8)
    assert set(result["tasks"]) == {"near", "far"}
    for task in result["tasks"].values():
        assert set(task) >= {"tau", "fixed", "adaptive"}
        assert set(task["fixed"]) == {"4", "8", "16"}
        assert task["tau"] >= 1
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 3
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("generate",), "give one prompt as text, or a file"),
        (("generate", "x", "--target", "/nowhere"), "/nowhere: no such folder"),
        (("generate", "x", "--dtype", "fp8"), "fp8"),
        (("generate", "--prompts", "/nowhere.jsonl"), "/nowhere.jsonl: no such file"),
        (("generate", "x", "--adaptive", "/nowhere.parquet"), "/nowhere.parquet: no such file"),
        (("audit", "--prompts", "/nowhere.jsonl"), "no such file"),
        (("trace", "--prompts", "/nowhere.jsonl", "-o", "x.csv"), "expected .parquet"),
        (("demo", "--rounds", "/nowhere.parquet"), "no such file"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_2(arguments, message, tmp_path):
    done = lawfit(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert message in lines[0]
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_cannot_price_or_identify_is_refused(folder, tmp_path):
    path = tmp_path / "bare.csv"
    path.write_text("accept_len,horizon,prompt_id\n1,4,a\n2,4,b\n")
    assert lawfit("convert", path, "-o", tmp_path / "bare.parquet", "--map", "accept_len=accept_len").returncode == 0
    done = lawfit("generate", "w1", "--target", folder, "--adaptive", tmp_path / "bare.parquet")
    assert done.returncode == 2
    assert "prev_entropy, draft_logprobs and spine_len" in done.stderr
