from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from lawfit import FitError, NotIdentified, RoundLog
from lawfit.calibration.calibration import Calibration
from lawfit.calibration.nodes import spine_nodes
from lawfit.cli import calibrate
from lawfit.readers import own
from lawfit.trace import Trace

DATA = Path(__file__).parents[3] / "data"


def invoke(*arguments: object) -> Any:
    app = typer.Typer()
    app.callback()(lambda: None)
    calibrate.register(app)
    result = CliRunner().invoke(app, ["calibrate", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_shipped_log_is_calibrated_and_written(tmp_path: Path) -> None:
    result = invoke(DATA / "rounds.parquet", "-o", tmp_path / "c.json", "--figure", tmp_path / "f.png")
    assert result.exit_code == 0
    assert "3195 nodes reached, 72 prompts" in result.stdout
    assert "logistic, cross-fitted" in result.stdout
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    fitted = Calibration.from_json((tmp_path / "c.json").read_text())
    assert fitted.prompts == 72
    assert fitted == Calibration.fit(spine_nodes(own.read(DATA / "rounds.parquet")))


def test_json_compares_the_draft_with_the_calibration() -> None:
    record = json.loads(invoke(DATA / "rounds.parquet", "--method", "isotonic", "--json", "--bins", "5").stdout)
    draft, calibrated = record["forecasts"]
    assert (draft["name"], calibrated["name"], record["scores"]) == ("draft", "isotonic, cross-fitted", "cross-fitted")
    assert calibrated["log_score"]["value"] < draft["log_score"]["low"]
    assert calibrated["log_skill"]["low"] > 0.15
    assert len(calibrated["reliability"]) == 5
    assert calibrated["ece"]["value"] < calibrated["ece"]["limit_95"]
    parts = calibrated["murphy"]
    whole = parts["reliability"] - parts["resolution"] + parts["uncertainty"] + parts["within"]
    assert whole == pytest.approx(calibrated["brier"]["value"])


def test_a_trace_is_told_by_its_candidates(tmp_path: Path) -> None:
    trace = Trace.read(DATA / "trace.parquet")
    path = tmp_path / "some.parquet"
    Trace.from_frame(trace.frame.filter(pl.col("position") % 8 == 0)).write(path)
    result = invoke(path, "--method", "isotonic", "--json")
    assert f"{path}: read as trace" in result.stderr
    assert json.loads(result.stdout)["nodes"] > 3195


def test_too_few_prompts_give_scores_that_say_in_sample(tmp_path: Path) -> None:
    path = tmp_path / "few.parquet"
    own.write(own.read(DATA / "rounds.parquet").where(pl.col("prompt_id").is_in(["copy-01", "copy-02"])), path)
    result = invoke(path)
    assert "in-sample scores: 2 prompts, expected at least 5" in result.stderr
    assert "logistic, in-sample" in result.stdout
    assert "cross-fitted" not in result.stdout


def lines(text: str, start: str) -> str:
    (line,) = [line for line in text.splitlines() if line.startswith(start)]
    return line


def test_each_row_is_summed_up_in_a_sentence() -> None:
    text = invoke(DATA / "rounds.parquet").stdout
    draft = lines(text, "draft: ")
    assert draft.startswith("draft: promises too much, by 0.051 on average (chance alone gives up to 0.02")
    assert draft.endswith("neither better nor worse for sure than always promising 0.828.")
    assert re.search(r"where it promises 0\.\d{3}: 0\.\d{3} accepted \(0\.\d{3} to 0\.\d{3}\), too much", draft)
    fitted = lines(text, "logistic, cross-fitted: ")
    assert "comes true" in fitted
    assert fitted.endswith("Its log score is 29% better than always promising 0.828.")
    assert "A round log tests a token once" in text
    record = json.loads(invoke(DATA / "rounds.parquet", "--json").stdout)
    found = record["forecasts"][0]
    assert f"draft: {found['verdict']['sentence']}." == draft
    gaps = [bar["weight"] * (bar["predicted"] - bar["observed"]) for bar in found["reliability"]]
    assert found["verdict"]["promised_less_accepted"] == pytest.approx(sum(gaps) / record["nodes"])


def test_the_failing_top_bin_of_the_trace_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    trace = Trace.read(DATA / "trace.parquet")
    Trace.from_frame(trace.frame.filter(pl.col("position") % 4 == 0)).write(path)
    text = invoke(path, "--method", "isotonic").stdout
    top = re.fullmatch(r"(\S+) +(\S+) +(\S+ to \S+) +\d+ +too much", text.splitlines()[-1])
    assert top is not None
    promised, accepted, interval = top.groups()
    (sentence,) = (line for line in text.splitlines() if line.startswith("isotonic, cross-fitted: "))
    assert "comes true on the whole" in sentence
    assert f"promises {promised}: {accepted} accepted ({interval}), too much" in sentence
    assert "A trace drafts from every position" in text


def test_nameless_prompts_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "nameless.parquet"
    none = {name: pl.lit(None, pl.String) for name in ("prompt_id", "request_id")}
    own.write(RoundLog(own.read(DATA / "rounds.parquet").frame.head(150).with_columns(**none)), path)
    result = invoke(path)
    assert "every node counts as independent; where those of a prompt are alike" in result.stderr
    assert "prompts not named" in result.stdout


def test_help_explains_the_scores_and_the_exit_codes() -> None:
    shown = " ".join(invoke("--help").stdout.replace("│", " ").split())
    for text in (
        "Exit code 0 when done, 2 on bad input",
        "ECE: mean distance",
        "logistic|isotonic",
        "Skill: the share",
    ):
        assert text in shown


def test_what_cannot_be_calibrated_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("accept_len,horizon\n1,3\n2,3\n")
    with pytest.raises(NotIdentified, match="no row holds draft_logprobs"):
        invoke(path)
    with pytest.raises(FitError, match="method is 'magic'"):
        invoke(path, "--method", "magic")
    for bins in ("0", "1", "1001", "9" * 30):
        with pytest.raises(FitError, match="expected 2 to 1000"):
            invoke(path, "--bins", bins)


def test_where_the_outcome_does_not_vary_skill_is_unknown_and_no_nan_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "all.parquet"
    rows = {"accept_len": [3] * 40, "horizon": [3] * 40, "draft_logprobs": [[-0.1, -0.5, -0.2]] * 40, "shape": "chain"}
    log = pl.DataFrame(rows | {"prompt_id": [f"p{k % 8}" for k in range(40)]})
    own.write(RoundLog.from_frame(log), path)
    shown = invoke(path, "--method", "isotonic").stdout
    assert "unknown" in shown
    assert not re.search(r"\bnan\b", shown)
