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
