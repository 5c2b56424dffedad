"""The ablation of what a drafter reads."""

import pytest
import torch

from lawfit.errors import LawfitError
from policy.controller import FixedBudget
from runtime.audit import plain_output
from runtime.drafters.conditioned import Conditioned, bank_of
from runtime.drafters.ngram import NgramDrafter
from runtime.engine import Engine
from runtime.errors import CommitError
from tests.runtime.tiny_heads import tiny_head

PROMPT, OTHER = [1, 2, 3, 4, 5], [9, 8, 7]


class Recorded:
    """A session that keeps what it is shown."""

    def __init__(self):
        self.states, self.next_tokens = [], []

    def observe(self, states, next_tokens):
        self.states.append(states)
        self.next_tokens += next_tokens

    def fork(self):
        twin = Recorded()
        twin.states = list(self.states)
        return twin


class Reader:
    """A drafter whose sessions are `Recorded`."""

    name, max_nodes, reads = "reader", 7, object()

    def start(self):
        return Recorded()


def states_of(rows, seed=0):
    return torch.randn(rows, 2, 4, generator=torch.Generator().manual_seed(seed))


def test_zeroed_states_are_zero_and_tokens_pass():
    session = Conditioned(Reader(), "zeroed").start()
    session.observe(states_of(3), [1, 2, 3])
    assert torch.equal(session.session.states[0], torch.zeros(3, 2, 4))
    assert session.session.next_tokens == [1, 2, 3]


def test_swapped_rows_go_round_the_bank_across_calls_and_forks():
    bank = states_of(3, seed=1)
    session = Conditioned(Reader(), "swapped", bank).start()
    session.observe(states_of(2), [1, 2])
    fork = session.fork()
    for twin in (session, fork):
        twin.observe(states_of(3), [3, 4, 5])
        assert torch.equal(torch.cat(twin.session.states), bank[[0, 1, 2, 0, 1]])


def test_states_are_given_in_the_type_of_those_they_replace():
    session = Conditioned(Reader(), "swapped", states_of(3)).start()
    session.observe(states_of(2).bfloat16(), [1, 2])
    assert session.session.states[0].dtype == torch.bfloat16


def test_nodes_and_address_pass_through_and_the_name_tells():
    conditioned = Conditioned(Reader(), "zeroed")
    assert (conditioned.name, conditioned.max_nodes, conditioned.reads) == (
        f"reader@{conditioned.how}",
        7,
        Reader.reads,
    )


def test_a_swapped_request_drafts_as_the_other_would_behind_the_same_tokens(llama):
    head = tiny_head(llama)
    bank = bank_of(llama, OTHER, head)
    assert bank.shape == (3, 1, 32)
    own, swapped, zeroed = (
        drafter.start() for drafter in (head, Conditioned(head, "swapped", bank), Conditioned(head, "zeroed"))
    )
    states = bank_of(llama, PROMPT[:3], head)
    for session in (own, swapped, zeroed):
        session.observe(states, PROMPT[1:4])
    expected = head.start()
    expected.observe(bank, PROMPT[1:4])
    offers = [session.propose(PROMPT[:4], 3, 9) for session in (swapped, expected, own, zeroed)]
    assert offers[0].log_prob.tolist() == offers[1].log_prob.tolist()
    different = {tuple(offer.log_prob.tolist()) for offer in offers}
    assert len(different) == 3


@pytest.mark.parametrize("how", ["zeroed", "swapped"])
def test_the_output_is_the_targets_own_whatever_is_read(llama, how):
    for depth, width in ((4, 3), (5, 1)):
        head = tiny_head(llama, depth, width, width)
        drafter = Conditioned(head, how, bank_of(llama, OTHER, head) if how == "swapped" else None)
        assert Engine(llama, drafter, FixedBudget(31)).generate(PROMPT, 24) == plain_output(llama, PROMPT, 24)


def test_ablations_of_nothing_or_by_nothing_are_refused(llama):
    with pytest.raises(LawfitError, match="ngram reads no states"):
        Conditioned(NgramDrafter(), "zeroed")
    with pytest.raises(LawfitError, match="ngram reads no states"):
        bank_of(llama, OTHER, NgramDrafter())
    for how, bank, message in (
        ("frozen", None, "'frozen', expected zeroed or swapped"),
        ("swapped", None, "swapped without a bank"),
        ("zeroed", states_of(1), "zeroed with a bank"),
        ("swapped", states_of(0), r"shape \(0, 2, 4\)"),
        ("swapped", states_of(1)[0], r"shape \(2, 4\)"),
    ):
        with pytest.raises(LawfitError, match=message):
            Conditioned(Reader(), how, bank)
    session = Conditioned(Reader(), "swapped", torch.zeros(2, 3, 4)).start()
    with pytest.raises(CommitError, match=r"shape \(3, 4\), expected the target's \(2, 4\)"):
        session.observe(states_of(2), [1, 2])
