from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from lawfit import (
    AffineLogit,
    FitError,
    FreeHazard,
    Geometric,
    Isotonic,
    NotIdentified,
    Observations,
    RoundLog,
    observe,
)
from lawfit.compression import compress
from lawfit.curve import entropy_curve
from lawfit.observations import LastRound
from lawfit.readers import own
from lawfit.risk import risk_table


@pytest.fixture(scope="module")
def many() -> RoundLog:
    """60,000 rounds of 3,000 prompts with their own level, in two tasks."""
    rng = np.random.default_rng(3)
    prompt = np.sort(rng.integers(0, 3000, 60_000))
    entropy = rng.gamma(0.7, 1.1, len(prompt))
    match = 1.0 / (1.0 + np.exp(-(0.96 + rng.normal(0, 0.4, 3000)[prompt] - 0.63 * entropy)))
    a = np.minimum(np.floor(np.log(rng.random(len(prompt))) / np.log(match)), 15).astype(int)
    columns = {"accept_len": a, "root_entropy": entropy, "round": np.arange(len(prompt))}
    names = pl.Series([f"p{k}" for k in range(3000)]).gather(prompt)
    task = pl.Series(["qa", "code"]).gather(prompt % 2)
    return RoundLog.from_frame(pl.DataFrame(columns).with_columns(horizon=15, prompt_id=names, task=task))


def same_table(one: Observations, other: Observations) -> None:
    left, right = risk_table(one), risk_table(other)
    assert left.at_risk.tolist() == right.at_risk.tolist()
    assert left.misses.tolist() == right.misses.tolist()
    assert one.rounds == other.rounds


@pytest.mark.parametrize("law", [Geometric, FreeHazard])
def test_laws_without_entropy_lose_nothing(synthetic: RoundLog, law: type[Geometric | FreeHazard]) -> None:
    whole, counts = law.fit(synthetic), law.fit(compress(synthetic))
    assert whole.fitted is not None
    assert counts.fitted is not None
    assert np.hstack(list(counts.params.values())) == pytest.approx(np.hstack(list(whole.params.values())), rel=1e-9)
    assert counts.fitted.log_likelihood == pytest.approx(whole.fitted.log_likelihood, rel=1e-12)
    assert counts.fitted.cluster_se == pytest.approx(whole.fitted.cluster_se, rel=1e-6, nan_ok=True)
    assert counts.fitted.clusters == whole.fitted.clusters == 30


def test_entropies_alone_in_their_bins_lose_nothing(synthetic: RoundLog) -> None:
    steps = RoundLog.from_frame(synthetic.frame.with_columns((pl.col("root_entropy") * 2).round() / 2))
    counts = compress(steps)
    assert len(counts) < len(steps)
    whole, pooled = AffineLogit.fit(steps), AffineLogit.fit(counts)
    assert whole.fitted is not None
    assert pooled.fitted is not None
    assert (pooled.b0, pooled.b1) == pytest.approx((whole.b0, whole.b1), rel=1e-9)
    assert pooled.fitted.cluster_se == pytest.approx(whole.fitted.cluster_se, rel=1e-9)
    assert pooled.fitted.log_likelihood == pytest.approx(whole.fitted.log_likelihood, rel=1e-12)
    assert pooled.fitted.round_r2 == pytest.approx(whole.fitted.round_r2, rel=1e-9)


def test_binned_entropies_keep_the_law_and_its_errors(many: RoundLog) -> None:
    counts = compress(many, by=[])
    whole, pooled = AffineLogit.fit(many), AffineLogit.fit(counts)
    assert (pooled.b0, pooled.b1) == pytest.approx((whole.b0, whole.b1), abs=0.002)
    assert whole.fitted is not None
    assert pooled.fitted is not None
    assert pooled.fitted.clusters is not None
    assert 900 < pooled.fitted.clusters <= 1024
    # Errors from 1024 sums of a chi-square are off by 1 / sqrt(2 * 1024) = 2.2%; three times that.
    assert pooled.fitted.cluster_se == pytest.approx(whole.fitted.cluster_se, rel=0.066)
    assert pooled.fitted.se == pytest.approx(whole.fitted.se, rel=0.002)
    hazards = Isotonic.fit(counts).hazard([0.01, 0.5, 1.0, 2.0], 1)
    assert hazards == pytest.approx(Isotonic.fit(many).hazard([0.01, 0.5, 1.0, 2.0], 1), abs=0.03)


