"""Keyed sampling: the right law, the right filters, and the tokens of plain sampling whatever is drafted."""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from policy.candidates import Candidates
from policy.controller import FixedBudget
from runtime.audit import RandomBudget
from runtime.drafters.ngram import NgramDrafter
from runtime.drafters.none import NoDrafter
from runtime.drafters.random import RandomDrafter
from runtime.engine import Engine
from runtime.sampling import Sampling, SamplingError, draw, generator, gumbel
from tests.runtime.conftest import VOCABULARY
from tests.runtime.three_words import filtered_by_transformers, fit, fit_of_three, law_of_three, three_words

torch = pytest.importorskip("torch")

QUIET = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
# Near-uniform rows of a tiny random target need low temperatures before anything is accepted: all are drawn from.
SAMPLINGS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.3, 1.0, 2.0]),
    top_p=st.sampled_from([1.0, 0.9, 0.5]),
    top_k=st.sampled_from([0, 20, 3]),
    seed=st.integers(0, 2**64 - 1),
)
PROMPTS = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=12)
TARGETS = pytest.mark.parametrize("name", ["llama", "gemma"])


def plain(target, prompt, limit, sampling):
    return Engine(target, NoDrafter(), FixedBudget(0), sampling).generate(prompt, limit)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.floats(0.05, 5), st.floats(0.01, 1), st.integers(0, 60))
def test_filters_are_those_of_transformers(seed, temperature, top_p, top_k):
    logits = torch.from_numpy(np.random.default_rng(seed).normal(0, 3, 50))
    sampling = Sampling(temperature, top_p, top_k)
    assert np.allclose(sampling.probs(logits), filtered_by_transformers(logits, sampling), atol=1e-12)


@pytest.mark.parametrize(
    ("logits", "sampling", "kept"),
    [
        ([0.0, 3.0, 1.0, 2.0], Sampling(1.0, top_p=1e-9), [1]),
        ([0.0, 3.0, 1.0, 2.0], Sampling(1.0, top_k=1), [1]),
        ([0.0, 3.0, 1.0, 2.0], Sampling(1.0, top_k=9), [0, 1, 2, 3]),
        ([1.0, 2.0, 1.0, 0.0], Sampling(1.0, top_k=2), [0, 1, 2]),
        ([0.0, 0.0, 0.0, 0.0], Sampling(1.0, top_p=0.3), [0, 1, 2, 3]),
        # Halves, a quarter, two eighths: the best two hold exactly .75, and what is above the third is not below it.
        ([2.0, 1.0, 0.0, 0.0], Sampling(1 / np.log(2), top_p=0.75), [0, 1]),
        ([2.0, 1.0, 0.0, 0.0], Sampling(1 / np.log(2), top_p=0.76), [0, 1, 2, 3]),
        # Top-p sees what top-k left: of 2/3 and 1/3 the first alone holds .6, of all four it holds .5 only.
        ([2.0, 1.0, 0.0, 0.0], Sampling(1 / np.log(2), top_p=0.6, top_k=2), [0]),
        ([2.0, 1.0, 0.0, 0.0], Sampling(1 / np.log(2), top_p=0.6), [0, 1]),
        ([1.0, float("-inf"), 1.0], Sampling(1.0), [0, 2]),
        ([1.0, 1.0 - 1e-9, 0.0], Sampling(1e-300), [0]),
        ([1.0, 5.0, 5.0], Sampling(0.0, top_p=0.1), [1]),
    ],
)
def test_ties_at_an_edge_stay_and_the_best_token_always_does(logits, sampling, kept):
    probs = sampling.probs(torch.tensor(logits, dtype=torch.float64))
    assert np.flatnonzero(probs).tolist() == kept
    assert probs.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("temperature", value) for value in (-0.1, float("nan"), float("inf"), "1", None, True)),
        *(("top_p", value) for value in (0, -1, 1.01, float("nan"), "x")),
        *(("top_k", value) for value in (-1, 1.5, None, True)),
        *(("seed", value) for value in (-1, 2**64, 0.5)),
    ],
)
def test_settings_without_a_meaning_are_refused_by_name(setting, value):
    with pytest.raises(SamplingError, match=f"{setting} .*expected"):
        Sampling(**{"temperature": 1.0, setting: value})


