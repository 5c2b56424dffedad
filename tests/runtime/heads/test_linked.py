"""Blocks whose offsets are linked: what is drafted is what was trained, and the output stays the target's own."""

import numpy as np
import pytest
import torch

from policy.controller import FixedBudget
from policy.errors import TreeError
from runtime.audit import plain_output
from runtime.engine import Engine
from runtime.frozen import Frozen
from runtime.heads.block import BlockConfig, FeatureBlock
from runtime.heads.block_session import BlockOffer
from runtime.heads.drafter import HeadDrafter
from runtime.states import FeatureAddress
from runtime.training.blocks import link_blocks
from runtime.training.recipes import target_shape

BLOCK, TOKENS = 3, [3, 7, 11, 2, 5]


def drafter(target, **offer):
    torch.manual_seed(6)
    head = FeatureBlock(BlockConfig(target_shape(target, 300.0), block=BLOCK, taps=1, rank=4, link=20))
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return HeadDrafter(head.eval(), Frozen.of(target), FeatureAddress((1,)), offer=BlockOffer(**offer))


def session_at(target, made):
    session = made.start()
    states = target.prefill(TOKENS[:-1], target.new_cache(len(TOKENS)), made.reads).states
    session.observe(states, TOKENS[1:])
    return session


def path_to(offer, node):
    path = []
    while node:
        path.append(node)
        node = int(offer.parent[node])
    return path[::-1]


def test_every_drafted_path_has_the_probabilities_that_training_gives_it(llama):
    made = drafter(llama, nodes=400, words=5, width=30)
    session = session_at(llama, made)
    offer = session.propose(TOKENS, 4, 50)
    with torch.inference_mode():
        predicted = session._block(made.frozen.look_up([TOKENS[-1]])[:, 0])
        leaves = np.flatnonzero(offer.depth == BLOCK).tolist()
        assert len(leaves) >= 100
        for leaf in leaves[:40]:
            nodes = path_to(offer, leaf)
            tokens = torch.tensor([[TOKENS[-1], *offer.tokens[nodes].tolist()]])
            rows = link_blocks(
                made.head.link, predicted[:, None], made.frozen.embed(tokens), torch.tensor([[[1, 2, 3]]])
            )
            log_prob = made.frozen.logits(rows[0, 0]).log_softmax(-1)
            wanted = [float(log_prob[k, token]) for k, token in enumerate(tokens[0, 1:])]
            assert offer.log_prob[nodes] == pytest.approx(wanted, abs=1e-4)


def test_offsets_depend_on_the_token_before_them(llama):
    offer = session_at(llama, drafter(llama, nodes=60, words=4)).propose(TOKENS, 4, 50)
    below = {
        node: offer.log_prob[offer.parent == node].tolist()
        for node in np.flatnonzero(offer.depth == 1).tolist()
        if (offer.parent == node).sum() == 4
    }
    assert len(below) >= 2
    assert len({tuple(row) for row in below.values()}) == len(below)


def test_a_second_block_hangs_below_the_confident_spine_and_reaches_past_the_first(llama):
    made = drafter(llama, nodes=400, words=3, width=30, extend_above=1e-9)
    session = session_at(llama, made)
    plain = session_at(llama, drafter(llama, nodes=400, words=3, width=30)).propose(TOKENS, 4, 50)
    offer = session.propose(TOKENS, 4, 50)
    assert (plain.passes, offer.passes) == (1, 2)
    assert int(plain.depth.max()) == BLOCK
    assert int(offer.depth.max()) == 2 * BLOCK
    beyond = np.flatnonzero(offer.depth > BLOCK).tolist()
    spine = [offer.tokens[path_to(offer, node)[:BLOCK]].tolist() for node in beyond]
    assert all(path == spine[0] for path in spine)
    # The first row of the second block is drafted as if its predicted features were the target's.
    with torch.inference_mode():
        second = session._beyond(TOKENS[-1], session._block(made.frozen.look_up([TOKENS[-1]])[:, 0]), spine[0])
        wanted = made.frozen.logits(second[0, 0]).log_softmax(-1).topk(3)
    leaf = path_to(offer, beyond[0])[BLOCK - 1]
    assert offer.tokens[offer.parent == leaf].tolist() == wanted.indices.tolist()
    assert offer.log_prob[offer.parent == leaf] == pytest.approx(wanted.values.tolist(), abs=1e-4)
    assert int(session.propose(TOKENS, 4, BLOCK + 1).depth.max()) == BLOCK + 1


def test_a_spine_that_is_not_confident_takes_one_pass(llama):
    assert session_at(llama, drafter(llama, extend_above=1.5)).propose(TOKENS, 4, 50).passes == 1


@pytest.mark.parametrize("extend_above", [None, 1e-9])
@pytest.mark.parametrize("budget", [3, 24])
def test_linked_trees_leave_the_output_alone(llama, gemma, budget, extend_above):
    for target in (llama, gemma):
        engine = Engine(target, drafter(target, extend_above=extend_above), FixedBudget(budget))
        for seed in range(3):
            prompt = torch.randint(40, (6,), generator=torch.Generator().manual_seed(seed)).tolist()
            assert engine.generate(prompt, 24) == plain_output(target, prompt, 24)


@pytest.mark.parametrize(
    ("offer", "named"),
    [({"nodes": 0}, "nodes is 0"), ({"words": -1}, "words is -1"), ({"width": 2.5}, "width is 2.5"),
     ({"extend_above": 0.0}, "extend_above is 0.0"), ({"extend_above": float("nan")}, "extend_above is nan")],
)  # fmt: skip
def test_offers_without_a_meaning_are_refused(offer, named):
    with pytest.raises(TreeError, match=named):
        BlockOffer(**offer)
