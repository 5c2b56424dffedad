"""`lawfit report`: what the page may be written over."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from lawfit import LawfitError, RoundLog
from lawfit.cli.app import build
from lawfit.readers import own


@pytest.mark.parametrize("given", ["in.parquet", "."])
def test_the_page_never_takes_the_place_of_a_log(
    synthetic: RoundLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.chdir(tmp_path)
    own.write(synthetic, Path("in.parquet"))
    before = Path("in.parquet").read_bytes()
    result = CliRunner().invoke(build(), ["report", given, "-o", "in.parquet"])
    assert isinstance(result.exception, LawfitError)
    assert str(result.exception) == "in.parquet: is also an input, expected another file name"
    assert Path("in.parquet").read_bytes() == before
