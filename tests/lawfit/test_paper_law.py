"""The GLANCE paper's law, its tests and its transfer: Tables 12 to 16 and Appendix A, from its printed numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from scipy import stats

from lawfit.brackets import adaedl_bound
from lawfit.copyregime import cap, copy_threshold
from lawfit.printed import Printed, rederive
from lawfit.survival import expit, mean, survival
from tests.lawfit.paper_tables import columns, margin, ratio, summary, table, tasks, text, verdicts


def spearman_p(rounds: int) -> Callable[[float], float]:
    def p_value(rho: float) -> float:
        t = rho * np.sqrt((rounds - 2) / (1.0 - rho**2))
        return float(2.0 * stats.t.sf(abs(t), rounds - 2))

    return p_value


def test_table_12_pools_7751_rounds_with_mean_2_1461() -> None:
    parts = tasks("table12").filter(pl.col("task").is_in(["captioning", "textvqa", "docvqa"]))
    rounds = parts["rounds"].cast(pl.Float64).to_numpy()

    def pooled(*means: float) -> float:
        return float(np.average(means, weights=rounds))

    check = rederive("pooled mean", summary("table12")["mean_a"], pooled, *parts["mean_a"])
    assert rounds.sum() == float(summary("table12")["rounds"]) == 7751
    assert (check.derived, check.verdict) == (pytest.approx(2.1461, abs=5e-5), "equal")
    gap = rederive("gap", text("task_gap"), lambda a, b: a - b, parts["mean_a"][2], parts["mean_a"][0])
    assert (gap.derived, gap.verdict) == (pytest.approx(1.195), "equal")


def test_table_12_caps_and_the_supremum_of_docvqa() -> None:
    floors = tasks("table12").filter(pl.col("cap").is_not_null())
    checks = [rederive(row["task"], row["cap"], cap, row["b0"]) for row in floors.iter_rows(named=True)]
    checks.append(rederive("supremum", text("docvqa_law_sup"), lambda b0: cap(b0, 15), floors["b0"][1]))
    assert verdicts(checks) == {}
    assert [check.derived for check in checks] == pytest.approx([3.2188, 3.40757, 4.4997, 3.33577], abs=5e-5)
    assert (floors["floor_mean"].cast(pl.Float64) > floors["cap"].cast(pl.Float64)).all()


def test_table_12_fractions_of_the_ceiling_and_what_is_left_of_them_without_its_bias() -> None:
    rows = tasks("table12").filter(pl.col("ceiling").is_not_null())
    checks = [
        rederive(row["task"], row["ceiling_fraction"], lambda r2, top: 100 * r2 / top, row["round_r2"], row["ceiling"])
        for row in rows.iter_rows(named=True)
    ]
    assert verdicts(checks) == {"captioning": "within rounding"}
    n, eta2 = (rows[name].cast(pl.Float64).to_numpy() for name in ("rounds", "ceiling"))
    epsilon2 = 1 - (1 - eta2) * (n - 1) / (n - 50)
    assert epsilon2 == pytest.approx([0.0990, 0.1269, 0.1539], abs=5e-5)
    assert rows["round_r2"].cast(pl.Float64).to_numpy() / epsilon2 == pytest.approx([0.98, 0.72, 0.48], abs=5e-3)


def test_table_13_p_values_follow_from_rho_and_rounds_within_rounding() -> None:
    rounds = dict(tasks("table12").select("task", pl.col("rounds").cast(pl.Int64)).iter_rows())
    for row in table("table13").iter_rows(named=True):
        p_value = spearman_p(rounds[row["task"]])
        assert rederive(row["task"], row["p_value"], p_value, row["spearman"]).verdict == "within rounding"
    # "Does not survive conditioning" is about size: round by round, two of three partial correlations are significant.
    partial = {
        row["task"]: spearman_p(rounds[row["task"]])(float(row["saliency_partial"]))
        for row in table("table13").iter_rows(named=True)
    }
    assert [task for task, p in partial.items() if p < 0.01] == ["captioning", "docvqa"]


def test_tables_12_and_15_keep_every_mean_below_the_laws_cap() -> None:
    for row in table("table12").iter_rows(named=True):
        assert float(row["mean_a"]) < cap(float(row["b0"]), 15)
    for row in table("table15").iter_rows(named=True):
        assert float(row["tau"]) - 1 < cap(float(row["b0"]))


def test_every_law_falls_below_adaedls_bound_at_low_entropy_where_the_paper_says_inside() -> None:
    entropy = np.linspace(0.0, 3.0, 3001)
    below = {}
    for row in tasks("table12").iter_rows(named=True):
        law = expit(float(row["b0"]) - float(row["b1"]) * entropy)
        below[row["task"]] = adaedl_bound(entropy, gamma=0.2) > law
        # No gamma mends it: at zero entropy the bound is 1.
        assert (adaedl_bound(entropy, gamma=5.0) > law)[0]
    assert below["chartqa"].all()
    ends = {task: entropy[np.argmin(flags)] for task, flags in below.items() if task != "chartqa"}
    assert [*ends.values()] == pytest.approx([0.725, 0.671, 0.506, 0.548], abs=2e-3)


def test_the_slope_is_positive_and_the_correlation_negative_on_every_target() -> None:
    rows = table("table14").with_columns(pl.exclude("target", "drafter").cast(pl.Float64))
    assert (rows["b1"] > 0).all()
    assert (rows["spearman"] < 0).all()


def test_table_16_ratios_means_and_the_lift_of_fused_states() -> None:
    rows, bottom = tasks("table16"), summary("table16")
    checks = columns("table16", "text over fused", "text_over_fused", ratio, "text_tau", "fused_tau")
    checks.append(
        rederive("text over fused", bottom["text_over_fused"], ratio, bottom["text_tau"], bottom["fused_tau"])
    )
    for name in ("fused_tau", "text_tau", "zeroed_tau"):
        checks.append(rederive(name, bottom[name], lambda *taus: sum(taus) / 5, *rows[name]))
    lift = lambda *taus: margin(sum(taus[:5]), sum(taus[5:]))  # noqa: E731
    checks.append(rederive("lift", text("fused_lift"), lift, *rows["fused_tau"], *rows["text_tau"]))
    assert verdicts(checks) == {}


@pytest.mark.parametrize(
    ("name", "df", "verdict"), [("chi2_geometric", 7, "equal"), ("two_state_lr", 4, "within rounding")]
)
def test_chi_square_p_values(name: str, df: int, verdict: str) -> None:
    check = rederive(name, text(f"{name}_p"), lambda x: float(stats.chi2.sf(x, df)), text(name))
    assert check.verdict == verdict
    exact = {"chi2_geometric": (8.65e-20, 8.45e-20, 8.86e-20), "two_state_lr": (7.29e-18, 7.11e-18, 7.47e-18)}[name]
    assert (check.derived, check.low, check.high) == pytest.approx(exact, rel=2e-3)


@pytest.mark.parametrize(("match_prob", "error"), [("0.65", 0.00156), ("0.80", 0.03518), ("0.90", 0.20589)])
def test_the_relative_error_of_truncation_is_p_to_the_15_of_the_untruncated_mean(match_prob: str, error: float) -> None:
    p = float(match_prob)
    whole, cut = p / (1 - p), float(mean(np.array([p]), 15))
    assert (whole - cut) / whole == pytest.approx(p**15, rel=1e-12)
    assert p**15 == pytest.approx(error, abs=5e-6)
    assert abs(p**15 - float(text(f"truncation_at_{match_prob}"))) < 5e-4


def test_the_share_of_copying_rounds_at_which_docvqas_cap_breaks() -> None:
    assert Printed.parse("3.41").ends[0] < cap(1.226) < Printed.parse("3.41").ends[1]
    shares = [copy_threshold(3.41, ordinary, 15) for ordinary in (1.0, 1.5, 2.0, 2.5)]
    assert shares == pytest.approx([0.172, 0.141, 0.108, 0.073], abs=5e-4)


def test_the_variance_of_the_truncated_geometric() -> None:
    p, offsets = 0.7731, np.arange(1, 16)
    tail = survival(np.array([p]), 15)
    by_tails = float((2 * offsets - 1) @ tail - tail.sum() ** 2)
    lengths, mass = np.arange(16), np.append(1.0, tail) - np.append(tail, 0.0)
    assert by_tails == pytest.approx(float(mass @ lengths**2 - (mass @ lengths) ** 2))
    assert by_tails == pytest.approx(12.7864, abs=5e-5)
