import pytest
import torch

from runtime.frozen import Frozen
from runtime.heads.block import BlockConfig, DiffusionBlock, FeatureBlock
from runtime.heads.block_session import BlockOffer, BlockSession
from runtime.heads.eagle import EagleConfig, EagleHead
from runtime.heads.layers import Shape
from runtime.heads.medusa import MedusaConfig, MedusaHeads
from runtime.training.batches import Batch
from runtime.training.blocks import BlockRecipe, block_loss, draw_anchors, predict_blocks
from runtime.training.unroll import unrolled_states

WIDTH, PLACES, PROMPT = 16, 14, 4
SHAPE = Shape(WIDTH, 4, 2, 24)


def heads():
    torch.manual_seed(3)
    made = [
        FeatureBlock(BlockConfig(SHAPE, block=4, taps=2)),
        DiffusionBlock(BlockConfig(SHAPE, block=4, taps=2)),
        MedusaHeads(MedusaConfig(WIDTH, block=4)),
    ]
    for head in made:  # every part takes part, those that begin at zero too
        for parameter in head.parameters():
            torch.nn.init.normal_(parameter, std=0.15)
    return made


@pytest.fixture
def frozen():
    generator = torch.Generator().manual_seed(1)
    return Frozen(torch.randn(30, WIDTH, generator=generator), torch.randn(20, WIDTH, generator=generator),
                  torch.arange(5, 25))  # fmt: skip


def make(texts=3):
    generator = torch.Generator().manual_seed(2)
    supervise = torch.ones(texts, PLACES, dtype=torch.bool)
    supervise[:, : PROMPT - 1] = supervise[:, -1] = False
    return Batch(torch.randint(30, (texts, PLACES), generator=generator),
                 torch.randn(texts, PLACES, 3, WIDTH, generator=generator), supervise)  # fmt: skip


@pytest.mark.parametrize("head", heads(), ids=lambda head: type(head).__name__)
def test_training_blocks_are_the_drafted_ones(head, frozen):
    batch, root = make(), 7
    session = BlockSession(head, frozen, BlockOffer(words=20))
    for text in range(3):
        session = BlockSession(head, frozen, BlockOffer(words=20))
        session.observe(batch.states[text, :3], batch.tokens[text, 1:4].tolist())  # in two steps, as rounds come
        session.observe(batch.states[text, 3:root], batch.tokens[text, 4 : root + 1].tolist())
        offer = session.marginals(int(batch.tokens[text, root]), 4)
        roots = torch.full((3, 2), root)
        predicted = predict_blocks(head, batch, roots, frozen.embed(batch.tokens), None)[text, 1]
        log_prob = (predicted @ frozen.head.T).log_softmax(-1).sort(-1, descending=True)
        assert torch.allclose(torch.tensor(offer.log_probs).float(), log_prob.values, atol=1e-5)
        assert torch.equal(torch.tensor(offer.tokens), frozen.draft_tokens[log_prob.indices])


@pytest.mark.parametrize("head", heads(), ids=lambda head: type(head).__name__)
def test_a_block_sees_nothing_at_or_behind_its_root_but_the_root(head, frozen):
    batch, root = make(1), 7
    before = predict_blocks(head, batch, torch.tensor([[root]]), frozen.embed(batch.tokens), None)
    batch.states[:, root:] += 1.0
    batch.tokens[:, root + 1 :] = 3
    after = predict_blocks(head, batch, torch.tensor([[root]]), frozen.embed(batch.tokens), None)
    assert torch.equal(before, after)


@pytest.mark.parametrize("head", heads()[:2], ids=lambda head: type(head).__name__)
def test_a_revealed_prefix_changes_the_offsets_behind_it(head, frozen):
    batch = make(1)
    embedded = frozen.embed(batch.tokens)
    roots = torch.tensor([[7]])
    plain = predict_blocks(head, batch, roots, embedded, None)
    shown = predict_blocks(head, batch, roots, embedded, embedded[:, None, 8:10])
    assert not torch.allclose(plain[0, 0, 3], shown[0, 0, 3], atol=1e-4)


def test_roots_are_output_tokens_with_a_token_behind_them():
    batch = make()
    anchors = draw_anchors(batch, 200, torch.Generator().manual_seed(0))
    assert set(anchors.place.unique().tolist()) == set(range(PROMPT, PLACES - 1))
    batch.supervise[1] = False
    assert not draw_anchors(batch, 5, torch.Generator()).valid[1].any()


def test_only_offsets_inside_the_text_are_learned(frozen):
    # One output token behind the only possible root: one offset, however long the block.
    batch = make(1)
    batch.supervise[:] = False
    batch.supervise[0, [9, 10]] = True  # places 10 and 11 are output tokens
    loss = block_loss(heads()[0], batch, frozen, BlockRecipe(anchors=3), torch.Generator())
    assert len(loss.accuracy) == 1
    batch.supervise[:] = False
    assert block_loss(heads()[0], batch, frozen, BlockRecipe(anchors=3), torch.Generator()) is None


def test_coverage_weighs_offset_j_by_the_decay_to_j(frozen):
    batch, recipe = make(), BlockRecipe(anchors=30)
    found = block_loss(heads()[0], batch, frozen, recipe, torch.Generator().manual_seed(5))
    anchors = draw_anchors(batch, 30, torch.Generator().manual_seed(5))
    predicted = predict_blocks(heads()[0], batch, anchors.place, frozen.embed(batch.tokens), None)
    log_prob = (predicted.detach() @ frozen.head.T).log_softmax(-1)
    total = weights = 0.0
    for text in range(3):
        for k, root in enumerate(anchors.place[text].tolist()):
            for j in range(1, 5):
                if root + j >= PLACES:
                    continue
                token = int(batch.tokens[text, root + j])
                weights += 0.8**j
                if 5 <= token < 25:  # else the token is no draft word, and teaches nothing
                    total -= 0.8**j * float(log_prob[text, k, j - 1, token - 5])
    assert found.total.item() == pytest.approx(total / weights, rel=1e-4)


def test_only_the_head_gets_a_gradient(frozen):
    for head in heads():
        recipe = BlockRecipe(anchors=20, feature_weight=0.5, reveal=1.0 if head.config.block == 4 else 0.0)
        loss = None
        seed = 0
        while loss is None:
            loss = block_loss(head, make(), frozen, recipe, torch.Generator().manual_seed(seed))
            seed += 1
        loss.total.backward()
        assert any(parameter.grad is not None for parameter in head.parameters())
    assert frozen.head.grad is None
    assert frozen.embedding.grad is None


def test_a_block_that_begins_from_an_eagle_head_begins_as_its_first_prediction(frozen):
    torch.manual_seed(0)
    eagle, block = EagleHead(EagleConfig(SHAPE)), FeatureBlock(BlockConfig(SHAPE, block=4, taps=2))
    block.begin_from(eagle)
    batch, root = make(1), 7
    predicted = predict_blocks(block, batch, torch.tensor([[root]]), frozen.embed(batch.tokens), None)[0, 0]
    states = next(iter(unrolled_states(eagle, batch, frozen, 1)))[0]
    # The block's first row sees the later ones too; while they are its copies that changes their weight alone.
    assert (predicted - predicted[:1]).abs().max() < 0.5 * predicted.abs().max()
    cosine = torch.cosine_similarity(predicted[0], states[0, root - 1], dim=0)
    assert cosine > 0.95
