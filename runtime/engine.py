"""The decoding loop: draft, size, verify, walk, commit, record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from policy.candidates import Candidates
from policy.controller import Controller, Policy
from runtime.commit import commit
from runtime.drafters import Drafter
from runtime.errors import TargetError
from runtime.image import Image
from runtime.request import Request
from runtime.round import Round, Times
from runtime.sampling import Sampling
from runtime.target import Target
from runtime.verify import Verification, entropy, verify
from runtime.walk import Choose, walk

Record = Callable[[Round], None]


@dataclass(frozen=True)
class Engine:
    """Decodes on a frozen target; the output is the target's own, whatever is drafted.

    Attributes
    ----------
    target, drafter, policy
        Who verifies, who drafts, and how large the trees are.
    sampling
        Greedy, or keyed draws: token-identical to plain sampling with the same seed.
    """

    target: Target
    drafter: Drafter
    policy: Policy
    sampling: Sampling = field(default_factory=Sampling)

    def generate(self, prompt: Sequence[int], max_new_tokens: int, record: Record | None = None) -> list[int]:
        """Decode one prompt to the end; return the output tokens. ``record`` receives every round."""
        request = self.start(prompt, max_new_tokens)
        for round in self.rounds(request):
            if record is not None:
                record(round)
        return request.output

    def rounds(self, request: Request) -> Iterator[Round]:
        """Carry a started request to its end, one round at a time."""
        controller = self.policy.start()
        number = 0
        while not request.done:
            yield self.step(request, controller, number)
            number += 1

    def step(self, request: Request, controller: Controller, number: int) -> Round:
        """Run one round: one draft, one tree, one target pass, one commit."""
        position, context, prev_entropy = (
            len(request.output) - 1,
            request.cache.committed,
            request.prev_entropy,
        )
        t0 = perf_counter()
        candidates = self.propose(request)
        t1 = perf_counter()
        decision = controller.decide(candidates, prev_entropy)
        t2 = perf_counter()
        verified = verify(self.target, request.cache, decision.tree, self.drafter.reads)
        t3 = perf_counter()
        choose = self.chooser(verified, candidates, position + 1)
        outcome = walk(decision.tree, choose, request.remaining, self.target.eos)
        last = verified.entropy(outcome.rows[-1])
        commit(request, decision.tree, outcome, verified.states, last, self.target.eos)
        controller.observe(candidates, decision, outcome.emitted)
        t4 = perf_counter()
        times = Times(*(1e3 * (b - a) for a, b in ((t0, t1), (t1, t2), (t2, t3), (t3, t4))))
        root_entropy = verified.entropy(0)
        return Round(number, position, context, candidates, decision, outcome, root_entropy, prev_entropy, times)

    def propose(self, request: Request) -> Candidates:
        """Draft behind the pending root."""
        return request.session.propose(request.tokens, request.prompt_len, request.remaining)

    def chooser(self, verified: Verification, candidates: Candidates, position: int) -> Choose:
        """Say how the token at a verified row is chosen; ``position`` is the output position behind the root."""
        return verified.chooser(self.sampling, position)

    def start(self, prompt: Sequence[int], max_new_tokens: int, image: Image | None = None) -> Request:
        """Prefill a prompt, with its image where it has one, and emit its first token, the first root.

        Raises
        ------
        TargetError
            The prompt is empty, holds a token outside the vocabulary, or does not fit the model's context.
        """
        self._check(prompt, max_new_tokens)
        tokens = list(prompt)
        cache = self.target.new_cache(len(tokens) + max_new_tokens + self.drafter.max_nodes + 1)
        rows = self.target.prefill(tokens, cache, self.drafter.reads, image)
        root, session = self.sampling.token(rows.logits[-1], 0), self.drafter.start()
        session.observe(rows.states, [*tokens[1:], root])
        request = Request([*tokens, root], len(tokens), max_new_tokens, cache, session, entropy(rows.logits[-1]))
        request.ended = root in self.target.eos
        return request

    def _check(self, prompt: Sequence[int], max_new_tokens: int) -> None:
        if not prompt:
            raise TargetError("the prompt is empty, expected at least one token")
        if max_new_tokens < 1:
            raise TargetError(f"max_new_tokens is {max_new_tokens}, expected at least 1")
        if not 0 <= min(prompt) <= max(prompt) < self.target.input_vocabulary:
            raise TargetError(f"prompt tokens reach {max(prompt)}, the vocabulary has {self.target.input_vocabulary}")
        if len(prompt) + max_new_tokens > self.target.max_context:
            wanted = f"{len(prompt)} prompt tokens and {max_new_tokens} new ones"
            raise TargetError(f"{wanted} exceed the target's context of {self.target.max_context}")
