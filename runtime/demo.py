"""The main job: fit a log, then decode with plain, fixed and fitted tree sizes side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import polars as pl

from lawfit.log import RoundLog
from policy.acceptance import Acceptance
from policy.controller import Adaptive, FixedBudget, Policy
from policy.cost import CostTable
from runtime.audit import Divergence, compare
from runtime.drafters import Drafter
from runtime.engine import Engine
from runtime.prompts import Prompt
from runtime.request import Request
from runtime.target import Target

PLAIN, ADAPTIVE = "plain", "adaptive"
FIXED = (4, 8, 16)
FOLDS = 2


@dataclass(frozen=True)
class Run:
    """One prompt decoded in one arm; prefill, which all arms share, is not timed.

    Attributes
    ----------
    prompt, arm
        What was decoded, and how.
    tokens
        Output tokens after the first, which prefill gives.
    rounds, speculated
        Rounds, and those that verified at least one draft token.
    seconds
        Wall-clock of the decode loop.
    divergence
        First difference from plain decoding, if any.
    """

    prompt: Prompt
    arm: str
    tokens: int
    rounds: int
    speculated: int
    seconds: float
    divergence: Divergence | None


def fold_of(prompts: Sequence[Prompt]) -> dict[str, int]:
    """Deal the prompts of each task alternately into folds."""
    dealt: dict[str, int] = {}
    seen: dict[str, int] = {}
    for prompt in prompts:
        dealt[prompt.prompt_id] = seen.get(prompt.task, 0) % FOLDS
        seen[prompt.task] = seen.get(prompt.task, 0) + 1
    return dealt


def fit_folds(log: RoundLog, folds: Mapping[str, int]) -> list[Acceptance]:
    """Fit one acceptance law per fold on the prompts of the other folds: no prompt is decoded by a law that saw it."""
    fitted = []
    for fold in range(FOLDS):
        own = [name for name, number in folds.items() if number == fold]
        fitted.append(Acceptance.fit(log.where(~pl.col("prompt_id").is_in(own))))
    return fitted


def affordable(prompts: int, cost: CostTable, minutes: float, *, audit: bool) -> int:
    """Output length at which all arms take about ``minutes`` on this machine, between 24 and 64 tokens.

    Most arms are somewhat faster than plain decoding; an audit in fp32 adds two arms.
    """
    arms = 2 + len(FIXED) + (2 if audit else 0)
    plain_s = prompts * arms * 0.75 * float(cost.round_ms[0]) / 1e3
    return int(min(max(60.0 * minutes / plain_s, 24), 64))


@dataclass(frozen=True)
class Demo:
    """Decodes prompts in every arm, interleaved in one process.

    Attributes
    ----------
    target, drafter
        Shared by all arms.
    cost
        Cost table of this machine.
    laws
        One acceptance law per fold.
    max_new_tokens
        Most tokens to emit for a prompt.
    """

    target: Target
    drafter: Drafter
    cost: CostTable
    laws: Sequence[Acceptance]
    max_new_tokens: int

    def arms(self, fold: int) -> dict[str, Policy]:
        """List the policies that are compared on a prompt of ``fold``."""
        fixed: dict[str, Policy] = {str(budget): FixedBudget(budget) for budget in FIXED}
        return {PLAIN: FixedBudget(0), **fixed, ADAPTIVE: Adaptive(self.laws[fold], self.cost)}

    def run(self, prompts: Sequence[Prompt], folds: Mapping[str, int], advance: Callable[[], None]) -> list[Run]:
        """Decode every prompt in every arm, the order of the arms rotating from prompt to prompt."""
        runs: list[Run] = []
        for at, prompt in enumerate(prompts):
            runs.extend(self.compare(prompt, self.arms(folds[prompt.prompt_id]), at))
            advance()
        return runs

    def compare(self, prompt: Prompt, arms: Mapping[str, Policy], rotation: int) -> list[Run]:
        """Decode one prompt in all ``arms`` from one prefill."""
        tokens = self.target.encode(prompt.text)
        start = Engine(self.target, self.drafter, arms[PLAIN]).start(tokens, self.max_new_tokens)
        names = list(arms)
        names = names[rotation % len(names) :] + names[: rotation % len(names)]
        done = {name: self._decode(arms[name], start.fork()) for name in names}
        expected = done[PLAIN][0]
        return [
            Run(prompt, name, len(output) - 1, rounds, speculated, seconds,
                compare(self.target, tokens, expected, output))
            for name, (output, rounds, speculated, seconds) in done.items()
        ]  # fmt: skip

    def _decode(self, policy: Policy, request: Request) -> tuple[list[int], int, int, float]:
        """Carry a request to its end; return output, rounds, rounds that speculated, and seconds."""
        engine = Engine(self.target, self.drafter, policy)
        rounds = speculated = 0
        begin = perf_counter()
        for done in engine.rounds(request):
            rounds += 1
            speculated += done.decision.tree.budget > 0
        return request.output, rounds, speculated, perf_counter() - begin
