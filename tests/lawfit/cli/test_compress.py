from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from lawfit import AffineLogit, FitError, LawfitError, LogFormatError, RoundLog
from lawfit.cli import compress, fit
from lawfit.readers import own
from lawfit.scan import is_own


@pytest.fixture
def rounds(synthetic: RoundLog, tmp_path: Path) -> Path:
    path = tmp_path / "rounds.parquet"
    task = pl.when(pl.col("prompt_id") < "p2").then(pl.lit("qa")).otherwise(pl.lit("code"))
    own.write(RoundLog.from_frame(synthetic.frame.with_columns(task=task, request_id="prompt_id")), path)
    return path


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """900 rounds are many."""
    monkeypatch.setattr("lawfit.cli.compress.LARGE", 899)
    monkeypatch.setattr("lawfit.scan.BATCH", 200)


def invoke(*arguments: object) -> Any:
    app = typer.Typer()
    app.callback()(lambda: None)
    fit.register(app)
    compress.register(app)
    result = CliRunner().invoke(app, [*map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def fits(*arguments: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(invoke("fit", *arguments, "--json").stdout)["fits"]
    return found


def test_compress_writes_a_log_that_fits(rounds: Path, tmp_path: Path) -> None:
    cells = tmp_path / "cells.parquet"
    said = invoke("compress", rounds, "-o", cells)
    log = own.read(cells)
    assert is_own([cells])
    assert said.stdout == f"900 rounds in {len(log)} rows, prompts or shards: 30 -> {cells}\n"
    assert said.stderr == ""
    whole = AffineLogit.fit(own.read(rounds))
    assert AffineLogit.fit(log).params["b1"] == pytest.approx(whole.params["b1"], abs=0.01)


def test_compress_prints_json(rounds: Path, tmp_path: Path) -> None:
    cells = tmp_path / "cells.parquet"
    facts = json.loads(invoke("compress", rounds, "-o", cells, "--shards", 8, "--by", "", "--json").stdout)
    assert facts == {"rounds": 900, "rows": len(own.read(cells)), "read": 900, "clusters": 8, "output": str(cells)}


def test_compress_says_that_a_table_bears_no_mark(rounds: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.parquet"
    pl.read_parquet(rounds).select("accept_len", "horizon").write_parquet(plain)
    said = invoke("compress", plain, "-o", tmp_path / "cells.jsonl")
    assert "not marked as a round log v1" in said.stderr
    assert "prompts or shards: unknown" in said.stdout


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("last_round", ["keep", "drop", "censor"])
def test_a_large_log_is_pooled_with_a_note_and_keeps_its_options(rounds: Path, last_round: str) -> None:
    options = (rounds, "--law", "geometric", "--by", "task", "--last-round", last_round)
    pooled, whole = fits(*options), fits(*options, "--whole")
    assert {entry["group"] for entry in pooled} == {"qa", "code"}
    for entry, other in zip(*(sorted(found, key=lambda fit: fit["group"]) for found in (pooled, whole)), strict=True):
        for key in ("n", "prompts", "horizon", "last_round", "signal"):
            assert entry[key] == other[key]
        assert entry["params"] == pytest.approx(other["params"])
        assert entry["cluster_se"] == pytest.approx(other["cluster_se"], rel=1e-6)
    stderr = invoke("fit", *options).stderr
    assert "900 rows, pooled into" in stderr
    assert "--whole reads all" in stderr
    walked = 1800 if last_round != "keep" else 900
    assert f"pooling rounds: {walked}/{walked}" in stderr
    assert "pooling" not in invoke("fit", *options, "--whole").stderr


@pytest.mark.usefixtures("large")
def test_the_law_of_a_pooled_log_tells_what_became_of_last_rounds(rounds: Path, tmp_path: Path) -> None:
    invoke("fit", rounds, "--last-round", "drop", "-o", tmp_path / "out")
    assert json.loads((tmp_path / "out" / "affine.json").read_text())["fitted"]["last_round"] == "drop"


@pytest.mark.usefixtures("large")
def test_other_formats_and_broken_files_go_to_their_readers(rounds: Path, tmp_path: Path) -> None:
    lines = tmp_path / "rounds.jsonl"
    own.write(own.read(rounds), lines)
    assert "pooled" not in invoke("fit", lines).stderr
    with pytest.raises(LogFormatError, match="no such file"):
        invoke("fit", tmp_path / "none.parquet")


def test_a_small_log_is_read_whole(rounds: Path) -> None:
    assert "pooled" not in invoke("fit", rounds).stderr


@pytest.mark.usefixtures("large")
def test_what_counts_cannot_keep_apart_needs_the_whole_log(rounds: Path) -> None:
    with pytest.raises(FitError, match=r"by is 'prompt_id': a log of 900 rows is pooled.*give --whole"):
        invoke("fit", rounds, "--by", "prompt_id")
    assert len(fits(rounds, "--by", "prompt_id", "--law", "geometric", "--whole")) == 30


def test_an_output_among_the_inputs_is_refused(rounds: Path) -> None:
    folder = rounds.parent
    with pytest.raises(LawfitError, match="is also an input"):
        invoke("compress", f"{folder}/*.parquet", "-o", rounds)
    with pytest.raises(LawfitError, match="lies in a folder that is an input"):
        invoke("compress", folder, "-o", folder / "cells.parquet")


def test_bad_options_are_refused_before_anything_is_read(rounds: Path, tmp_path: Path) -> None:
    for options, error, message in (
        (("-o", tmp_path / "cells.csv"), LawfitError, "suffix '.csv'"),
        (("-o", rounds), LawfitError, "is also an input"),
        (("-o", tmp_path / "c.parquet", "--by", "round"), FitError, "by is 'round'"),
        (("-o", tmp_path / "c.parquet", "--last-round", "cut"), FitError, "last-round is 'cut'"),
        (("-o", tmp_path / "c.parquet", "--bins", "0"), FitError, "bins is 0"),
    ):
        with pytest.raises(error, match=message):
            invoke("compress", rounds, *options)
    assert not (tmp_path / "c.parquet").exists()
