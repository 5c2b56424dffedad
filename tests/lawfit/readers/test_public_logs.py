"""Real logs of other projects; see SOURCES.md beside them."""

import re
from pathlib import Path

import polars as pl
import pytest

from lawfit.errors import LogFormatError
from lawfit.readers import read_rounds, read_with_notes

LOGS = Path(__file__).parents[4] / "shared" / "data" / "public-logs"
pytestmark = pytest.mark.skipif(not LOGS.is_dir(), reason="../shared/data/public-logs is not here")


def test_humaneval_has_54962_rounds_of_164_prompts():
    log = read_rounds(
        LOGS / "humaneval_strict_rounds.parquet",
        mapping={"accept_len": "a", "root_entropy": "H", "horizon": "L", "prompt_id": "prompt"},
        constants={"horizon": 6, "task": "humaneval"},
    )
    assert len(log) == 54_962
    assert log.frame["prompt_id"].n_unique() == log.frame["request_id"].n_unique() == 164
    assert log.frame["root_entropy"].null_count() == 0
    # The last round of each prompt is spurious; the reference mean is without it.
    last = pl.col("round") == pl.col("round").max().over("request_id")
    kept = log.where(~last)
    assert len(kept) == 54_798
    assert kept.frame["accept_len"].mean() == pytest.approx(1.757601, abs=5e-7)


def test_proposals_give_516_rounds_with_677_accepted_and_one_spurious_round():
    reading = read_with_notes(LOGS / "raw_humaneval_fresh_case_025_strictGreedy12k_proposals.jsonl")
    frame = reading.log.frame
    assert reading.notes[0].endswith("read as proposals")
    assert frame["round"].to_list() == list(range(517))
    assert int(frame["accept_len"][:516].sum()) == 677
    assert frame["horizon"].unique().to_list() == [6]
    assert frame["truncated"].any() is False
    # Each round starts after the tokens of those before: accepted + 1 each.
    assert frame["position"].to_list() == [0, *(frame["accept_len"] + 1).cum_sum()[:-1]]


def test_the_proposals_agree_with_the_table_made_of_them():
    rounds = read_rounds(LOGS / "raw_humaneval_fresh_case_025_strictGreedy12k_proposals.jsonl").frame
    table = pl.read_parquet(LOGS / "humaneval_strict_rounds.parquet").filter(pl.col("prompt") == "case_025")
    assert rounds["accept_len"].to_list() == table["a"].to_list()
    assert rounds["position"].to_list() == table["outpos"].to_list()
    assert rounds["root_entropy"].to_list() == pytest.approx(table["H"].to_list(), abs=1e-6)


def test_dflash_rounds_count_the_bonus_until_it_is_mapped_away():
    log = read_rounds(
        LOGS / "dflash_v5_rounds.csv",
        mapping={"accept_len": "acc_len-1", "prompt_id": "sample", "task": "dataset"},
        constants={"horizon": 15},
    )
    raw = pl.read_csv(LOGS / "dflash_v5_rounds.csv")
    assert log.frame["accept_len"].to_list() == raw["a"].to_list()
    assert log.frame["prompt_id"].n_unique() == raw.select("dataset", "sample").n_unique()


@pytest.mark.parametrize("name", ["thor_round_cost.json", "v13_gpu_k_sweep.json"])
def test_what_is_no_round_log_is_refused_with_its_columns(name):
    with pytest.raises(Exception, match="not a known log, and no column gives horizon and accept_len"):
        read_rounds(LOGS / name)


def test_the_sums_of_llamacpp_are_reported_and_refused():
    with pytest.raises(
        LogFormatError, match=r"26 requests .* 4202 tokens accepted of 7817 drafted, 1\.9962 accepted a"
    ):
        read_rounds(LOGS / "llamacpp_results.json")


@pytest.mark.parametrize(("name", "lines"), [("vllm_raw_Aaryaman3.txt", 42), ("vllm_raw_dcstang.txt", 17)])
def test_real_vllm_lines_give_the_tokens_that_each_line_states(name, lines):
    frame = read_rounds(LOGS / name).frame
    stated = re.findall(r"Accepted: (\d+) tokens, Drafted: (\d+) tokens", (LOGS / name).read_text())
    assert len(stated) == lines
    weight = pl.col("count")
    sums = frame.select((pl.col("accept_len") * weight).sum(), (pl.col("horizon") * weight).sum()).row(0)
    assert sums == (sum(int(a) for a, _ in stated), sum(int(d) for _, d in stated))


def test_the_rates_of_real_vllm_lines_come_back_from_the_counts():
    text = (LOGS / "vllm_raw_Aaryaman3.txt").read_text().splitlines()[0]
    frame = read_rounds(LOGS / "vllm_raw_Aaryaman3.txt").frame[:6]
    survivors = [int(frame.filter(pl.col("accept_len") >= j)["count"].sum()) for j in range(1, 6)]
    assert survivors == [31, 12, 4, 2, 2]
    rates = text.split("Per-position acceptance rate: ")[1].split(", Avg")[0].split(", ")
    assert [f"{n / 70:.3f}" for n in survivors] == rates


def test_processes_of_one_vllm_log_are_runs_and_k_is_their_horizon():
    frame = read_rounds(LOGS / "vllm_raw_dcstang.txt").frame
    assert frame["run_id"].n_unique() > 1
    assert frame.group_by("run_id").agg(pl.col("horizon").n_unique())["horizon"].max() == 1
    assert sorted(frame["horizon"].unique()) == [1, 2, 3]


def test_llamacpp_counters_give_their_histogram_with_a_bound_of_the_cut_drafts():
    reading = read_with_notes(LOGS / "llamacpp_prometheus_q8.json")
    rows = reading.log.frame.filter(pl.col("run_id").str.ends_with("/0"))
    assert rows.select("accept_len", "horizon", "count").rows() == [(0, 4, 412), (1, 4, 85), (2, 4, 7), (3, 4, 1)]
    assert any("at most 19 of 505 rounds" in note for note in reading.notes)
    assert any("2 of 3 sets have the very numbers of another; all are kept" in note for note in reading.notes)


def test_dflash_without_its_warm_up_rows():
    log = read_rounds(
        LOGS / "dflash_v5_rounds.csv",
        mapping={"accept_len": "acc_len-1", "prompt_id": "sample", "task": "dataset"},
        constants={"horizon": 15},
        where=["is_warmup=false"],
    )
    assert log.frame["task"].value_counts().sort("task").rows() == [("gsm8k", 742), ("math500", 611)]
