"""Rejection sampling keeps the target's law exactly: by enumeration, and by chi-square through the engine."""

import dataclasses
import functools
import itertools

import numpy as np
import pytest
import torch

from policy.acceptance import Acceptance, OffsetLaw
from policy.controller import Adaptive, FixedBudget
from policy.cost import CostTable
from runtime.audit import plain_output
from runtime.drafters.ngram import NgramDrafter
from runtime.drafters.none import NoDrafter
from runtime.rejection import PointMass, RejectionEngine, SampledChain, reject
from runtime.sampling import Sampling, SamplingError
from tests.runtime.conftest import VOCABULARY
from tests.runtime.three_words import filtered_by_transformers, fit, fit_of_three, law_of_three, three_words

# Rows in tenths, chosen so that every ratio, residual and share is a multiple of 1/10 too: the ten middles of its
# tenths then stand for a uniform number exactly, whatever the code compares it with.
TARGET_ROWS = np.array([[4, 3, 3], [3, 4, 3], [5, 4, 1], [0, 5, 5]]) / 10
DRAFT_ROWS = np.array([[3, 2, 5], [2, 5, 3], [5, 0, 5], [5, 0, 5]]) / 10
TENTHS = (np.arange(10) + 0.5) / 10


class Script:
    """Plays numbers back; runs out where a branch has not been chosen yet."""

    def __init__(self, numbers):
        self.numbers = iter(numbers)

    def random(self):
        return next(self.numbers)


def branches(act, numbers=()):
    """Every outcome of ``act(rng)``, with its exact probability."""
    try:
        yield act(Script(numbers)), 10.0 ** -len(numbers)
    except StopIteration:
        for number in TENTHS:
            yield from branches(act, (*numbers, number))


def kind(prefix):
    """Which of the four pairs of rows stands behind a prefix."""
    return (sum(prefix) + 2 * len(prefix)) % 4


@functools.cache
def output_law(depth, length, prefix=()):
    """Exact law of the first ``length`` tokens, by all drafts and all branches of all rounds."""
    if len(prefix) >= length:
        return {prefix[:length]: 1.0}
    law = {}
    for draft in itertools.product(range(3), repeat=depth):
        kinds = [kind((*prefix, *draft[:k])) for k in range(depth + 1)]
        drawn = float(np.prod([DRAFT_ROWS[kinds[k], draft[k]] for k in range(depth)]))
        if drawn == 0:
            continue
        for (kept, token), weight in round_law(tuple(kinds), draft).items():
            for output, share in output_law(depth, length, (*prefix, *draft[:kept], token)).items():
                law[output] = law.get(output, 0.0) + drawn * weight * share
    return law


@functools.cache
def round_law(kinds, draft):
    """Exact law of what becomes of one draft."""
    law = {}
    for outcome, weight in branches(
        lambda rng: reject(TARGET_ROWS[list(kinds)], DRAFT_ROWS[list(kinds[:-1])], draft, rng)
    ):
        law[outcome] = law.get(outcome, 0.0) + weight
    return law


@pytest.mark.parametrize(("depth", "length"), [(1, 2), (1, 3), (2, 2)])
def test_enumerated_over_drafts_and_branches_the_output_has_the_targets_law(depth, length):
    law = output_law(depth, length)
    for output in itertools.product(range(3), repeat=length):
        expected = np.prod([TARGET_ROWS[kind(output[:k]), output[k]] for k in range(length)])
        assert law.get(output, 0.0) == pytest.approx(expected, abs=1e-12)


def test_the_kept_share_is_the_overlap_of_both_rows():
    """Leviathan et al. 2023, Theorem 3.5: the chance to keep a token is the sum of min(p, q)."""
    for target_row, draft_row in zip(TARGET_ROWS, DRAFT_ROWS, strict=True):
        kept = sum(
            draft_row[token] * weight * outcome[0]
            for token in np.flatnonzero(draft_row).tolist()
            for outcome, weight in branches(
                lambda rng, t=token, p=target_row, q=draft_row: reject(np.array([p, p]), q[None], [t], rng)
            )
        )
        assert kept == pytest.approx(np.minimum(target_row, draft_row).sum(), abs=1e-12)


