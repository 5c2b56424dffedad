from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from lawfit import FitError, NotIdentified
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


def test_what_cannot_be_calibrated_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("accept_len,horizon\n1,3\n2,3\n")
    with pytest.raises(NotIdentified, match="no row holds draft_logprobs"):
        invoke(path)
    with pytest.raises(FitError, match="method is 'magic'"):
        invoke(path, "--method", "magic")
    with pytest.raises(FitError, match="bins is 0"):
        invoke(path, "--bins", "0")
