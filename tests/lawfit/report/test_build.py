"""The report, whole and part by part."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from lawfit import AffineLogit, NotIdentified, RoundLog, observe
from lawfit.cli.app import build as command
from lawfit.readers import own
from lawfit.report import Options, build
from lawfit.report.part import attempt, spread

SHIPPED = Path(__file__).parents[3] / "data" / "rounds.parquet"
QUICK = Options(resamples=60)


def log(seed: int = 1, n: int = 1500, *, copying: float = 0.0, **columns: object) -> RoundLog:
    rng = np.random.default_rng(seed)
    entropy = rng.gamma(0.8, 1.0, n)
    match = 1 / (1 + np.exp(-(1.0 - 0.9 * entropy)))
    a = np.minimum(rng.geometric(1 - match) - 1, 6)
    a = np.where((entropy < 0.2) & (rng.random(n) < copying), 6, a)
    prompt = rng.integers(0, 60, n)
    frame = {
        "accept_len": a,
        "horizon": np.full(n, 6),
        "truncated": np.zeros(n, dtype=bool),
        "root_entropy": entropy,
        "prompt_id": [f"p{k}" for k in prompt],
        "task": np.where(prompt < 30, "open", "grounded"),
        **columns,
    }
    return RoundLog.from_frame(pl.DataFrame(frame))


def headings(page: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", page)


def findings(page: str, mark: str) -> list[str]:
    return re.findall(rf'<li class="{mark}">(.*?)</li>', page)


def test_a_true_law_is_found_to_hold() -> None:
    page = build(log(), QUICK)
    summary = page[: page.index("<h2>")]
    assert any(text.startswith("Entropy lowers acceptance") for text in findings(summary, "holds"))
    assert any("lies in that interval" in text for text in findings(summary, "holds"))
    assert not findings(summary, "fails")
    assert "What this log cannot tell" in headings(page)


def test_its_figures_are_those_of_the_fit() -> None:
    rows = log()
    law = AffineLogit.fit(observe(rows))
    page = build(rows, QUICK)
    assert f"(b1 {law.b1:.3f})" in page
    assert f"{len(rows)} rounds with a draft of 60 prompts" in page
    last = page[page.index('<tr class="total">') :]
    assert f"<td>{law.b0:.2f} (" in last[: last.index("</tr>")]


def test_a_copy_state_breaks_the_cap() -> None:
    page = build(log(copying=0.6), QUICK)
    broken = findings(page, "fails")
    assert any(text.startswith("Near zero entropy drafts run longer than the law allows") for text in broken)


def test_what_the_shipped_log_tells_has_a_section_each() -> None:
    if not SHIPPED.exists():
        pytest.skip("the shipped log is not in this tree")
    page = build(own.read(SHIPPED), QUICK)
    assert headings(page) == [
        "The law by task",
        "Acceptance against entropy",
        "The paper&#x27;s four conditions",
        "The same, asked by prompts",
        "On unseen prompts",
        "Hazard by offset",
        "The lowest entropies",
        "Spread of accepted lengths",
        "Entropy and accepted length",
        "The drafter&#x27;s confidence",
        "Smaller budgets",
        "A ceiling by verification",
        "A bound from the draft&#x27;s entropy",
        "What this log cannot tell",
    ]
    assert page.count("<svg") == 4


def test_a_log_without_entropy_says_what_it_cannot_tell() -> None:
    rows = RoundLog(log().frame.with_columns(root_entropy=pl.lit(None, dtype=pl.Float64)), "frame")
    page = build(rows, QUICK)
    assert headings(page)[:2] == ["Acceptance by task", "Hazard by offset"]
    assert any("No row holds an entropy" in text for text in findings(page, "unknown"))
    assert "root_entropy" in page[page.index("What this log cannot tell") :]


@pytest.mark.parametrize(
    "changes",
    [
        {"accept_len": np.full(40, 6)},
        {"accept_len": np.zeros(40, dtype=int)},
        {"root_entropy": np.full(40, 0.5)},
        {"prompt_id": ["only"] * 40},
        {"task": [None] * 40},
        {"task": ["a"] * 39 + ["<b>$x$"]},
    ],
    ids=["a = L", "a = 0", "constant entropy", "one prompt", "no task", "a task of one round"],
)
def test_odd_logs_give_a_page_with_clear_answers(changes: dict[str, object]) -> None:
    page = build(log(n=40, **changes), QUICK)
    assert "What this log cannot tell" in page
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)
    assert "<b>" not in page


def test_one_round_gives_a_page() -> None:
    one = RoundLog.from_frame(pl.DataFrame({"accept_len": [2], "horizon": [4], "root_entropy": [0.3]}))
    page = build(one, QUICK)
    assert "1 rounds with a draft of an unknown number of prompts" in page


def test_no_draft_at_all_is_an_error() -> None:
    idle = RoundLog.from_frame(pl.DataFrame({"accept_len": [0, 0], "horizon": [0, 0]}))
    with pytest.raises(NotIdentified, match="no round offered a draft"):
        build(idle)


def test_budgets_and_costs_are_compared_where_logged() -> None:
    rng = np.random.default_rng(0)
    n = 1500
    passes = rng.integers(1, 9, n)
    rows = log(
        budget=rng.choice([6, 8], n),
        request_id=[str(k // 20) for k in range(n)],
        round=np.arange(n) % 20,
        draft_passes=passes,
        round_ms=24.8 + 1.82 * passes + rng.normal(0, 0.1, n),
    )
    page = build(rows, QUICK)
    assert "Budgets" in headings(page)
    assert re.search(r"A round costs 24\.[78]\d ms \(SE 0\.01\) and 1\.82 ms", page)
    assert "two passes to eight add 38%" in page


def test_the_command_writes_the_page_whole_or_not_at_all(tmp_path: Path) -> None:
    source, page = tmp_path / "rounds.parquet", tmp_path / "report.html"
    own.write(log(n=300), source)
    done = CliRunner().invoke(command(), ["report", str(source), "-o", str(page), "--resamples", "20"])
    assert done.exit_code == 0, done.output
    assert page.read_text().startswith("<!doctype html>")
    refused = CliRunner().invoke(command(), ["report", str(source), "-o", str(tmp_path)])
    assert refused.exit_code != 0
    assert {path.name for path in tmp_path.iterdir()} == {"rounds.parquet", "report.html"}


def test_an_interval_that_is_not_known_is_left_out() -> None:
    assert spread(1.0, float("nan"), float("nan")) == "1.000"
    assert spread(1.0, 0.5, 1.5, 1) == "1.0 (0.5 to 1.5)"


def test_a_part_that_fails_for_another_reason_is_no_answer() -> None:
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        attempt("x", broken)  # type: ignore[arg-type]


def test_without_prompts_the_page_says_whose_errors_its_intervals_are() -> None:
    rows = RoundLog(log().frame.with_columns(prompt_id=pl.lit(None, dtype=pl.String)), "frame")
    page = build(rows, QUICK)
    assert "Rows name no prompt: intervals are as if rounds were independent" in page
    assert "resamples of whole prompts" not in page
    assert "intervals over prompts" not in page


def test_rounds_without_a_draft_are_counted_apart() -> None:
    frame = log(n=400, budget=np.full(400, 16), accept_ranks=None).frame
    ranks = [list(range(1, a + 1)) for a in frame["accept_len"]]
    drafted = frame.with_columns(accept_ranks=pl.Series(ranks, dtype=pl.List(pl.Int64)))
    none = pl.lit(0, dtype=pl.Int64)
    empty = pl.lit([], dtype=pl.List(pl.Int64))
    idle = drafted.with_columns(accept_len=none, horizon=none, budget=none, accept_ranks=empty)
    page = build(RoundLog(pl.concat([drafted, idle]), "frame"), QUICK)
    assert "400 rounds with a draft (of 800 in the log)" in page
    assert "With N = 16 verified nodes" in page
    smaller = page[page.index("Smaller budgets") :]
    assert f"{drafted['accept_len'].mean():.3f}" in smaller[: smaller.index("</table>")]


def test_a_trace_is_named_as_one() -> None:
    rows = RoundLog(log(n=200).frame.with_columns(origin=pl.lit("trace")), "frame")
    page = build(rows, QUICK)
    assert re.search(r"200 drafts of \d+ prompts", page)
    assert "they overlap, and are no rounds" in page
