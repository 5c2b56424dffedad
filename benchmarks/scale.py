"""Fit a log that is larger than memory, and compare with the exact fit of all of its rounds.

Usage: python benchmarks/scale.py [ROUNDS] [FOLDER]   (100 million, in a temporary folder that is removed)

Writes Parquet parts of rounds of 20,000 prompts, each with its own level, from an affine law; times `lawfit fit` on
them in a process of its own, with its peak memory; and streams Newton's method over all rounds for the exact estimate.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter

import numpy as np
import polars as pl

from lawfit.cli.console import progress
from lawfit.schema import SCHEMA_VERSION, VERSION_KEY
from lawfit.survival import expit

ROUNDS, PART, PROMPTS, HORIZON = 100_000_000, 5_000_000, 20_000, 15
B0, B1, LEVEL = 0.96, 0.63, 0.4  # of the law, and the spread of the prompts' levels
SECONDS, GIGABYTES, CLOSE = 60.0, 4.0, 0.002
CHUNK = 1_000_000


def write(folder: Path, rounds: int) -> None:
    """Write the log: each request is a prompt's rounds in order, the last of them cut one time in two."""
    levels = np.random.default_rng(0).normal(0.0, LEVEL, PROMPTS)
    names = pl.Series([f"prompt-{k:05d}" for k in range(PROMPTS)])
    starts = range(0, rounds, PART)
    with progress("writing parts", len(starts)) as advance:
        for part, start in enumerate(starts):
            rng = np.random.default_rng([1, part])
            size = min(PART, rounds - start)
            prompt = np.sort(rng.integers(0, PROMPTS, size))
            entropy = rng.gamma(0.7, 1.1, size)
            run = np.log(rng.random(size)) / np.log(expit(B0 + levels[prompt] - B1 * entropy))
            first = np.flatnonzero(np.diff(prompt, prepend=-1))
            number = np.arange(size) - np.repeat(first, np.diff(first, append=size))
            last = np.append(prompt[1:] != prompt[:-1], True)
            frame = pl.DataFrame(
                {
                    "run_id": pl.repeat(f"run-{part:03d}", size, eager=True),
                    "request_id": names.gather(prompt),
                    "prompt_id": names.gather(prompt),
                    "task": pl.Series(["code", "qa", "story", "summary"]).gather(prompt % 4),
                    "round": number,
                    "accept_len": np.minimum(run, HORIZON).astype(np.int64),
                    "horizon": np.full(size, HORIZON),
                    "truncated": last & (rng.random(size) < 0.5),
                    "root_entropy": entropy,
                }
            )
            frame.write_parquet(folder / f"{part:03d}.parquet", metadata={VERSION_KEY: str(SCHEMA_VERSION)})
            advance()


def fit(folder: Path, *options: str) -> tuple[dict[str, float], dict[str, float], float, float]:
    """Run `lawfit fit`; give coefficients, errors by prompt, seconds and peak GB."""
    command = [sys.executable, "-c", "from lawfit.cli.app import main; main()", "fit", str(folder), "--json", *options]
    start = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    out = process.stdout.read() if process.stdout else b""
    _, status, usage = os.wait4(process.pid, 0)
    seconds = perf_counter() - start
    if status:
        sys.exit(f"lawfit fit ended with {os.waitstatus_to_exitcode(status)}")
    (record,) = json.loads(out)["fits"]
    return record["params"], record["cluster_se"], seconds, usage.ru_maxrss / 2**20


def chunks(folder: Path) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Give entropy, accepted, trials and prompt number, chunk by chunk."""
    number = pl.col("prompt_id").str.slice(7).cast(pl.Int64)
    missed = (pl.col("accept_len") < pl.col("horizon")) & ~pl.col("truncated")
    columns = ("root_entropy", pl.col("accept_len"), (pl.col("accept_len") + missed).alias("trials"), number)
    for file in sorted(folder.glob("*.parquet")):
        frame = pl.read_parquet(file).select(*columns)
        for start in range(0, len(frame), CHUNK):
            yield tuple(series.to_numpy() for series in frame[start : start + CHUNK])  # type: ignore[misc]


def exact(folder: Path, start: dict[str, float], rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Climb to the maximum of the likelihood of all rounds; give (b0, b1) and the errors by prompt."""
    point, walks = np.array([start["b0"], start["b1"]]), 4
    with progress("exact fit", walks * -(-rounds // PART) * (PART // CHUNK)) as advance:
        for _ in range(walks):
            gradient, information, scores, trials_seen = np.zeros(2), np.zeros((2, 2)), np.zeros((2, PROMPTS)), 0
            for entropy, accepted, trials, prompt in chunks(folder):
                x = np.stack([np.ones_like(entropy), -entropy])
                match = expit(point @ x)
                residual = accepted - trials * match
                gradient += x @ residual
                information += (x * (trials * match * (1.0 - match))) @ x.T
                scores += [np.bincount(prompt, weights=column * residual, minlength=PROMPTS) for column in x]
                trials_seen += int(trials.sum())
                advance()
            step = np.linalg.solve(information, gradient)
            point = point + step
    if np.abs(step).max() > 1e-10:
        sys.exit(f"the exact fit has not converged: last step {step}")
    groups = int(np.count_nonzero(scores[0]))
    factor = groups / (groups - 1) * (trials_seen - 1) / (trials_seen - 2)
    bread = np.linalg.inv(information)
    return point, np.sqrt(np.diag(factor * bread @ scores @ scores.T @ bread))


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    given = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory(prefix="lawfit-scale-") if given is None else nullcontext(given) as name:
        folder = Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.glob("*.parquet")):
            write(folder, rounds)
        size = sum(file.stat().st_size for file in folder.glob("*.parquet")) / 2**30
        load, cores = os.getloadavg()[0], os.cpu_count()
        print(f"{rounds} rounds of {PROMPTS} prompts in {size:.2f} GB; load {load:.1f} on {cores} cores", flush=True)
        params, errors, seconds, peak = fit(folder)
        point, se = exact(folder, params, rounds)
    far = max(abs(params["b0"] - point[0]), abs(params["b1"] - point[1]))
    print(f"lawfit fit   b0 {params['b0']:.5f} ({errors['b0']:.5f})  b1 {params['b1']:.5f} ({errors['b1']:.5f})")
    print(f"all rounds   b0 {point[0]:.5f} ({se[0]:.5f})  b1 {point[1]:.5f} ({se[1]:.5f})")
    bars = ((seconds, SECONDS, "s"), (peak, GIGABYTES, "GB at the peak"), (far, CLOSE, "from the exact law"))
    for value, bar, unit in bars:
        print(f"{value:.5g} {unit}, bar {bar:g}: {'met' if value < bar else 'NOT MET'}")
    sys.exit(0 if all(value < bar for value, bar, _ in bars) else 1)


if __name__ == "__main__":
    main()
