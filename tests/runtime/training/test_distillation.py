import pytest
import torch
from torch.nn import functional

from runtime.errors import TrainingError
from runtime.training.distillation import distil, hard, soft, top_k

ROWS, WIDTH, WORDS = 600, 16, 40


@pytest.fixture
def drawn():
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(ROWS, WIDTH, generator=generator, requires_grad=True)
    wanted = torch.randn(ROWS, WIDTH, generator=generator)
    head = torch.randn(WORDS, WIDTH, generator=generator)
    return states, wanted, head


def oracle(states, head, prob, weight):
    """The definition, with autograd's own gradient."""
    return (weight * -(prob * functional.log_softmax(states @ head.T, dim=-1)).sum(-1)).mean()


def top_only(prob, k):
    kept = torch.zeros_like(prob)
    for row, words in enumerate(prob.argsort(-1, descending=True)[:, :k]):
        kept[row, words] = prob[row, words]
    return kept


@pytest.mark.parametrize("kind", ["soft", "top-k", "hard"])
def test_loss_and_gradients_are_those_of_the_definition(drawn, kind):
    states, wanted, head = drawn
    head = head.clone().requires_grad_()
    fixed = head.detach()
    prob = (wanted @ fixed.T).softmax(-1)
    words = torch.arange(ROWS) % (WORDS + 1) - 1  # some rows have no draft word
    teacher = {"soft": soft(wanted, fixed), "top-k": top_k(wanted, fixed, 10), "hard": hard(words, WORDS)}[kind]
    shown = {
        "soft": prob,
        "top-k": top_only(prob, 10),
        "hard": functional.one_hot(words.clamp_min(0), WORDS) * (words >= 0)[:, None],
    }[kind]
    weight = torch.linspace(0.1, 2.0, ROWS)
    found = distil(states, head, teacher, weight)
    found.loss.backward()
    gradients = states.grad.clone(), head.grad.clone()
    states.grad = head.grad = None
    expected = oracle(states, head, shown, weight)
    expected.backward()
    assert found.loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert torch.allclose(gradients[0], states.grad, atol=1e-6)
    assert torch.allclose(gradients[1], head.grad, atol=1e-5)


def test_accuracy_and_recall_are_ranks_of_the_teachers_word(drawn):
    states, wanted, head = drawn
    found = distil(states, head, soft(wanted, head))
    best = (wanted @ head.T).argmax(-1)
    order = (states @ head.T).argsort(-1, descending=True)
    rank = (order == best[:, None]).float().argmax(-1)
    assert torch.equal(found.accuracy, rank == 0)
    assert torch.equal(found.recall, rank < 10)


def test_a_frozen_head_gets_no_gradient(drawn):
    states, wanted, head = drawn
    distil(states, head, soft(wanted, head)).loss.backward()
    assert head.grad is None
    assert states.grad is not None


def test_products_in_bf16_keep_the_loss_in_fp32(drawn):
    states, wanted, head = drawn
    exact = distil(states, head, soft(wanted, head)).loss
    rough = distil(states, head.bfloat16(), soft(wanted, head.bfloat16())).loss
    assert rough.dtype == torch.float32
    assert rough.item() == pytest.approx(exact.item(), rel=0.02)


def test_no_rows_are_refused(drawn):
    states, wanted, head = drawn
    with pytest.raises(TrainingError, match="no supervised row"):
        distil(states[:0], head, soft(wanted[:0], head))


def test_top_k_mass_is_not_renormalised():
    head = torch.eye(6)
    prob = torch.tensor([[0.4, 0.3, 0.1, 0.1, 0.06, 0.04]])
    states = torch.randn(1, 6, generator=torch.Generator().manual_seed(3))
    share = prob[:, :2] / prob[:, :2].sum()
    renormalised = -(share * states.log_softmax(-1)[:, :2]).sum()
    assert distil(states, head, top_k(prob.log(), head, 2)).loss.item() == pytest.approx(0.7 * float(renormalised))
    whole = distil(states, head, soft(prob.log(), head)).loss.item()
    for k in (6, 10):
        assert distil(states, head, top_k(prob.log(), head, k)).loss.item() == pytest.approx(whole)


def test_the_loss_is_entropy_plus_divergence(drawn):
    states, wanted, head = drawn
    prob = (wanted @ head.T).softmax(-1)
    own = -(prob * prob.log()).sum(-1)
    divergence = functional.kl_div((states @ head.T).log_softmax(-1), prob, reduction="none").sum(-1)
    found = distil(states, head, soft(wanted, head)).loss.item()
    assert found == pytest.approx((own + divergence).mean().item(), rel=1e-5)


def test_a_word_far_below_costs_sixty_nats_and_no_infinity():
    states = torch.tensor([[0.0, -1e4]])
    assert distil(states, torch.eye(2), hard(torch.tensor([1]), 2)).loss.item() == pytest.approx(60.0)
