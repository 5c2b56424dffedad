from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from lawfit import AffineLogit, FitError, Geometric, Isotonic, LawfitError, NotIdentified, RoundLog
from lawfit.cli import check
from lawfit.files import write_text
from lawfit.readers import own


def rounds(seed: int, code: float = 0.0) -> RoundLog:
    rng = np.random.default_rng(seed)
    n = 60 * 40
    prompt = np.repeat(np.arange(60), 40)
    entropy = rng.exponential(0.7, n)
    logit = 1.2 - 0.9 * entropy + np.where(prompt % 2 == 0, code, 0.0)
    run = np.cumprod(rng.random((n, 6)) < 1 / (1 + np.exp(-logit))[:, None], axis=1).sum(axis=1)
    return RoundLog.from_frame(
        pl.DataFrame(
            {
                "accept_len": run,
                "horizon": np.full(n, 6),
                "truncated": np.zeros(n, dtype=bool),
                "root_entropy": entropy,
                "prompt_id": [f"{seed}-{k}" for k in prompt],
                "task": [("code", "[red]")[k % 2] for k in prompt],
                "round": np.tile(np.arange(40), 60),
            }
        )
    )


@pytest.fixture
def law(tmp_path: Path) -> Path:
    path = tmp_path / "law.json"
    write_text(path, AffineLogit.fit(rounds(1)).to_json())
    return path


def logged(log: RoundLog, tmp_path: Path) -> Path:
    path = tmp_path / "rounds.parquet"
    own.write(log, path)
    return path


def invoke(*arguments: object) -> Any:
    app = typer.Typer()
    app.callback()(lambda: None)
    check.register(app)
    result = CliRunner().invoke(app, ["check", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_a_law_that_holds_exits_with_0(law: Path, tmp_path: Path) -> None:
    result = invoke(law, logged(rounds(2), tmp_path), "--tolerance", "0.3")
    assert result.exit_code == 0
    assert "0 broken, 3 hold, 0 cannot tell" in result.stdout
    assert "task [red]" in result.stdout
    assert "drafter: not logged" in result.stderr
    assert "drafter" not in result.stdout


def test_a_broken_law_exits_with_1_and_says_where_in_a_sentence(law: Path, tmp_path: Path) -> None:
    result = invoke(law, logged(rounds(2, code=-1.0), tmp_path), "--by", "task")
    assert result.exit_code == 1
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("task code: ")]
    number, interval = r"(-?[0-9.]+)", r"\(([0-9.]+) to ([0-9.]+)\)"
    found = re.fullmatch(
        f"task code: predicted {number} ±{number}, observed {number} {interval}: the law promises too much,"
        f" by {number} {interval}",
        line,
    )
    assert found is not None
    predicted, own, observed, low, high, off, least, most = map(float, found.groups())
    assert 0 < own < 0.1
    assert low < observed < high < predicted
    assert predicted - observed == pytest.approx(off, abs=0.011)
    assert 0.3 < least < off < most


def test_what_breaks_a_group_is_named_with_both_p_values(law: Path, tmp_path: Path) -> None:
    result = invoke(law, logged(rounds(2, code=-1.0), tmp_path), "--by", "task")
    header = next(line for line in result.stdout.splitlines() if "verdict" in line)
    (row,) = [line for line in result.stdout.splitlines() if line.startswith(" task code")]
    at, end = header.index("p, mean"), header.index("p, shape") + len("p, shape")
    assert row[at - 2 : end].split() == ["<.001", "<.001"]
    assert row.rstrip().endswith("broken: mean and shape")


def test_strict_fails_where_it_is_not_shown_that_the_law_holds(law: Path, tmp_path: Path) -> None:
    few = logged(RoundLog(rounds(2).frame.head(400)), tmp_path)
    assert invoke(law, few).exit_code == 0
    assert invoke(law, few, "--strict").exit_code == 1
    assert invoke(law, few, "--strict", "--tolerance", "5").exit_code == 0


def test_a_pooled_log_is_checked_unless_last_rounds_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "law.json"
    write_text(path, AffineLogit.fit(rounds(1), last_round="drop").to_json())
    log = logged(RoundLog(rounds(2).frame.with_columns(count=pl.lit(3, pl.Int64))), tmp_path)
    result = invoke(path, log, "--by", "")
    assert result.exit_code == 0
    assert "rows with count > 1 no longer show last rounds: all rows are kept" in result.stderr
    with pytest.raises(NotIdentified, match="hold no last rounds"):
        invoke(path, log, "--last-round", "drop")


def test_help_names_every_exit_code_the_tolerance_and_the_words_of_options(law: Path) -> None:
    shown = " ".join(invoke("--help").stdout.replace("│", " ").split())
    for text in (
        "2 on bad input",
        "with --strict",
        "0.135 at 1.7",
        "drop|censor|keep",
        "root_entropy|prev_entropy",
        "precision, or any plain column",
    ):
        assert text in shown


def test_json_holds_every_group_with_its_numbers_and_verdict(law: Path, tmp_path: Path) -> None:
    result = invoke(law, logged(rounds(2, code=1.0), tmp_path), "--by", "task", "--json")
    assert result.exit_code == 1
    record = json.loads(result.stdout)
    assert [(group["key"], group["value"]) for group in record["groups"]] == [
        ("all", ""),
        ("task", "[red]"),
        ("task", "code"),
    ]
    assert "task code" in record["broken"]
    code = record["groups"][2]
    assert code["verdict"] == "broken"
    assert "the law promises too little, by 1." in code["sentence"]
    assert code["broken_by"] == "mean and shape"
    assert 0 < code["difference_low"] < code["difference"] == code["observed"] - code["predicted"]
    assert code["predicted"] < code["observed_low"] < code["observed"] < code["observed_high"]
    assert code["p_holm"] < 0.05
    assert code["calibration_slope"] == pytest.approx(code["refit"]["b1"] / record["params"]["b1"])


def test_a_small_log_is_too_small_and_not_fine(law: Path, tmp_path: Path) -> None:
    few = RoundLog(rounds(2).frame.head(120))
    result = invoke(law, logged(few, tmp_path), "--by", "task")
    assert result.exit_code == 0
    assert "0 broken, 0 hold, 3 cannot tell" in result.stdout
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("all: ")]
    assert "no break seen, but one of up to" in line
    assert "tokens could hide (0.1" in line
    record = json.loads(invoke(law, tmp_path / "rounds.parquet", "--by", "task", "--json").stdout)
    assert record["groups"][0]["could_hide"] > record["groups"][0]["tolerance"]
    assert "cannot tell: a single prompt shows no error" in record["groups"][1]["sentence"]
    assert record["groups"][1]["difference_low"] is record["groups"][1]["more_to_tell"] is None