@pytest.mark.parametrize("row", [[float("nan"), 1.0], [float("inf"), 1.0], [float("-inf")] * 2])
def test_a_row_that_is_no_distribution_is_refused(row):
    with pytest.raises(SamplingError, match="not a number"):
        Sampling(1.0).token(torch.tensor(row), 0)


def test_noise_is_a_pure_function_of_seed_and_position():
    first = gumbel(7, 3, 500)
    for _ in range(3):
        np.random.default_rng(0).random(5)
        torch.rand(5)
        gumbel(8, 3, 40)
    assert (gumbel(7, 3, 500) == first).all()
    assert (gumbel(7, 3, 100) == first[:100]).all()
    # Written down once: another machine or version of numpy must give the same text for a seed.
    assert gumbel(7, 3, 3) == pytest.approx([0.3153350607156972, 1.1307946837414382, -1.095495552517207], abs=1e-12)


def test_noise_is_gumbel_and_independent_between_positions_and_seeds():
    rows = np.array([gumbel(seed, position, 4000) for seed in (0, 1, 2**63) for position in (0, 1, 2, 1000)])
    assert stats.kstest(rows.ravel(), "gumbel_r").pvalue > 0.01
    assert min(stats.kstest(row, "gumbel_r").pvalue for row in rows) > 0.001
    off_diagonal = np.corrcoef(rows)[np.triu_indices(len(rows), 1)]
    assert np.abs(off_diagonal).max() < 5 / np.sqrt(4000)
    assert len(np.unique(rows)) == rows.size
    assert generator(0, 1, 1).random() != generator(0, 1, 2).random()


@pytest.mark.parametrize("sampling", [Sampling(1.0), Sampling(0.5, top_k=2), Sampling(2.0, top_p=0.8)])
def test_draws_follow_the_filtered_row(sampling):
    logits = torch.tensor([0.3, -1.0, 1.2])
    expected = 20_000 * filtered_by_transformers(logits.double(), sampling)
    tokens = [sampling.token(logits, position) for position in range(20_000)]
    counts = np.bincount(tokens, minlength=3)
    assert (counts[expected == 0] == 0).all()
    assert stats.chisquare(counts[expected > 0], expected[expected > 0]).pvalue > 0.01


def test_a_temperature_near_zero_draws_the_greedy_token():
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(50, 30)))
    for position, row in enumerate(rows):
        assert Sampling(1e-6).token(row, position) == Sampling(0.0).token(row, position) == int(row.argmax())


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(1.3, top_p=0.9, top_k=8, seed=3)])
def test_the_token_is_the_one_of_the_largest_score(sampling):
    rows = torch.from_numpy(np.random.default_rng(1).normal(size=(40, 30)))
    for position, row in enumerate(rows):
        scores = sampling.scores(row, position)
        assert int(scores.argmax()) == sampling.token(row, position)
        assert (np.isneginf(scores) == (sampling.top_k > 0) * (sampling.probs(row) == 0)).all()


def test_draw_inverts_the_distribution_function():
    probs = np.array([0.0, 0.25, 0.0, 0.75, 0.0])
    assert [draw(probs, u) for u in (0.0, 0.2499, 0.25, 0.9999, 1 - 2**-53)] == [1, 1, 3, 3, 3]


