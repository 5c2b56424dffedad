"""Classic rejection sampling against the draft's own distributions (Leviathan et al. 2023; Chen et al. 2023).

A draft token x, drawn from q, is kept with probability min(1, p(x) / q(x)); else the token is drawn from the normalised
max(p - q, 0). Either way it is distributed as the target's p. Other than keyed sampling this needs the draft's full
distributions, serves chains only, and its output has the target's law but not the tokens of plain sampling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np

from lawfit.arrays import Floats
from policy.build import best_first
from policy.candidates import Candidates
from policy.controller import FixedBudget
from runtime.drafters import Drafter, Session
from runtime.engine import Engine
from runtime.request import Request
from runtime.sampling import SamplingError, draw, generator, one_hot
from runtime.states import FeatureAddress
from runtime.verify import Verification
from runtime.walk import Choose

# Streams of random numbers of a round, apart from each other and from the noise of keyed sampling.
_DRAFT, _ACCEPT = 1, 2
# How far the sum of a distribution may be from 1: fp32 rounding over a large vocabulary.
_ROUNDING = 1e-4


class Uniform(Protocol):
    """A source of numbers, such as `numpy.random.Generator`."""

    def random(self) -> float:
        """Draw from [0, 1)."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledChain(Candidates):
    """A chain of draft tokens with the distributions that they were drawn from.

    Attributes
    ----------
    draft_probs : (L, V)
        Row k is the drafter's distribution at offset k + 1; 0 for tokens that it cannot draft.
    """

    draft_probs: Floats

    @classmethod
    def of(cls, root: int, tokens: Sequence[int], draft_probs: Floats, passes: int = 0) -> Self:
        """Make the chain of ``tokens`` (L,) below ``root``.

        Raises
        ------
        SamplingError
            There is not one distribution for each token, or a token was not drawn from its own.
        """
        _check_draft(draft_probs, tokens)
        chosen = draft_probs[np.arange(len(tokens)), list(tokens)]
        return cls(
            np.array([root, *tokens], dtype=np.int64),
            np.arange(-1, len(tokens)),
            np.minimum(np.log([1.0, *chosen]), 0.0),
            passes=passes,
            draft_probs=draft_probs,
        )


@runtime_checkable
class SamplingSession(Session, Protocol):
    """A drafter's session that can draw its draft, and tell from what."""

    def draft(self, tokens: Sequence[int], prompt_len: int, max_depth: int, rng: np.random.Generator) -> SampledChain:
        """Draw a chain behind ``tokens``, whose last one is the root, at most ``max_depth`` deep.

        Where the chain ends may depend on the tokens before, never on the token that would come next.
        """
        ...


@dataclass(frozen=True)
class RejectionEngine(Engine):
    """An engine whose drafter draws a chain, and whose walk keeps or replaces each token of it.

    The policy is a fixed budget. A policy that looks at a drawn token before it decides whether to verify it would
    change the distribution of those that are verified, and so the output's. Keyed sampling has no such condition.

    Raises
    ------
    SamplingError
        The policy is another one, or the drafter gives no distributions.
    """

    def __post_init__(self) -> None:
        """Refuse a policy that could bias the output."""
        if not isinstance(self.policy, FixedBudget):
            raise SamplingError(
                f"policy {type(self.policy).__name__}, expected FixedBudget: rejection is exact only so"
            )

    def propose(self, request: Request) -> SampledChain:
        """Draw a chain of the policy's length."""
        if not (isinstance(request.session, SamplingSession) and isinstance(self.policy, FixedBudget)):
            raise SamplingError(f"drafter {self.drafter.name} gives no distributions, expected a SamplingSession")
        depth = min(self.policy.budget, self.drafter.max_nodes, request.remaining)
        rng = generator(self.sampling.seed, len(request.output), _DRAFT)
        return request.session.draft(request.tokens, request.prompt_len, depth, rng)

    def chooser(self, verified: Verification, candidates: Candidates, position: int) -> Choose:
        """Keep or replace the chain's tokens; draw the bonus token from the target's row."""
        if not isinstance(candidates, SampledChain) or candidates.count != verified.tree.budget:
            raise SamplingError(f"{verified.tree.budget} rows verified, expected the whole chain that was drawn")
        return _keeping(
            lambda row: self.sampling.probs(verified.logits[row]),
            candidates.draft_probs,
            candidates.tokens[1:].tolist(),
            generator(self.sampling.seed, position, _ACCEPT),
        )


