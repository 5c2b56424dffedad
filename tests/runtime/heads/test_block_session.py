import numpy as np
import pytest
import torch

from policy.controller import FixedBudget
from runtime.audit import plain_output
from runtime.engine import Engine
from runtime.errors import CommitError
from runtime.frozen import Frozen
from runtime.heads.block import BlockConfig, DiffusionBlock, FeatureBlock
from runtime.heads.block_session import BlockOffer, BlockSession
from runtime.heads.drafter import HeadDrafter
from runtime.heads.medusa import MedusaConfig, MedusaHeads
from runtime.states import FeatureAddress
from runtime.training.recipes import target_shape

BLOCK = 3


def drafter(target, kind, extend=None):
    torch.manual_seed(4)
    shape = target_shape(target, 300.0)
    if kind == "medusa":
        head, reads = MedusaHeads(MedusaConfig(shape.hidden, BLOCK)), FeatureAddress(())
    else:
        head = {"feature": FeatureBlock, "diffusion": DiffusionBlock}[kind](BlockConfig(shape, block=BLOCK, taps=1))
        reads = FeatureAddress((1,))
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return HeadDrafter(head.eval(), Frozen.of(target), reads, offer=BlockOffer(40, 2, extend))


def session_at(target, made, tokens):
    session = made.start()
    states = target.prefill(tokens[:-1], target.new_cache(len(tokens)), made.reads).states
    session.observe(states, tokens[1:])
    return session


@pytest.mark.parametrize("kind", ["feature", "diffusion"])
def test_the_extension_reaches_past_the_block_below_the_spine_only(llama, kind):
    tokens = [3, 7, 11, 2, 5]
    session = session_at(llama, drafter(llama, kind, extend=1e-9), tokens)
    offer = session.propose(tokens, 4, 50)
    assert offer.passes == 2
    assert int(offer.depth.max()) > BLOCK
    first = session.marginals(tokens[-1], BLOCK)
    spine = first.tokens[:, 0].tolist()
    for node in np.flatnonzero(offer.depth > BLOCK).tolist():
        path = []
        while node:
            path.append(int(offer.tokens[node]))
            node = int(offer.parent[node])
        assert path[::-1][:BLOCK] == spine
    assert int(session.propose(tokens, 4, BLOCK + 1).depth.max()) == BLOCK + 1


@pytest.mark.parametrize("kind", ["feature", "diffusion", "medusa"])
def test_an_unsure_spine_and_medusa_take_one_pass(llama, kind):
    tokens = [3, 7, 11, 2, 5]
    made = drafter(llama, kind, extend=None if kind != "medusa" else 1e-9)
    offer = session_at(llama, made, tokens).propose(tokens, 4, 50)
    assert offer.passes == 1
    assert int(offer.depth.max()) <= BLOCK


def test_the_longer_block_of_the_paper_is_one_block_with_tokens_shown(llama):
    # With everything but the last offset revealed, the second pass is the first one of a head with a longer block.
    made = drafter(llama, "diffusion", extend=1e-9)
    tokens = [3, 7, 11, 2, 5]
    session = session_at(llama, made, tokens)
    spine = session.marginals(tokens[-1], BLOCK).tokens[:, 0].tolist()
    embed = made.frozen.embed
    rows = torch.cat([embed(torch.tensor([[tokens[-1], *spine]])), made.head.mask.expand(1, BLOCK, -1)], dim=1)
    positions = torch.arange(len(tokens) - 1, len(tokens) - 1 + rows.shape[1])[None]
    mask = torch.ones(1, 1, 1, len(tokens) - 1 + rows.shape[1], dtype=torch.bool)
    with torch.inference_mode():
        out = made.head(rows, positions, session.seen, mask)[0, 1 + BLOCK :]
        wanted = (out @ made.frozen.head.T).log_softmax(-1).topk(2, dim=-1)
        first = session._block(made.frozen.look_up([tokens[-1]])[:, 0])
        found = session._read(spine[-1], session._beyond(tokens[-1], first, spine))
    assert np.allclose(found.log_probs, wanted.values.numpy(), atol=1e-5)
    assert np.array_equal(found.tokens, wanted.indices.numpy())


@pytest.mark.parametrize("kind", ["feature", "diffusion", "medusa"])
def test_an_offer_leaves_nothing_behind(llama, kind):
    tokens = [3, 7, 11, 2, 5]
    session = session_at(llama, drafter(llama, kind, extend=1e-9), tokens)
    once, twice = session.propose(tokens, 4, 50), session.propose(tokens, 4, 50)
    assert np.array_equal(once.log_prob, twice.log_prob)
    fork = session.fork()
    fork.observe(torch.zeros(1, 1 if kind == "medusa" else 2, 32), [9])
    assert np.array_equal(session.propose(tokens, 4, 50).log_prob, once.log_prob)


@pytest.mark.parametrize("kind", ["feature", "diffusion"])
@pytest.mark.parametrize("budget", [3, 24])
def test_extended_trees_leave_the_output_alone(llama, kind, budget):
    engine = Engine(llama, drafter(llama, kind, extend=1e-9), FixedBudget(budget))
    for seed in range(3):
        prompt = torch.randint(40, (6,), generator=torch.Generator().manual_seed(seed)).tolist()
        assert engine.generate(prompt, 24) == plain_output(llama, prompt, 24)


def test_states_are_needed_one_for_each_token(llama):
    session = BlockSession(drafter(llama, "feature").head, Frozen.of(llama), BlockOffer())
    with pytest.raises(CommitError, match="no states with 2 next tokens"):
        session.observe(None, [1, 2])
    assert session.propose([1, 2], 0, 9).count == 0


@pytest.mark.parametrize("shape", [(2, 32), (2, 0, 32), (2, 2, 31), (2, 2, 32, 1)])
@pytest.mark.parametrize("kind", ["feature", "diffusion"])
def test_states_of_another_shape_are_refused(llama, kind, shape):
    session = drafter(llama, kind).start()
    with pytest.raises(CommitError, match=r"states of shape .* expected \(rows, 1 or more, 32\)"):
        session.observe(torch.zeros(shape), [1, 2])
    assert session.propose([1, 2], 0, 9).count == 0
