import numpy as np
import polars as pl
import pytest

from lawfit.errors import LogFormatError
from lawfit.trace import Trace
from policy.controller import FixedBudget
from runtime.audit import plain_output
from runtime.drafters.ngram import NgramDrafter
from runtime.engine import Engine
from runtime.trace import trace_request

DRAFTER = NgramDrafter(min_match=1, max_nodes=16)
PROMPT = [1, 2, 3, 1, 2, 5, 7, 1, 2]


@pytest.fixture(scope="module")
def traced(llama):
    return trace_request(llama, DRAFTER, PROMPT, 60)


def test_there_is_one_row_for_every_position_but_the_last(llama, traced):
    assert [row["position"] for row in traced] == list(range(len(plain_output(llama, PROMPT, 60)) - 1))


def test_the_trace_replays_every_fixed_budget_exactly(llama, traced):
    """Rounds, accepted lengths and positions of a replay equal those of a real run."""
    for budget in (0, 1, 2, 4, 8, 16):
        real = []
        Engine(llama, DRAFTER, FixedBudget(budget)).generate(PROMPT, 60, real.append)
        position, replayed = 0, []
        while position < len(traced):
            accepted = sum(rank <= budget for rank in traced[position]["accept_ranks"])
            replayed.append((position, accepted))
            position += accepted + 1
        assert replayed == [(round.position, round.outcome.accept_len) for round in real]


def test_entropies_line_up_with_a_real_run(llama, traced):
    real = []
    Engine(llama, DRAFTER, FixedBudget(8)).generate(PROMPT, 60, real.append)
    for round in real:
        row = traced[round.position]
        assert row["root_entropy"] == pytest.approx(round.root_entropy, abs=1e-4)
        assert row["prev_entropy"] == pytest.approx(round.prev_entropy, abs=1e-4)


def test_a_trace_survives_its_file_and_reads_as_a_round_log(traced, tmp_path):
    from lawfit.readers import read_rounds

    trace = Trace.from_frame(pl.DataFrame(traced, infer_schema_length=None))
    trace.write(tmp_path / "trace.parquet")
    again = Trace.read(tmp_path / "trace.parquet")
    assert again.frame.equals(trace.frame)
    log = read_rounds([tmp_path / "trace.parquet"])
    assert len(log) == len(traced)
    assert set(log.frame["origin"]) == {"trace"}


def test_accepted_nodes_are_the_path_of_the_output(traced):
    for row in traced:
        ranks = 1 + np.flatnonzero(row["on_path"])
        assert ranks.tolist() == row["accept_ranks"]
        assert [row["depth"][rank - 1] for rank in ranks] == list(range(1, len(ranks) + 1))


def test_a_trace_whose_lists_disagree_is_refused(traced):
    rows = [dict(row) for row in traced]
    at = next(k for k, row in enumerate(rows) if row["on_path"])
    rows[at]["on_path"] = [not value for value in rows[at]["on_path"]]
    with pytest.raises(LogFormatError, match=f"row {at}"):
        Trace.from_frame(pl.DataFrame(rows, infer_schema_length=None))
    with pytest.raises(LogFormatError, match="expected a trace"):
        Trace.from_frame(pl.DataFrame({"accept_len": [1], "horizon": [2]}))
