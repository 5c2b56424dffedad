"""Training passes of the feature drafter, and that they are what drafting does."""

import pytest
import torch

from runtime.errors import TrainingError
from runtime.frozen import Frozen, draft_vocabulary
from runtime.heads.drafting import Expansion, FeatureSession
from runtime.heads.eagle import EagleConfig, EagleHead
from runtime.heads.layers import Shape
from runtime.training.batches import Batch
from runtime.training.rows import compile_soft_rows
from runtime.training.unroll import UnrollRecipe, band_mask, unrolled_losses, unrolled_states
from runtime.training.visibility import unrolled_mask

WIDTH, WORDS = 16, 30


@pytest.fixture
def head():
    torch.manual_seed(1)
    return EagleHead(EagleConfig(Shape(WIDTH, 4, 2, 24))).eval()


@pytest.fixture
def frozen():
    generator = torch.Generator().manual_seed(2)
    table = torch.randn(WORDS, WIDTH, generator=generator)
    tokens = torch.arange(0, WORDS, 2)
    return Frozen(table, table[tokens], tokens)


def make(texts=2, places=9, seed=0):
    generator = torch.Generator().manual_seed(seed)
    supervise = torch.ones(texts, places, dtype=torch.bool)
    supervise[:, :2] = False
    supervise[:, -1] = False
    return Batch(
        torch.randint(0, WORDS, (texts, places), generator=generator),
        torch.randn(texts, places, 3, WIDTH, generator=generator),
        supervise,
    )


def test_the_band_is_the_unrolled_mask_of_one_segment():
    ones = torch.ones(1, 8, dtype=torch.long)
    rows = compile_soft_rows(ones, torch.zeros_like(ones), torch.arange(8)[None], ones)
    for step in range(4):
        assert (band_mask(7, step)[0, 0] == unrolled_mask(rows, step)).all()


def test_training_passes_give_the_states_that_drafting_goes_through(head, frozen):
    # The text goes on as the drafter drafts, so that every row of pass s stands for the s-th draft step of a chain.
    batch = make(texts=1, places=6)
    tokens, states, root = batch.tokens[0], batch.states[0], 3
    session = FeatureSession(head, frozen, Expansion(depth=4, width=1, children=1))
    session.observe(states[:root], tokens[1 : root + 1])
    drafted = session.propose([int(tokens[root])], 0, 10).tokens[1:].tolist()
    text = torch.tensor([*tokens[: root + 1].tolist(), *drafted])[None]
    held = torch.cat([states, torch.randn(1, 5, 3, WIDTH)[0]])[None, : text.shape[1]]
    again = Batch(text, held, torch.ones_like(text, dtype=torch.bool))
    found = [
        predicted[0, root - 1 + step] for step, (predicted, _) in enumerate(unrolled_states(head, again, frozen, 4))
    ]
    choices = [int(frozen.draft_tokens[(head.readout(state) @ head.output(frozen).T).argmax()]) for state in found]
    assert choices == drafted
    assert session.last is not None
    assert torch.allclose(found[0], session.last[0, 0], atol=1e-5)


def test_drafting_leaves_no_trace_and_goes_on_from_verified_states_only(head, frozen):
    batch = make(texts=1)
    tokens, states = batch.tokens[0], batch.states[0]
    session = FeatureSession(head, frozen, Expansion(3, 4, 4))
    session.observe(states[:3], tokens[1:4])
    keys = session.keys.keys.clone()
    first = session.propose([int(tokens[3])], 0, 9)
    assert torch.equal(session.keys.keys, keys)
    assert session.propose([int(tokens[3])], 0, 9).tokens.tolist() == first.tokens.tolist()
    session.observe(states[3:5], tokens[4:6])
    at_once = FeatureSession(head, frozen, Expansion(3, 4, 4))
    at_once.observe(states[:5], tokens[1:6])
    assert torch.allclose(session.last, at_once.last, atol=1e-5)


def test_branches_do_not_see_each_other(head, frozen):
    # A child's state must not depend on which other branches were expanded beside it.
    batch = make(texts=1)
    tokens, states = batch.tokens[0], batch.states[0]

    def values(width):
        session = FeatureSession(head, frozen, Expansion(3, width, 4))
        session.observe(states[:4], tokens[1:5])
        candidates = session.propose([int(tokens[4])], 0, 9)
        return candidates, {tuple(path(candidates, k)): candidates.log_prob[k] for k in range(1, candidates.count + 1)}

    def path(candidates, node):
        out = []
        while node:
            out.append(int(candidates.tokens[node]))
            node = int(candidates.parent[node])
        return out[::-1]

    wide, narrow = values(4)[1], values(1)[1]
    assert set(narrow) <= set(wide)
    for key, value in narrow.items():
        assert value == pytest.approx(wide[key], abs=1e-5)


def test_expansion_stops_at_its_limits(head, frozen):
    session = FeatureSession(head, frozen, Expansion(5, 2, 3))
    assert session.propose([4], 0, 5).count == 0
    batch = make(texts=1)
    session.observe(batch.states[0, :2], batch.tokens[0, 1:3])
    offer = session.propose([int(batch.tokens[0, 2])], 0, 2)
    assert int(offer.depth.max()) == 2
    assert offer.count == 3 + 2 * 3
    assert session.propose([1], 0, 0).count == 0


def test_only_the_drafter_gets_a_gradient(head, frozen):
    head.train()
    for loss in unrolled_losses(head, make(), frozen, UnrollRecipe(passes=3, distill="top-k"), torch.Generator()):
        loss.total.backward()
    assert all(parameter.grad is not None for parameter in head.parameters())
    assert frozen.embedding.grad is None
    assert frozen.head.grad is None
    assert not frozen.embedding.requires_grad


def test_a_batch_without_a_supervised_row_has_no_loss(head, frozen):
    batch = make()
    empty = Batch(batch.tokens, batch.states, torch.zeros_like(batch.supervise))
    assert list(unrolled_losses(head, empty, frozen, UnrollRecipe(passes=3), torch.Generator())) == []


def test_later_passes_supervise_chains_that_began_at_an_output_token_only(head, frozen):
    rooted = [rows[0].int().tolist() for _, rows in unrolled_states(head, make(texts=1), frozen, 3)]
    assert rooted == [[0, 0, 1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1]]


def test_a_draft_vocabulary_maps_there_and_back(frozen):
    ids = frozen.draft_ids()
    assert ids[frozen.draft_tokens].tolist() == list(range(15))
    assert (ids >= 0).sum() == 15
    chosen = draft_vocabulary([[5, 5, 7], [5, 9, 9]], 4, 30)
    assert chosen.tolist() == [0, 5, 7, 9]
    assert not frozen.whole


def test_a_broken_draft_vocabulary_is_refused(llama):
    with pytest.raises(TrainingError, match="expected different token ids"):
        Frozen.of(llama, torch.tensor([1, 1]))
    assert Frozen.of(llama).whole
