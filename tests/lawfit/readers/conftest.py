"""Valid files of every format, small."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

V1 = (
    "(APIServer pid=7) INFO 04-27 21:03:50 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 1.73, "
    "Accepted throughput: 3.75 tokens/s, Drafted throughput: 25.75 tokens/s, Accepted: 51 tokens, Drafted: 350 tokens, "
    "Per-position acceptance rate: 0.443, 0.171, 0.057, 0.029, 0.029, Avg Draft acceptance rate: 14.6%"
)
LLAMA = (
    "0.06.896.015 I slot print_timing: id  1 | task 0 | draft acceptance = 0.64479 (  167 accepted /   259 generated), "
    "mean acceptance length =  2.92, acceptance rate per position = (0.805, 0.632, 0.483)"
)
STATISTICS = (
    "0.27.4 I spec common_specu: statistics        draft-mtp: #calls(b,g,a) =    1    203    203, "
    "#gen drafts =    203, #acc drafts =   172, #gen tokens =    405, #acc tokens =   308, "
    "#mean acc len = 2.52, #acc rate/pos = (0.847, 0.670), dur(b,g,a) = 0.003, 1396.591, 0.467 ms"
)
ADAPTIVE = (
    "2.07.5 I spec       accept: adaptive draft depth seq 0: 7 -> 6 (n_draft=7, n_accepted=4, n_cur=6, n_climb=0, "
    "n_drop=0, cur_accepted=8096, cur_generated=11029, cur_drop=-2933)"
)
V0 = (
    "INFO 10-16 19:05:47 metrics.py:367] Speculative metrics: Draft acceptance rate: 0.642, System efficiency: 0.598, "
    "Number of speculative tokens: 3, Number of accepted tokens: 8547, Number of draft tokens: 13311, "
    "Number of emitted tokens: 10616."
)
DECODE = (
    "[2025-12-01 10:00:00 TP0] Decode batch, #running-req: 8, #token: 100, token usage: 0.01, accept len: 2.47, "
    "accept rate: 0.49, cuda graph: True, gen throughput (token/s): 600.1, #queue-req: 0, "
)


def scrape(drafts=100, drafted=300, accepted=90, survivors=(60, 20, 10), created="1.7e+09"):
    """Write counters as vLLM's Prometheus endpoint does."""
    labels = 'engine="0",model_name="m"'
    lines = [
        "# TYPE vllm:spec_decode_num_drafts_total counter",
        f"vllm:spec_decode_num_drafts_total{{{labels}}} {float(drafts)}",
        f"vllm:spec_decode_num_drafts_created{{{labels}}} {created}",
        f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} {float(drafted)}",
        f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} {accepted:.1e}",
        "vllm:num_requests_running 0.0",
    ]
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines += [f'{name}{{{labels},position="{j}"}} {float(count)}' for j, count in enumerate(survivors)]
    return "\n".join(lines) + "\n"


SUMMARY = {
    "acceptance_histogram": [39, 1, 0, 3],
    "num_spec_steps": 43,
    "num_accepted_draft_tokens": 10,
    "num_draft_tokens": 129,
    "num_spec_tokens": 3,
}
DETAILED = {
    "acceptance_histogram": [1, 1, 1, 0],
    "num_spec_steps": 3,
    "num_accepted_draft_tokens": 3,
    "num_draft_tokens": 7,
    "num_spec_tokens": 3,
    "per_step_accepted": [2, 0, 1],
    "per_step_drafted": [3, 3, 1],
}
TENSORRT = {
    "acceptance_rate": 0.5,
    "total_accepted_draft_tokens": 30,
    "total_draft_tokens": 60,
    "num_spec_steps": 20,
    "acceptance_histogram": [8, 0, 6, 6],
    "num_spec_tokens": 3,
}
SGLANG = {
    "spec_accept_rate": 0.293,
    "spec_accept_length": 2.465,
    "spec_num_correct_drafts": 63,
    "spec_num_proposed_drafts": 215,
    "spec_verify_ct": 43,
    "spec_correct_drafts_histogram": [11, 14, 11, 4, 0, 3],
}
SGLANG_OLD = {
    "id": "r",
    "completion_tokens": 107,
    "spec_accept_token_num": 63,
    "spec_draft_token_num": 215,
    "spec_verify_ct": 43,
    "spec_accept_histogram": [11, 14, 11, 4, 0, 3],
}
AIPERF = {
    "engine": "vllm",
    "mean_acceptance_length": 1.2325,
    "draft_acceptance_rate": 0.0775,
    "acceptance_histogram": {"0": 39, "1": 1, "3": 3},
    "num_accepted_draft_tokens": 10,
    "num_draft_tokens": 129,
    "num_spec_steps": 43,
    "num_spec_tokens": 3,
    "completion_tokens": 54,
    "per_step_accepted": None,
    "per_step_drafted": None,
}
PASSES = [
    {
        "forward_ct": count,
        "bs": 2,
        "target_verify_gpu_ms": 9.5,
        "draft_gpu_ms": 1.5,
        "step_gpu_ms": 11.0,
        "reqs": [
            {"rid": "a", "prefix_len": 20 + count, "verify_len": 6, "acc_len": 4, "correct_drafts": 3, "cap_trim": 0},
            {
                "rid": "b",
                "prefix_len": 30 + count,
                "verify_len": 3,
                "acc_len": 1,
                "correct_drafts": 0,
                "confidence": [0.9, 0.8],
                "survival": [0.9, 0.72],
            },
        ],
    }
    for count in (1, 2)
]
DUMP = {"mode": "compact", "gamma": 5, "verify_num_draft_tokens": 6, "records": PASSES}
PROPOSALS = [
    {
        "round": number,
        "batch": 0,
        "pos_in_round": position,
        "output_position": 2 * number + position,
        "emission_source": source,
        "target_entropy": 0.1,
        "consecutive_accepted_length": 1,
    }
    for number in (0, 1)
    for position, source in enumerate(["accepted_draft", "bonus"])
]
GLANCE = {
    "round": 0,
    "entropy": 0.3,
    "accepted": 1,
    "tau": 2,
    "tree_size": 64,
    "extended": False,
    "task": "t",
    "prompt": 0,
}
OWN = {"lawfit.schema_version": 1, "accept_len": 1, "horizon": 3, "accept_ranks": [1], "task": "é", "truncated": False}