@dataclasses.dataclass(frozen=True)
class EveryWord(NoDrafter):
    """Offers all words at offset 1, and all behind each of them: the walk accepts two tokens a round."""

    max_nodes: int = 12

    def propose(self, tokens, prompt_len, max_depth):
        parents = [-1, 0, 0, 0, *(1 + k // 3 for k in range(9))] if max_depth > 1 else [-1, 0, 0, 0]
        words = [tokens[-1], *(k % 3 for k in range(len(parents) - 1))]
        return Candidates(np.array(words), np.array(parents), np.r_[0, np.full(len(parents) - 1, -np.log(3))])


@pytest.mark.parametrize("settings", [Sampling(1.0), Sampling(0.7, top_p=0.9)])
def test_three_tokens_drawn_through_trees_have_the_targets_law(settings):
    """Against all 27 outcomes, enumerated."""
    target = three_words()
    engine, outputs, rounds = Engine(target, EveryWord(), FixedBudget(12)), [], []
    for seed in range(600):
        seeded = dataclasses.replace(engine, sampling=dataclasses.replace(settings, seed=seed))
        outputs.append(seeded.generate([0, 1], 3, rounds.append))
    assert all(round.outcome.accept_len == 2 for round in rounds)
    assert fit_of_three(outputs, law_of_three(target, [0, 1], settings)) > 0.01


def test_a_token_of_a_tree_round_has_the_law_of_its_row(llama):
    prompt = [3, 1, 4, 1, 5]
    drafter = RandomDrafter(VOCABULARY, 2, oracle=(*prompt, *plain(llama, prompt, 8, Sampling())))
    engine = Engine(llama, drafter, FixedBudget(24))
    start, counts = engine.start(prompt, 8), np.zeros(VOCABULARY)
    for seed in range(1000):
        seeded = dataclasses.replace(engine, sampling=Sampling(1.0, seed=seed))
        counts[seeded.step(start.fork(), engine.policy.start(), 0).outcome.emitted[0]] += 1
    with torch.inference_mode():
        row = llama.model(torch.tensor([start.tokens])).logits[0, -1].double()
    assert fit(counts, filtered_by_transformers(row, Sampling(1.0))) > 0.01


@TARGETS
@QUIET
@given(prompt=PROMPTS, sampling=SAMPLINGS, seed=st.integers(0, 1000), limit=st.integers(1, 24))
def test_random_trees_give_the_tokens_of_plain_sampling(name, request, prompt, sampling, seed, limit):
    target = request.getfixturevalue(name)
    expected = plain(target, prompt, limit, sampling)
    drafter = RandomDrafter(VOCABULARY, seed, oracle=(*prompt, *expected))
    assert Engine(target, drafter, RandomBudget(24, seed), sampling).generate(prompt, limit) == expected


@TARGETS
@QUIET
@given(prompt=PROMPTS, sampling=SAMPLINGS, budget=st.integers(1, 32), limit=st.integers(1, 24))
def test_ngram_trees_give_the_tokens_of_plain_sampling(name, request, prompt, sampling, budget, limit):
    target = request.getfixturevalue(name)
    engine = Engine(target, NgramDrafter(min_match=1), FixedBudget(budget), sampling)
    assert engine.generate(prompt, limit) == plain(target, prompt, limit, sampling)


@dataclasses.dataclass(frozen=True)
class Chain(NoDrafter):
    """Offers a chain of the oracle's tokens that goes wrong now and then."""

    oracle: tuple = ()
    max_nodes: int = 6

    def propose(self, tokens, prompt_len, max_depth):
        true = list(self.oracle[len(tokens) : len(tokens) + min(self.max_nodes, max_depth)])
        wrong = len(tokens) % 7
        words = [(word + (k == wrong)) % VOCABULARY for k, word in enumerate(true)]
        return Candidates(np.array([tokens[-1], *words]), np.arange(-1, len(words)), np.r_[0, -np.ones(len(words))])


@TARGETS
@QUIET
@given(prompt=PROMPTS, sampling=SAMPLINGS, limit=st.integers(1, 24))
def test_chains_give_the_tokens_of_plain_sampling(name, request, prompt, sampling, limit):
    target = request.getfixturevalue(name)
    expected = plain(target, prompt, limit, sampling)
    drafter = Chain(oracle=(*prompt, *expected))
    assert Engine(target, drafter, FixedBudget(6), sampling).generate(prompt, limit) == expected


def test_drawn_tokens_are_really_accepted(llama):
    """The properties above would hold for trees that are never accepted."""
    prompt, sampling, rounds = [3, 1, 4], Sampling(1.0, seed=5), []
    drafter = Chain(oracle=(*prompt, *plain(llama, prompt, 60, sampling)))
    Engine(llama, drafter, FixedBudget(6), sampling).generate(prompt, 60, rounds.append)
    assert sum(round.outcome.accept_len for round in rounds) >= 30


def test_outputs_differ_between_seeds_and_from_greedy(llama):
    outputs = {tuple(plain(llama, [3, 1, 4], 12, Sampling(1.0, seed=seed))) for seed in range(5)}
    assert len(outputs | {tuple(plain(llama, [3, 1, 4], 12, Sampling()))}) == 6