def test_how_many_prompts_more_would_tell_is_said(tmp_path: Path) -> None:
    path = tmp_path / "exact.json"
    write_text(path, AffineLogit(1.2, 0.9, 6).to_json())
    log = logged(RoundLog(rounds(2).frame.head(600)), tmp_path)
    (line,) = [line for line in invoke(path, log, "--by", "").stdout.splitlines() if line.startswith("all: ")]
    found = re.search(r"about ([0-9]+) prompts more would tell$", line)
    (group,) = json.loads(invoke(path, log, "--by", "", "--json").stdout)["groups"]
    assert found is not None
    assert int(found.group(1)) == pytest.approx(group["more_to_tell"], rel=0.06)
    assert group["more_to_tell_unit"] == "prompts"
    assert group["predicted_se"] == 0


def test_a_changed_shape_is_said_with_its_coefficients(tmp_path: Path) -> None:
    path = tmp_path / "flat.json"
    write_text(path, AffineLogit(0.69, 0.2, 6).to_json())
    result = invoke(path, logged(rounds(2), tmp_path), "--by", "", "--tolerance", "0.25")
    assert result.exit_code == 1
    assert "all: the mean agrees (predicted 1.63, observed 1.74 (1.67 to 1.82)), but b0 0.69 is now 1." in result.stdout


def test_a_law_without_errors_of_its_own_is_checked_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "isotonic.json"
    write_text(path, Isotonic.fit(rounds(1)).to_json())
    result = invoke(path, logged(rounds(2), tmp_path))
    assert result.exit_code == 0
    assert "it is given the error that these rounds would leave it" in result.stderr


def test_bad_input_is_an_error_of_lawfit(law: Path, tmp_path: Path) -> None:
    log = logged(rounds(2), tmp_path)
    for arguments, kind, message in (
        ((law, log, "--by", "colour"), FitError, "cannot check by 'colour'"),
        ((law, log, "--level", "2"), FitError, "level is 2"),
        ((law, log, "--last-round", "maybe"), FitError, "last-round is 'maybe'"),
        ((law, log, "--signal", "noise"), FitError, "signal is 'noise'"),
        ((law, log, "--signal", "prev_entropy"), NotIdentified, "no row has prev_entropy"),
        ((log, log), LawfitError, "not a text file|not JSON"),
        ((tmp_path / "no.json", log), LawfitError, "cannot be read"),
        ((tmp_path, log), LawfitError, "cannot be read"),
    ):
        with pytest.raises(kind, match=message):
            invoke(*arguments)


def test_a_hostile_law_is_refused(tmp_path: Path) -> None:
    log = logged(rounds(2), tmp_path)
    good = json.loads(AffineLogit(1.0, 1.0, 6).to_json())
    good["values"]["b0"] = 10**400
    for text in ("[" * 100_000, "x", json.dumps(good), " " * (check.LIMIT + 1)):
        path = tmp_path / "bad.json"
        path.write_text(text)
        with pytest.raises(LawfitError, match=r"bad\.json"):
            invoke(path, log)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_law_is_read_from_a_regular_file_only(tmp_path: Path) -> None:
    pipe, long = tmp_path / "pipe", tmp_path / "long.json"
    os.mkfifo(pipe)
    long.write_bytes(b" " * (check.LIMIT + 1))
    for path, message in ((pipe, "no regular file"), (Path("/dev/zero"), "no regular file"), (long, "more than")):
        with pytest.raises(LawfitError, match=message):
            invoke(path, tmp_path)


def test_a_task_without_entropies_is_checked_by_a_law_that_needs_none(tmp_path: Path) -> None:
    path = tmp_path / "law.json"
    write_text(path, Geometric.fit(rounds(1)).to_json())
    entropy = pl.when(pl.col("task") == "code").then(None).otherwise(pl.col("root_entropy"))
    log = logged(RoundLog.from_frame(rounds(2).frame.with_columns(root_entropy=entropy)), tmp_path)
    found = json.loads(invoke(path, log, "--by", "task", "--json").stdout)
    assert [part["verdict"] != "broken" for part in found["groups"]] == [True] * 3
    assert all(part["refit"] for part in found["groups"])