@dataclass(frozen=True)
class Sample:
    """A valid file: its format, suffix and text, and the constants that it needs; some are refused by design."""

    format: str
    suffix: str
    text: str
    constants: dict = field(default_factory=dict)
    refused: bool = False


def lines(*records):
    return "\n".join(json.dumps(record) for record in records) + "\n"


def response(**values):
    return {"id": "x", "model": "m", "usage": {"completion_tokens": 54}, "choices": [{"index": 0}], **values}


SAMPLES = {
    "own": Sample("own", ".jsonl", lines(OWN, OWN)),
    "glance": Sample("glance", ".jsonl", lines(GLANCE, {**GLANCE, "round": 1}), {"horizon": 15}),
    "proposals": Sample("proposals", ".jsonl", lines(*PROPOSALS)),
    "vllm detailed": Sample("vllm", ".json", json.dumps(response(metrics={"speculative_decoding": DETAILED}))),
    "vllm summary": Sample("vllm", ".jsonl", lines(response(metrics={"speculative_decoding": SUMMARY}))),
    "vllm choices": Sample("vllm", ".json", lines(response(choices=[{"speculative_decoding_stats": SUMMARY}] * 2))),
    "tensorrt": Sample("tensorrt", ".jsonl", lines(response(choices=[{"speculative_decoding": TENSORRT}]))),
    "aiperf": Sample("aiperf", ".jsonl", lines(AIPERF, AIPERF)),
    "aiperf nested": Sample("aiperf", ".jsonl", lines({"metadata": {"id": "q"}, "spec_decode_acceptance": AIPERF})),
    "sglang": Sample("sglang", ".json", json.dumps([{"text": "t", "meta_info": SGLANG}] * 2), {"horizon": 5}),
    "sglang old": Sample("sglang", ".jsonl", lines({"meta_info": SGLANG_OLD}), {"horizon": 5}),
    "sglang openai": Sample(
        "sglang", ".jsonl", lines(response(sglext={"spec_tokens_details": SGLANG})), {"horizon": 5}
    ),
    "sglang choices": Sample(
        "sglang", ".json", lines(response(sglext={"spec_tokens_details": [SGLANG, SGLANG]})), {"horizon": 5}
    ),
    "dspark": Sample("dspark", ".json", json.dumps({"internal_states": [{"dspark_info_record": DUMP}]})),
    "dspark records": Sample("dspark", ".jsonl", lines(*PASSES)),
    "prometheus": Sample("prometheus", ".prom", scrape()),
    "prometheus twice": Sample("prometheus", ".txt", scrape() + scrape(140, 420, 120, (80, 26, 14))),
    "prometheus json": Sample(
        "prometheus", ".json", json.dumps({"metrics_delta": dict(s.rsplit(" ", 1) for s in scrape().splitlines()[1:])})
    ),
    "llamacpp": Sample(
        "llamacpp",
        ".json",
        json.dumps({"choices": [], "timings": {"draft_n": 15, "draft_n_accepted": 14, "predicted_n": 20}}),
        refused=True,
    ),
    "vllm lines": Sample("vllm-lines", ".log", f"INFO started\n{V1}\r\n\x1b[32mINFO\x1b[0m {V1}\n"),
    "vllm v0": Sample("vllm-lines", ".log", f"{V0}\n{V0}\n", refused=True),
    "llamacpp lines": Sample("llamacpp-lines", ".txt", f"srv init\n{LLAMA}\n{STATISTICS}\n"),
    "llamacpp totals": Sample("llamacpp-lines", ".log", f"{STATISTICS}\n"),
    "llamacpp adaptive": Sample("llamacpp-adaptive", ".log", f"{ADAPTIVE}\n{ADAPTIVE}\n"),
    "sglang lines": Sample("sglang-lines", ".log", f"{DECODE}\n{DECODE.replace('batch,', 'batch.')}\n", refused=True),
    "mapped": Sample("mapped", ".csv", "accept_len,horizon,prompt_id\n1,3,a\n0,3,b\n"),
    "mapped lines": Sample("mapped", ".jsonl", lines({"accept_len": 1, "horizon": 3, "count": 2})),
}


@pytest.fixture(scope="session")
def samples() -> dict[str, Sample]:
    """Valid files of every format, by name."""
    return SAMPLES


@pytest.fixture
def write(tmp_path):
    """Write a file into the test's folder: text, bytes, or JSON of a value."""

    def written(content, name="log.txt"):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), newline="")
        return path

    return written