def test_humaneval_keeps_its_lowest_decile_its_curve_and_its_law(humaneval: RoundLog) -> None:
    counts = compress(humaneval)
    whole, pooled = AffineLogit.fit(humaneval), AffineLogit.fit(counts)
    assert whole.fitted is not None
    assert pooled.fitted is not None
    assert (pooled.b0, pooled.b1) == pytest.approx((whole.b0, whole.b1), abs=0.002)
    assert pooled.fitted.curve_r2 == pytest.approx(whole.fitted.curve_r2, abs=0.01)
    lowest = [entropy_curve(observe(log)).accept_len[0] for log in (humaneval, counts)]
    assert lowest[1] == pytest.approx(lowest[0], abs=0.01)


def test_a_prompt_is_never_parted(many: RoundLog) -> None:
    # The horizon tells the prompt, so that it can be followed into its shard.
    number = pl.col("prompt_id").str.slice(1).cast(pl.Int64)
    told = RoundLog.from_frame(many.frame.with_columns(horizon=number + 15))
    shards = compress(told, shards=64, by=[]).frame.group_by("horizon").agg(pl.col("prompt_id").n_unique())
    assert len(shards) == many.frame["prompt_id"].n_unique()
    assert shards["prompt_id"].to_list() == [1] * len(shards)


def test_no_cut_of_the_curve_parts_long_runs_from_short_ones(many: RoundLog) -> None:
    nameless = compress(RoundLog.from_frame(many.frame.drop("prompt_id")), by=[])
    assert nameless.frame["prompt_id"].null_count() == len(nameless)
    whole, pooled = entropy_curve(observe(many)), entropy_curve(observe(nameless))
    law = AffineLogit.fit(many)
    assert (pooled.accept_len - law.mean(pooled.entropy)).tolist() == pytest.approx(
        (whole.accept_len - law.mean(whole.entropy)).tolist(), abs=0.05
    )