@dataclass(frozen=True)
class PointMass:
    """Makes any drafter draw: its best chain, as a draw from a distribution that is certain of it.

    A token is then kept with the target's probability of it, and replaced from the rest of the target's row.
    """

    drafter: Drafter
    vocabulary: int

    @property
    def name(self) -> str:
        """The drafter's."""
        return self.drafter.name

    @property
    def max_nodes(self) -> int:
        """The drafter's."""
        return self.drafter.max_nodes

    @property
    def reads(self) -> FeatureAddress | None:
        """The drafter's."""
        return self.drafter.reads

    def start(self) -> SamplingSession:
        """Begin a request."""
        return _PointMassSession(self.drafter.start(), self.vocabulary)


def reject(target_probs: Floats, draft_probs: Floats, draft_tokens: Sequence[int], rng: Uniform) -> tuple[int, int]:
    """Judge a drawn chain: how many tokens are kept, and which token comes after them.

    Parameters
    ----------
    target_probs : (L+1, V)
        The target's distribution after each prefix of the chain, the empty one first.
    draft_probs : (L, V)
        The distributions that the draft tokens were drawn from.
    draft_tokens : (L,)
        The chain.
    rng
        Gives one number for each token that is judged, and one for the token after the kept ones.

    Raises
    ------
    SamplingError
        The shapes do not match, a row is no distribution, or a token was not drawn from its own.
    """
    if np.shape(target_probs) != (len(draft_tokens) + 1, np.shape(draft_probs)[-1]):
        raise SamplingError(f"target_probs {np.shape(target_probs)} for draft_probs {np.shape(draft_probs)}: not L + 1")
    _check_draft(draft_probs, draft_tokens)
    choose = _keeping(lambda row: target_probs[row], draft_probs, draft_tokens, rng)
    for kept, token in enumerate(draft_tokens):
        chosen = choose(kept)
        if chosen != token:
            return kept, chosen
    return len(draft_tokens), choose(len(draft_tokens))


def _keeping(
    target_row: Callable[[int], Floats], draft_probs: Floats, draft_tokens: Sequence[int], rng: Uniform
) -> Choose:
    """Choose at row k between the chain's token and a replacement; behind the chain, draw from the target's row."""

    def choose(row: int) -> int:
        target_probs = target_row(row)
        _check_probs(target_probs)
        if row == len(draft_tokens):
            return draw(target_probs, rng.random())
        token = draft_tokens[row]
        if rng.random() * draft_probs[row, token] < target_probs[token]:
            return token
        residual = np.maximum(target_probs - draft_probs[row], 0.0)
        # Where rounding alone rejected, both rows are equal and there is no residual.
        return draw(residual, rng.random()) if residual.any() else token

    return choose


@dataclass(frozen=True)
class _PointMassSession:
    session: Session
    vocabulary: int

    def observe(self, states: object, next_tokens: Sequence[int]) -> None:
        self.session.observe(states, next_tokens)  # type: ignore[arg-type]

    def propose(self, tokens: Sequence[int], prompt_len: int, max_depth: int) -> Candidates:
        return self.session.propose(tokens, prompt_len, max_depth)

    def fork(self) -> _PointMassSession:
        return _PointMassSession(self.session.fork(), self.vocabulary)

    def draft(self, tokens: Sequence[int], prompt_len: int, max_depth: int, rng: np.random.Generator) -> SampledChain:
        offer = self.propose(tokens, prompt_len, max_depth)
        tree = best_first(offer, offer.root, offer.count)
        chain = tree.tokens[tree.spine][:max_depth].tolist()
        probs = np.array([one_hot(token, self.vocabulary) for token in chain]).reshape(len(chain), self.vocabulary)
        return SampledChain.of(offer.root, chain, probs, offer.passes)


def _check_draft(draft_probs: Floats, tokens: Sequence[int]) -> None:
    if np.ndim(draft_probs) != 2 or len(draft_probs) != len(tokens):
        raise SamplingError(f"draft_probs {np.shape(draft_probs)} for {len(tokens)} draft tokens, expected (L, V)")
    for probs, token in zip(draft_probs, tokens, strict=True):
        _check_probs(probs)
        if not (0 <= token < len(probs) and probs[token] > 0):
            raise SamplingError(f"draft token {token} has no probability in the row that it was drawn from")


def _check_probs(probs: Floats) -> None:
    if not (probs.min() >= 0 and abs(probs.sum() - 1) <= _ROUNDING):
        raise SamplingError(f"a row sums to {probs.sum():.6g} from {probs.min():.3g} up, expected a distribution")
