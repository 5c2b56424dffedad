import numpy as np
import polars as pl
import pytest

from lawfit.log import RoundLog
from policy.acceptance import Acceptance
from policy.controller import FixedBudget
from runtime.audit import RandomBudget, plain_output
from runtime.drafters.ngram import NgramDrafter
from runtime.drafters.none import NoDrafter
from runtime.drafters.random import RandomDrafter
from runtime.engine import Engine
from runtime.errors import TargetError
from runtime.sampling import Sampling
from tests.runtime.conftest import VOCABULARY


def rounds_of(target, prompt, limit=40, seed=0, sampling=None):
    sampling = sampling or Sampling()
    truth = (*prompt, *Engine(target, NoDrafter(), FixedBudget(0), sampling).generate(prompt, limit))
    rounds = []
    engine = Engine(target, RandomDrafter(VOCABULARY, seed, oracle=truth), RandomBudget(24, seed), sampling)
    output = engine.generate(prompt, limit, rounds.append)
    return rounds, output


@pytest.mark.parametrize("name", ["llama", "llama_with_eos"])
def test_rounds_form_a_valid_log_that_accounts_for_every_token(name, request):
    target = request.getfixturevalue(name)
    for seed in range(6):
        prompt = np.random.default_rng(seed).integers(0, VOCABULARY, 6).tolist()
        rounds, output = rounds_of(target, prompt, seed=seed)
        if not rounds:
            assert len(output) == 1
            continue
        log = RoundLog.from_frame(pl.DataFrame([round.row() for round in rounds], infer_schema_length=None))
        assert 1 + sum(len(round.outcome.emitted) for round in rounds) == len(output)
        positions = np.cumsum([0] + [len(round.outcome.emitted) for round in rounds])[:-1]
        assert log.frame["position"].to_list() == positions.tolist()
        assert log.frame["context_len"].to_list() == (len(prompt) + positions).tolist()
        # Only the last round may be cut by the end of the request.
        assert not log.frame["truncated"][:-1].any()


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.5, top_p=0.8, top_k=5)], ids=["greedy", "sampled"])
def test_entropies_are_those_of_the_targets_own_rows(llama, sampling):
    """However tokens are drawn: at temperature 1, and unfiltered."""
    import torch

    prompt = [4, 9, 2, 6]
    rounds, output = rounds_of(llama, prompt, sampling=sampling)
    tokens = torch.tensor([[*prompt, *output]])
    with torch.inference_mode():
        rows = torch.log_softmax(llama.model(tokens).logits[0], -1)
    expected = -(rows.exp() * rows).sum(-1)
    for round in rounds:
        at = len(prompt) + round.position
        assert round.root_entropy == pytest.approx(float(expected[at]), abs=1e-4)
        assert round.prev_entropy == pytest.approx(float(expected[at - 1]), abs=1e-4)


def test_accept_ranks_give_the_accepted_length_at_every_smaller_budget(llama):
    """Best-first order is nested, so one round answers for all smaller budgets."""
    prompt = [4, 9, 2, 6]
    expected = plain_output(llama, prompt, 40)
    drafter = RandomDrafter(VOCABULARY, 3, oracle=(*prompt, *expected))
    wide = []
    Engine(llama, drafter, FixedBudget(24)).generate(prompt, 40, wide.append)
    checked = 0
    for round in wide:
        ranks = round.row()["accept_ranks"]
        for budget in (1, 2, 4, 8, 16):
            # Decode the prefix again up to this round's root, and run the same draft at the smaller budget.
            engine = Engine(llama, drafter, FixedBudget(budget))
            request = engine.start([*prompt, *expected[: round.position]], 40 - round.position)
            again = engine.step(request, engine.policy.start(), 0)
            assert again.outcome.accept_len == sum(rank <= budget for rank in ranks)
            checked += 1
    assert checked >= 20


def test_the_engines_own_log_can_be_fitted_for_the_next_policy(llama):
    rows = []
    for seed in range(20):
        prompt = np.random.default_rng(seed).integers(0, VOCABULARY, 8).tolist()
        engine = Engine(llama, NgramDrafter(min_match=1), FixedBudget(8))
        engine.generate(prompt, 60, lambda round: rows.append(round.row()))
    law = Acceptance.fit(RoundLog.from_frame(pl.DataFrame(rows, infer_schema_length=None)))
    assert np.isfinite([law.first.b0, law.beyond.b2]).all()


@pytest.mark.parametrize(
    ("prompt", "limit", "message"),
    [
        ([], 5, "prompt is empty"),
        ([1], 0, "at least 1"),
        ([VOCABULARY], 5, "vocabulary has 48"),
        ([-1], 5, "vocabulary has 48"),
        ([1] * 500, 20, "exceed the target's context of 512"),
    ],
)
def test_requests_that_cannot_be_decoded_are_refused(llama, prompt, limit, message):
    with pytest.raises(TargetError, match=message):
        Engine(llama, NoDrafter(), FixedBudget(0)).start(prompt, limit)