@pytest.mark.parametrize("last_round", ["keep", "drop", "censor"])
@pytest.mark.parametrize("seed", range(4))
def test_last_rounds_are_those_of_observe(seed: int, last_round: LastRound, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lawfit.scan.BATCH", 70)
    rng = np.random.default_rng(seed)
    n = 400
    request = rng.integers(0, 25, n)
    frame = pl.DataFrame({"accept_len": rng.integers(0, 5, n), "horizon": rng.integers(4, 7, n)}).with_columns(
        request_id=pl.Series([None if k < 5 else f"r{k}" for k in request]),
        prompt_id=pl.Series([f"p{k % 7}" if k < 20 else None for k in request]),
        run_id=pl.Series(["x" if k % 2 else None for k in request]),
        truncated=pl.Series(rng.choice([True, False, None], n)),
        round=pl.Series(rng.permutation(n)) if seed % 2 else pl.lit(None, dtype=pl.Int64),
        root_entropy=pl.Series(rng.choice([0.0, 0.5, 2.0, None], n)),
    )
    log = RoundLog.from_frame(frame)
    whole, counts = observe(log, last_round=last_round), observe(compress(log, last_round=last_round))
    same_table(whole, counts)
    same_table(whole.with_entropy(), counts.with_entropy())
    assert counts.clusters == whole.clusters
    if last_round != "keep":
        assert not any("truncated" in note for note in counts.notes)


def test_batches_parts_and_order_make_no_difference(
    many: RoundLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = compress(many, by=["task"])
    for k, start in enumerate((40_000, 0, 20_000)):
        own.write(RoundLog(many.frame[start : start + 20_000]), tmp_path / f"{k}.parquet")
    monkeypatch.setattr("lawfit.scan.BATCH", 7_000)
    monkeypatch.setattr("lawfit.scan._PENDING", 10_000)
    done: list[int] = []
    for source in (tmp_path, str(tmp_path / "*.parquet"), many.frame.lazy()):
        done.clear()
        assert_frame_equal(compress(source, by=["task"], on_rows=done.append).frame, once.frame, rel_tol=1e-12)
        assert sum(done) == 60_000


def test_a_pooled_log_pools_to_itself(many: RoundLog) -> None:
    counts = compress(many, shards=4096)
    assert_frame_equal(compress(counts, shards=4096).frame, counts.frame, rel_tol=1e-12)


def test_groups_stay_apart(many: RoundLog) -> None:
    whole, counts = many.groups("task"), compress(many, by=["task"]).groups("task")
    assert set(whole) == set(counts) == {"qa", "code"}
    for name, log in whole.items():
        same_table(observe(log), observe(counts[name]))


def test_spine_and_shape_can_be_kept(synthetic: RoundLog) -> None:
    spine = RoundLog.from_frame(synthetic.frame.with_columns(spine_len=pl.col("accept_len") // 2, shape=pl.lit("tree")))
    counts = compress(spine, by=["spine_len", "shape"])
    same_table(observe(spine, outcome="spine_len"), observe(counts, outcome="spine_len"))


def test_a_trace_stays_a_trace(synthetic: RoundLog) -> None:
    trace = RoundLog.from_frame(synthetic.frame.with_columns(origin=pl.lit("trace")))
    assert compress(trace).frame["origin"].unique().to_list() == ["trace"]


def test_requests_stand_in_where_prompts_have_no_name(many: RoundLog) -> None:
    log = RoundLog.from_frame(many.frame.rename({"prompt_id": "request_id", "request_id": "prompt_id"}))
    for shards in (64, 4096):
        seen = observe(compress(log, shards=shards))
        assert seen.clusters == min(shards, many.frame["prompt_id"].n_unique())


def test_huge_entropies_share_the_last_bin() -> None:
    frame = pl.DataFrame({"accept_len": [1, 1, 0], "horizon": [2] * 3, "root_entropy": [1e300, 1e200, 0.0]})
    assert sorted(compress(RoundLog.from_frame(frame)).frame["count"]) == [1, 2]


def test_the_deepest_horizon_comes_back() -> None:
    frame = pl.DataFrame({"accept_len": [10_000, 9_999], "horizon": [10_000] * 2, "truncated": [None, True]})
    rows = compress(RoundLog.from_frame(frame), shards=2).frame
    assert rows.select("accept_len", "horizon", "truncated").rows() == [(9_999, 10_000, True), (10_000, 10_000, None)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bins": 0}, "bins is 0, expected 1 to 256"),
        ({"shards": 1}, "shards is 1, expected 2"),
        ({"by": ["prompt_id"]}, "by is 'prompt_id', which counts cannot keep apart"),
        ({"by": ["accept_ranks"]}, "by is 'accept_ranks'"),
        ({"signal": "entropy"}, "signal is 'entropy'"),
        ({"last_round": "cut"}, "last_round is 'cut'"),
    ],
)
def test_options_out_of_range_are_refused(synthetic: RoundLog, options: dict[str, object], message: str) -> None:
    with pytest.raises(FitError, match=message):
        compress(synthetic, **options)  # type: ignore[arg-type]


def test_requests_of_one_round_leave_nothing_when_dropped() -> None:
    frame = pl.DataFrame({"accept_len": [1, 0], "horizon": [2, 2], "request_id": ["a", "b"], "round": [0, 0]})
    with pytest.raises(NotIdentified, match=r"no rounds are left \(last_round is drop\)"):
        compress(RoundLog.from_frame(frame), last_round="drop")


@pytest.mark.parametrize(
    "names",
    [
        {"run_id": ["a", "a/b"], "request_id": ["b/c", "c"]},
        {"prompt_id": ["request /x", None], "request_id": ["q", "x"]},
    ],
)
def test_requests_whose_names_look_alike_stay_apart(names: dict[str, list[str | None]]) -> None:
    columns = {name: pl.Series(values * 50) for name, values in names.items()}
    frame = pl.DataFrame({"accept_len": [3, 0] * 50, "horizon": [3] * 100}).with_columns(**columns)
    log = RoundLog.from_frame(frame)
    assert observe(compress(log)).clusters == observe(log).clusters == 2
