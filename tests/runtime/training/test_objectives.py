"""The losses, against values worked by hand and against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from runtime.errors import TrainingError
from runtime.training.objectives import (
    coverage_loss,
    eagle_loss,
    feature_noise,
    log_softmax,
    pass_weights,
    smooth_l1,
    soft_cross_entropy,
    top_k_loss,
)

YES = torch.tensor([True])
GENERATOR = torch.Generator().manual_seed(3)


def test_the_loss_fixture_is_084() -> None:
    assert eagle_loss(0.6, 2.4) == pytest.approx(0.84)


@pytest.mark.parametrize(("residual", "value"), [(0.5, 0.125), (1.0, 0.5), (2.0, 1.5)])
def test_smooth_l1_is_quadratic_then_linear(residual: float, value: float) -> None:
    assert smooth_l1(torch.tensor([[residual]]), torch.zeros(1, 1), YES) == pytest.approx(value)


def test_pass_weights_add_up_to_the_field_note() -> None:
    assert sum(pass_weights(7)) == pytest.approx(3.951424)


def test_soft_cross_entropy_is_entropy_plus_divergence() -> None:
    logits, other = torch.randn(5, 9, generator=GENERATOR), torch.randn(5, 9, generator=GENERATOR)
    prob = other.softmax(-1)
    own = -(prob * prob.log()).sum(-1)
    divergence = functional.kl_div(logits.log_softmax(-1), prob, reduction="none").sum(-1)
    assert soft_cross_entropy(logits, prob, torch.ones(5, dtype=torch.bool)) == pytest.approx((own + divergence).mean())


def test_top_k_mass_is_not_renormalised() -> None:
    logits = torch.randn(1, 6, generator=GENERATOR)
    prob = torch.tensor([[0.4, 0.3, 0.1, 0.1, 0.06, 0.04]])
    share = prob[:, :2] / prob[:, :2].sum()
    renormalised = -(share * logits.log_softmax(-1)[:, :2]).sum()
    assert top_k_loss(logits, prob, YES, k=2) == pytest.approx(0.7 * float(renormalised))
    assert top_k_loss(logits, prob, YES, k=6) == pytest.approx(float(soft_cross_entropy(logits, prob, YES)))
    assert top_k_loss(logits, prob, YES, k=10) == pytest.approx(float(soft_cross_entropy(logits, prob, YES)))


def test_coverage_weighs_offset_j_by_decay_to_the_j() -> None:
    logits, tokens = torch.randn(2, 3, 7, generator=GENERATOR), torch.tensor([[0, 3, 6], [1, 1, 2]])
    supervise = torch.tensor([[True, True, False], [True, True, True]])
    each = functional.cross_entropy(logits.reshape(-1, 7), tokens.reshape(-1), reduction="none").reshape(2, 3)
    expected = (each * torch.tensor([0.8, 0.64, 0.512]))[supervise].mean()
    assert coverage_loss(logits, tokens, supervise) == pytest.approx(float(expected))


def test_only_supervised_rows_count_even_beside_rows_that_are_not_numbers() -> None:
    predicted = torch.tensor([[1.0], [float("nan")]])
    flags = torch.tensor([True, False])
    loss = smooth_l1(predicted, torch.zeros(2, 1), flags)
    assert float(loss) == pytest.approx(0.5)
    with pytest.raises(TrainingError, match="no supervised row"):
        smooth_l1(predicted, torch.zeros(2, 1), torch.zeros(2, dtype=torch.bool))


def test_losses_are_fp32_whatever_comes_in() -> None:
    logits = torch.randn(3, 5, generator=GENERATOR).bfloat16()
    loss = soft_cross_entropy(logits, torch.full((3, 5), 0.2), torch.ones(3, dtype=torch.bool))
    assert loss.dtype == torch.float32
    assert log_softmax(logits) == pytest.approx(logits.float().log_softmax(-1), abs=1e-6)


def test_log_softmax_stays_finite_far_below() -> None:
    low = log_softmax(torch.tensor([[0.0, -1e4]]))
    assert low.tolist() == [[0.0, -60.0]]


@pytest.mark.parametrize(("length", "amplitude"), [(None, 0.1), (512, 0.1), (128, 0.4)])
def test_noise_is_uniform_of_its_named_amplitude(length: int | None, amplitude: float) -> None:
    noise = feature_noise(torch.zeros(20000), torch.Generator().manual_seed(0), length=length)
    assert noise.abs().max() <= amplitude
    assert noise.abs().max() > 0.99 * amplitude
    assert float(noise.std()) == pytest.approx(amplitude / 3**0.5, rel=0.02)
