from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from lawfit import FitError, RoundLog
from lawfit.drift.groups import group
from lawfit.log import concat


def test_by_default_every_key_that_varies_is_used_and_the_rest_is_explained(world: Callable[..., RoundLog]) -> None:
    grouping = group(world(1))
    keys = list(dict.fromkeys(part.key for part in grouping.groups))
    assert keys == ["target", "temperature", "task", "prompt_len", "precision"]
    assert "engine: all rounds have vLLM 0.26: the same as all" in grouping.notes
    assert "drafter: not logged" in grouping.notes
    for key in keys:
        rows = np.sum([part.rows for part in grouping.groups if part.key == key], axis=0)
        assert (rows == 1).all()


def test_precision_is_read_from_the_names_of_target_and_engine(world: Callable[..., RoundLog]) -> None:
    assert [part.value for part in group(world(1), ["precision"]).groups] == ["bf16", "q4_k_m"]
    untold = RoundLog(world(1).frame.with_columns(target=pl.lit("abf16x")))
    grouping = group(untold, ["precision"])
    assert not grouping.groups
    assert grouping.notes[-1].startswith("precision: neither engine nor target names one")


def test_prompt_lengths_are_cut_at_their_quartiles(world: Callable[..., RoundLog]) -> None:
    log = world(1)
    groups = group(log, ["prompt_len"]).groups
    assert [part.value for part in groups] == ["50 to 140", "150 to 240", "250 to 340", "350 to 440"]
    lengths = (log.frame["context_len"] - log.frame["position"]).to_numpy()
    assert set(lengths[groups[1].rows]) == set(range(150, 250, 10))


def test_rows_stay_aligned_where_rounds_are_left_out(world: Callable[..., RoundLog]) -> None:
    """Idle rounds, last rounds and rounds without entropy go; each row keeps the task of its own prompt."""
    frame = world(2).frame.with_row_index("at")
    idle, blind = pl.col("at") % 7 == 0, pl.col("at") % 11 == 0
    nothing = {name: pl.when(idle).then(0).otherwise(pl.col(name)) for name in ("accept_len", "horizon")}
    log = RoundLog.from_frame(
        frame.with_columns(
            **nothing, truncated=pl.lit(False), root_entropy=pl.when(blind).then(None).otherwise(pl.col("root_entropy"))
        )
    )
    last = pl.col("round") == 29
    kept = frame.filter(~idle & ~blind & ~last)
    grouping = group(log, ["task"], last_round="drop")
    assert len(grouping.observations) == len(kept)
    for part in grouping.groups:
        mine = kept.filter(pl.col("task") == part.value)
        assert grouping.observations.take(part.rows).entropy == pytest.approx(mine["root_entropy"].to_numpy())


def test_rows_without_a_key_form_a_group_of_their_own(world: Callable[..., RoundLog]) -> None:
    bare = RoundLog(world(3).frame.with_columns(task=pl.lit(None, pl.String), context_len=pl.lit(None, pl.Int64)))
    both = concat([world(1), bare])
    for key in ("task", "prompt_len"):
        assert [part.value for part in group(both, [key]).groups][-1] == "(none)"


def test_an_unknown_or_nested_key_is_refused(world: Callable[..., RoundLog]) -> None:
    for key in ("colour", "draft_logprobs"):
        with pytest.raises(FitError, match=f"cannot check by '{key}'"):
            group(world(1), [key])