def test_equal_rows_keep_everything():
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(5), size=4)
    for _ in range(200):
        draft = [int(rng.choice(5, p=row)) for row in rows[:3]]
        assert reject(rows, rows[:3], draft, rng)[0] == 3


@pytest.mark.parametrize(
    ("target_probs", "draft_probs", "tokens", "message"),
    [
        (np.full((2, 3), 1 / 3), np.full((2, 3), 1 / 3), [0, 1], "not L"),
        (np.full((2, 4), 1 / 4), np.full((1, 3), 1 / 3), [0], "not L"),
        (np.full((2, 3), 1 / 3), np.array([[0.5, 0.5, 0.0]]), [2], "token 2 has no probability"),
        (np.full((2, 3), 1 / 3), np.array([[0.5, 0.5, 0.0]]), [3], "token 3 has no probability"),
        (np.full((2, 3), 1 / 3), np.array([[0.5, 0.1, 0.1]]), [0], "sums to 0.7"),
        (np.full((2, 3), 0.5), np.full((1, 3), 1 / 3), [0], "sums to 1.5"),
        (np.full((2, 3), 1 / 3), np.array([[1.5, -0.5, 0.0]]), [0], "expected a distribution"),
        (np.full((2, 3), 1 / 3), np.full((1, 3), np.nan), [0], "expected a distribution"),
    ],
)
def test_rows_that_do_not_belong_to_the_draft_are_refused(target_probs, draft_probs, tokens, message):
    with pytest.raises(SamplingError, match=message):
        reject(target_probs, draft_probs, tokens, np.random.default_rng(0))


@dataclasses.dataclass(frozen=True)
class Wobbling(NoDrafter):
    """Draws each token from a row that depends on the token before."""

    vocabulary: int = 3
    max_nodes: int = 4

    def draft(self, tokens, prompt_len, max_depth, rng):
        table = np.random.default_rng(9).dirichlet(np.ones(self.vocabulary), size=self.vocabulary)
        drawn, rows = [int(tokens[-1])], np.zeros((max_depth, self.vocabulary))
        for k in range(max_depth):
            rows[k] = table[drawn[-1]]
            drawn.append(int(rng.choice(self.vocabulary, p=rows[k])))
        return SampledChain.of(drawn[0], drawn[1:], rows)


@pytest.mark.parametrize(
    ("drafter", "settings"),
    [(Wobbling(), Sampling(1.0)), (PointMass(NgramDrafter(min_match=1), 3), Sampling(0.7, top_p=0.9))],
    ids=["drawn", "ngram"],
)
def test_through_the_engine_three_tokens_have_the_targets_law(settings, drafter):
    target, prompt = three_words(), [0, 1, 2, 1, 0, 1]
    outputs, rounds = [], []
    for seed in range(600):
        engine = RejectionEngine(target, drafter, FixedBudget(2), dataclasses.replace(settings, seed=seed))
        outputs.append(engine.generate(prompt, 3, rounds.append))
    assert fit_of_three(outputs, law_of_three(target, prompt, settings)) > 0.01
    accepted = [round.outcome.accept_len for round in rounds]
    assert {0, 1, 2} == set(accepted)


