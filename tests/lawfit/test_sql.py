"""The SQL of docs/sql.md gives what `lawfit compress` gives."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from lawfit import AffineLogit, RoundLog, read_rounds
from lawfit.compression import compress

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
COLUMNS = ["task", "prompt_id", "accept_len", "horizon", "truncated", "count", "root_entropy"]


@pytest.fixture(scope="module")
def blocks() -> list[str]:
    return re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.fixture
def log(synthetic: RoundLog) -> RoundLog:
    """Rounds in two tasks and one without, some with an unknown entropy, end or both."""
    rng = np.random.default_rng(1)
    n = len(synthetic)
    task = pl.Series(rng.choice(["qa", "code", None], n))
    columns = {"task": task, "request_id": pl.col("prompt_id")}
    for name in ("root_entropy", "truncated"):
        columns[name] = pl.when(pl.Series(rng.random(n) < 0.8)).then(pl.col(name))
    return RoundLog.from_frame(synthetic.frame.with_columns(**columns))


def agree(found: pl.DataFrame, log: RoundLog) -> None:
    ours = compress(log).frame.select(COLUMNS)
    theirs = RoundLog.from_frame(found).frame.select(COLUMNS)
    assert_frame_equal(theirs, ours, check_row_order=False, rel_tol=1e-12)


def test_polars_sql_gives_the_compressed_log(log: RoundLog, blocks: list[str], tmp_path: Path) -> None:
    rounds = log.frame.with_columns(shard="prompt_id")
    found = pl.SQLContext(rounds=rounds, eager=True).execute(blocks[0])
    agree(found, log)
    found.write_parquet(tmp_path / "cells.parquet")
    law = AffineLogit.fit(read_rounds(tmp_path / "cells.parquet"))
    assert law.params == pytest.approx(AffineLogit.fit(compress(log)).params, rel=1e-9)


def test_duckdb_gives_the_compressed_log(log: RoundLog, blocks: list[str], tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    rounds, cells = tmp_path / "rounds.parquet", tmp_path / "cells.parquet"
    log.frame.with_columns(shard="prompt_id").write_parquet(rounds)
    with duckdb.connect() as engine:
        engine.execute(f"CREATE VIEW rounds AS FROM '{rounds}'")
        engine.execute(f"COPY ({blocks[0]}) TO '{cells}' (FORMAT parquet)")
    agree(pl.read_parquet(cells), log)


def test_the_query_of_last_rounds_drops_what_compress_drops(log: RoundLog, blocks: list[str]) -> None:
    marked = pl.SQLContext(rounds=log.frame, eager=True).execute(blocks[2])
    kept = marked.filter(~pl.col("is_last")).with_columns(pl.col("truncated").fill_null(False), shard="prompt_id")
    found = pl.SQLContext(rounds=kept, eager=True).execute(blocks[0])
    ours = compress(log, last_round="drop").frame.select(COLUMNS)
    assert_frame_equal(RoundLog.from_frame(found).frame.select(COLUMNS), ours, check_row_order=False, rel_tol=1e-12)


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_the_query_of_nameless_prompts_clusters_as_compress_does(engine: str, blocks: list[str]) -> None:
    names = [("a", "b/c", None), ("a/b", "c", None), (None, "x", None), (None, "q", "request /x"), ("a", None, None)]
    schema = {"run_id": pl.String, "request_id": pl.String, "prompt_id": pl.String}
    frame = pl.DataFrame(names * 3, schema, orient="row").with_columns(accept_len=pl.int_range(15) % 3, horizon=2)
    log = RoundLog.from_frame(frame)
    if engine == "polars":  # its SQL has no CHR, but takes the character itself
        query = blocks[1].replace("CHR(31)", "'\x1f'")
        named = pl.SQLContext(rounds=log.frame, eager=True).execute(query)
    else:
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect() as connection:
            connection.register("rounds", frame.to_arrow())
            found = connection.execute(blocks[1]).fetchall()
        named = log.frame.with_columns(shard=pl.Series([row[-1] for row in found], dtype=pl.String))
    agree(pl.SQLContext(rounds=named, eager=True).execute(blocks[0]), log)
    assert named["shard"].n_unique() == 5
