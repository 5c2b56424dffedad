from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from lawfit import LAWS, AffineLogit, FitError, Law, LawfitError, LogFormatError, NotIdentified, RoundLog
from lawfit.cli import fit
from lawfit.readers import own

KEYS = ["group", "law", "method", "n", "prompts", "horizon", "mean_accept_len", "params", "se", "cluster_se"]
KEYS += ["log_likelihood", "curve_r2", "round_r2"]


@pytest.fixture
def rounds(synthetic: RoundLog, tmp_path: Path) -> Path:
    path = tmp_path / "rounds.parquet"
    task = pl.when(pl.col("round") < 450).then(pl.lit("../x")).otherwise(pl.lit("[red]"))
    own.write(RoundLog.from_frame(synthetic.frame.with_columns(task=task)), path)
    return path


def invoke(*arguments: object) -> Any:
    app = typer.Typer()
    app.callback()(lambda: None)
    fit.register(app)
    result = CliRunner().invoke(app, ["fit", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_json_holds_the_fit(rounds: Path) -> None:
    (record,) = json.loads(invoke(rounds, "--json").stdout)["fits"]
    law = AffineLogit.fit(own.read(rounds))
    assert list(record)[: len(KEYS)] == KEYS
    assert record["params"] == {"b0": law.b0, "b1": law.b1}
    assert law.fitted is not None
    assert record["cluster_se"] == law.fitted.cluster_se
    assert (record["group"], record["n"], record["prompts"], record["horizon"]) == ("all", 900, 30, 8)


def test_every_law_and_group_has_its_entry(rounds: Path) -> None:
    fits = json.loads(invoke(rounds, "--json", "--law", "all", "--by", "task").stdout)["fits"]
    names = [(group, law) for group in ("../x", "[red]") for law in LAWS]
    assert [(entry["group"], entry["law"]) for entry in fits] == names
    assert sum(entry["n"] for entry in fits if entry["law"] == "affine") == 900


def test_what_is_not_identified_is_listed_beside_the_fits(rounds: Path) -> None:
    result = invoke(rounds, "--json", "--law", "all", "--method", "ls-rounds")
    fits = {entry["law"]: entry for entry in json.loads(result.stdout)["fits"]}
    assert "not_identified" not in fits["affine"]
    assert "means do not determine" in fits["hazard"]["not_identified"]
    assert set(KEYS) <= set(fits["hazard"])
    assert "hazard is not identified" in result.stderr


def test_when_nothing_is_identified_the_reason_is_the_error(rounds: Path, tmp_path: Path) -> None:
    with pytest.raises(NotIdentified, match="means do not determine"):
        invoke(rounds, "--law", "hazard", "--method", "ls-rounds", "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_table_names_the_coefficients_and_takes_groups_as_text(rounds: Path) -> None:
    text = invoke(rounds, "--law", "all", "--by", "task").stdout
    for word in ("b0", "[red]", "../x", "isotonic", "match_prob", "curve R²"):
        assert word in text


def test_notes_go_to_stderr(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    frame = pl.DataFrame({"accept_len": [0, 1, 3, 2], "horizon": [4] * 4, "root_entropy": [1.0, 0.5, None, 0.7]})
    own.write(RoundLog.from_frame(frame), path)
    result = invoke(path, "--law", "all", "--json")
    assert "1 of 4 rounds have no root_entropy and were left out" in result.stderr
    assert "truncated is not known in 4 of 4 rows" in result.stderr
    assert json.loads(result.stdout)


def test_output_stays_in_its_folder_whatever_the_group(rounds: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    invoke(rounds, "--law", "all", "--by", "task", "-o", out)
    assert {path.name for path in tmp_path.iterdir()} == {"rounds.parquet", "deep"}
    folders = sorted(path for path in out.iterdir())
    assert len(folders) == 2
    for folder in folders:
        names = {path.name for path in folder.iterdir()}
        laws = {f"{name}.json" for name in LAWS}
        assert names == {*laws, "curve.png", "survival.png"}
        assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
        for law in laws:
            assert Law.from_json((folder / law).read_text()).fitted is not None


def test_a_log_without_entropy_has_no_curve(tmp_path: Path) -> None:
    path, out = tmp_path / "rounds.parquet", tmp_path / "out"
    own.write(RoundLog.from_frame(pl.DataFrame({"accept_len": [0, 1, 4], "horizon": [4] * 3})), path)
    invoke(path, "--law", "all", "-o", out)
    assert {file.name for file in out.iterdir()} == {"geometric.json", "hazard.json", "two-state.json", "survival.png"}


def test_rows_without_a_key_get_a_folder_that_says_so(rounds: Path, tmp_path: Path) -> None:
    for name, key, folder in (("plain", "qa", "no-task"), ("taken", "no-task", "_none_-552e4230")):
        keyed = own.read(rounds).frame.with_columns(task=pl.when(pl.col("round") < 450).then(pl.lit(key)))
        own.write(RoundLog.from_frame(keyed), tmp_path / f"{name}.parquet")
        invoke(tmp_path / f"{name}.parquet", "--law", "hazard", "--by", "task", "-o", tmp_path / name)
        assert {path.name for path in (tmp_path / name).iterdir()} == {key, folder}


def edge(tmp_path: Path) -> Path:
    """Write rounds that all go on from offset 2 to 3 and from 3 to 4, and never beyond offset 5."""
    path = tmp_path / "edge.parquet"
    lengths = [0, 1, 4, 4, 5, 5, 1, 0, 4, 5]
    frame = pl.DataFrame({"accept_len": [0 if a == 0 else max(a, 1) for a in lengths], "horizon": [7] * 10})
    names = [f"p{k % 5}" for k in range(10)]
    own.write(RoundLog.from_frame(frame.with_columns(prompt_id=pl.Series(names))), path)
    return path


def test_hazards_on_an_edge_stand_together_with_what_was_seen(tmp_path: Path) -> None:
    text = " ".join(invoke(edge(tmp_path), "--law", "hazard").stdout.split())
    assert "h3 to h4 1.0000 (no miss seen)" in text
    assert "h6 0.0000 (no match seen)" in text
    assert "h1 0.8000 (0." in text


def test_notes_name_their_law_where_several_were_fitted(tmp_path: Path) -> None:
    path = edge(tmp_path)
    notes = invoke(path, "--law", "all").stderr.splitlines()
    ends = "no round reached offset 7 of 7: the law ends before it"
    assert f"hazard: {ends}" in notes
    assert any(line.startswith("truncated is not known") for line in notes)
    assert ends in invoke(path, "--law", "hazard").stderr.splitlines()


def test_the_header_says_when_there_are_no_errors_by_prompt(rounds: Path, tmp_path: Path) -> None:
    nameless = tmp_path / "nameless.parquet"
    own.write(RoundLog.from_frame(own.read(rounds).frame.drop("prompt_id")), nameless)
    assert "coefficients, without standard errors by prompt" in invoke(nameless).stdout
    assert "coefficients, with standard errors by prompt" in invoke(rounds).stdout


def test_safe_names_are_unlike_for_unlike_groups() -> None:
    groups = ["a/b", "a_b", "a.b", "..", ".", "", "../x", "é", "è", "a" * 300, "a" * 301]
    names = [fit.safe_name(group) for group in groups]
    assert len(set(names)) == len(groups)
    assert all(name.strip(".") and "/" not in name and len(name) < 100 for name in names)


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("--law", "cubic", FitError),
        ("--method", "guess", FitError),
        ("--mean", "median", FitError),
        ("--last-round", "skip", FitError),
        ("--signal", "noise", FitError),
        ("--mean", "capped", FitError),
        ("--by", "colour", LogFormatError),
    ],
)
def test_a_wrong_option_is_one_clear_error(option: str, value: str, error: type[Exception], rounds: Path) -> None:
    with pytest.raises(error, match=value):
        invoke(rounds, option, value)


def test_humaneval_reference_through_the_command(humaneval: RoundLog, tmp_path: Path) -> None:
    path = tmp_path / "rounds.parquet"
    own.write(humaneval, path)
    (record,) = json.loads(invoke(path, "--json", "--last-round", "drop").stdout)["fits"]
    assert record["n"] == 54798
    assert record["params"] == pytest.approx({"b0": 1.500284, "b1": 1.145272}, abs=1e-4)
    assert record["cluster_se"] == pytest.approx({"b0": 0.0249, "b1": 0.0173}, abs=2e-3)


@pytest.mark.parametrize("folder", [None, "x"])
def test_a_law_never_takes_the_place_of_an_input(tmp_path: Path, folder: str | None) -> None:
    place = tmp_path / (folder or "")
    place.mkdir(exist_ok=True)
    log = place / "affine.json"
    rows = [{"accept_len": k % 4, "horizon": 4, "root_entropy": k * 7 % 10 / 9, "task": "x"} for k in range(60)]
    log.write_text(json.dumps(rows))
    before = log.read_text()
    by = [] if folder is None else ["--by", "task"]
    with pytest.raises(LawfitError, match=r"affine\.json: is also an input"):
        invoke(log, "-o", tmp_path, *by)
    assert log.read_text() == before
    assert [path.name for path in place.iterdir()] == ["affine.json"]
