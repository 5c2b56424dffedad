import numpy as np
import polars as pl
import pytest

from lawfit.log import RoundLog
from policy.acceptance import Acceptance
from policy.cost import CostTable
from runtime.audit import Divergence
from runtime.demo import ADAPTIVE, PLAIN, Run, affordable, fit_folds, fold_of
from runtime.demo_table import identical, lines, mean, spread, to_json, to_table
from runtime.prompts import Prompt


def run(prompt, arm, tokens, rounds, seconds, speculated=0, divergence=None):
    return Run(prompt, arm, tokens, rounds, speculated, seconds, divergence)


def runs_of(task, times, name="a", divergence=None):
    prompt = Prompt(f"{task}-{name}", task, "text")
    plain, four, eight, sixteen, adaptive = times
    return [
        run(prompt, PLAIN, 40, 40, plain),
        run(prompt, "4", 40, 20, four, 20),
        run(prompt, "8", 40, 16, eight, 16),
        run(prompt, "16", 40, 10, sixteen, 10, divergence),
        run(prompt, ADAPTIVE, 40, 10, adaptive, 5),
    ]


def test_ratios_are_of_summed_times_and_the_mean_weighs_tasks_equally():
    runs = [
        *runs_of("qa", (4.0, 2.0, 2.0, 8.0, 1.0)),
        *runs_of("qa", (2.0, 2.0, 2.0, 2.0, 2.0), "b"),
        *runs_of("copy", (6.0, 3.0, 2.0, 1.0, 1.0)),
    ]
    qa, copy = lines(runs)
    assert (qa.task, copy.task) == ("qa", "copy")
    assert qa.adaptive == pytest.approx(6.0 / 3.0)
    assert qa.fixed[16] == pytest.approx(6.0 / 10.0)
    assert qa.tau == pytest.approx(4.0)
    assert qa.speculated == pytest.approx(0.5)
    assert 1.0 - 1e-9 <= qa.interval[0] <= qa.adaptive <= qa.interval[1] <= 4.0 + 1e-9
    assert copy.interval == pytest.approx((6.0, 6.0))
    assert mean([qa, copy]).adaptive == pytest.approx((2.0 + 6.0) / 2)
    assert to_table([qa, copy])[-1][0] == "mean"


def test_a_prompt_is_identical_only_if_every_arm_is():
    differs = Divergence(3, 1, 2, 0.1)
    runs = [*runs_of("qa", (1,) * 5), *runs_of("qa", (1,) * 5, "b", differs)]
    assert identical(runs) == (1, 2)
    result = to_json(lines(runs), identical(runs), {"dtype": "fp32"})
    assert (result["prompts"], result["identical"], result["dtype"]) == (2, 1, "fp32")
    assert set(result["tasks"]["qa"]["fixed"]) == {"4", "8", "16"}


def test_a_busy_machine_shows_in_plain_decoding():
    quiet = [*runs_of("qa", (2.0,) * 5), *runs_of("qa", (2.1,) * 5, "b")]
    busy = [*runs_of("qa", (2.0,) * 5), *runs_of("qa", (9.0,) * 5, "b")]
    assert spread(quiet) < 1.1
    assert spread(busy) > 3


def test_the_affordable_length_follows_the_machine_between_its_bounds():
    def length(ms, audit=False):
        return affordable(72, CostTable(np.array([0]), np.array([ms])), 5.0, audit=audit)

    assert length(1.0) == 64
    assert length(1000.0) == 24
    assert length(35.0) == int(300 / (72 * 5 * 0.75 * 0.035))
    assert 24 <= length(35.0, audit=True) < length(35.0)


def test_folds_split_every_task_evenly():
    prompts = [Prompt(f"{task}-{k}", task, "x") for task in ("a", "b") for k in range(6)]
    folds = fold_of(prompts)
    for task in ("a", "b"):
        assert sorted(folds[f"{task}-{k}"] for k in range(6)) == [0, 0, 0, 1, 1, 1]


def test_no_prompt_is_decoded_by_a_law_that_saw_it():
    rng = np.random.default_rng(0)
    rows = []
    for k in range(400):
        accepted = int(rng.integers(0, 4))
        rows.append(
            {
                "prompt_id": f"p{k % 4}",
                "request_id": f"p{k % 4}",
                "round": k,
                "accept_len": accepted,
                "spine_len": accepted,
                "horizon": 3,
                "prev_entropy": float(rng.exponential()),
                "draft_logprobs": (-rng.uniform(0.05, 2.0, 3)).tolist(),
            }
        )
    log = RoundLog.from_frame(pl.DataFrame(rows))
    laws = fit_folds(log, {"p0": 0, "p1": 1, "p2": 0, "p3": 1})
    own = {0: ["p1", "p3"], 1: ["p0", "p2"]}
    for fold, names in own.items():
        assert laws[fold] == Acceptance.fit(log.where(pl.col("prompt_id").is_in(names)))