def test_a_token_of_a_drawn_round_has_the_law_of_its_row(llama):
    engine = RejectionEngine(llama, Wobbling(vocabulary=VOCABULARY), FixedBudget(2), Sampling(1.0))
    start, counts, kept = engine.start([3, 1, 4, 1, 5], 8), np.zeros(VOCABULARY), 0
    for seed in range(1000):
        seeded = dataclasses.replace(engine, sampling=Sampling(1.0, seed=seed))
        outcome = seeded.step(start.fork(), engine.policy.start(), 0).outcome
        counts[outcome.emitted[0]] += 1
        kept += outcome.accept_len > 0
    with torch.inference_mode():
        row = llama.model(torch.tensor([start.tokens])).logits[0, -1].double()
    assert fit(counts, filtered_by_transformers(row, Sampling(1.0))) > 0.01
    assert 100 < kept < 900


def test_a_seed_gives_the_same_output_again_and_another_one_a_different(llama):
    def output(seed):
        engine = RejectionEngine(llama, Wobbling(vocabulary=VOCABULARY), FixedBudget(4), Sampling(1.0, seed=seed))
        return engine.generate([1, 2, 3], 20)

    assert output(0) == output(0) != output(1)


def test_at_temperature_0_it_is_greedy(llama):
    prompt = [1, 2, 3, 1, 2, 3]
    for drafter in (Wobbling(vocabulary=VOCABULARY), PointMass(NgramDrafter(min_match=1), VOCABULARY)):
        assert RejectionEngine(llama, drafter, FixedBudget(4)).generate(prompt, 30) == plain_output(llama, prompt, 30)


def test_an_end_token_or_the_limit_ends_the_request(llama_with_eos):
    lengths = set()
    for seed in range(30):
        engine = RejectionEngine(
            llama_with_eos, Wobbling(vocabulary=VOCABULARY), FixedBudget(4), Sampling(1.0, seed=seed)
        )
        output = engine.generate([1, 2, 3], 8)
        assert len(output) == 8 or output[-1] in llama_with_eos.eos
        assert not set(output[:-1]) & llama_with_eos.eos
        lengths.add(len(output))
    assert len(lengths) > 3


def test_a_policy_that_sees_the_drawn_tokens_is_refused(llama):
    law = Acceptance(OffsetLaw(0.5, 0.2, 0.7, 0.3), OffsetLaw(1.0, 0.1, 0.3, 0.2))
    adaptive = Adaptive(law, CostTable(np.array([0, 8]), np.array([10.0, 11.0])))
    with pytest.raises(SamplingError, match="Adaptive, expected FixedBudget"):
        RejectionEngine(llama, Wobbling(vocabulary=VOCABULARY), adaptive, Sampling(1.0))


def test_a_drafter_without_distributions_is_refused(llama):
    engine = RejectionEngine(llama, NgramDrafter(), FixedBudget(4), Sampling(1.0))
    with pytest.raises(SamplingError, match="ngram gives no distributions"):
        engine.generate([1, 2, 3], 4)


def test_why_such_a_policy_is_refused():
    """Verifying only drawn tokens of high draft probability distorts the output, even where draft and target agree."""
    row = np.array([0.6, 0.4])
    law = np.zeros(2)
    for token, drawn in enumerate(row):
        law += drawn * (np.eye(2)[token] if row[token] > 0.5 else row)
    assert law[0] == pytest.approx(0.84)


def test_the_log_of_rejection_rounds_is_that_of_chains(llama):
    rounds = []
    engine = RejectionEngine(llama, Wobbling(vocabulary=VOCABULARY), FixedBudget(4), Sampling(1.0))
    output = engine.generate([1, 2, 3], 30, rounds.append)
    rows = [round.row() for round in rounds]
    assert {row["shape"] for row in rows} == {"chain"}
    assert rows[0]["horizon"] == 4
    assert all(row["spine_len"] == row["accept_len"] for row in rows)
    tokens = torch.tensor([[1, 2, 3, *output]])
    with torch.inference_mode():
        log_probs = llama.model(tokens).logits[0].log_softmax(-1)
    entropy = -(log_probs.exp() * log_probs).sum(-1)
    assert [row["root_entropy"] for row in rows] == pytest.approx(
        [float(entropy[3 + row["position"]]) for row in rows], abs=1e-4
    )
