"""The losses, against values worked by hand and against torch's own."""

from __future__ import annotations

import pytest
import torch

from runtime.errors import TrainingError
from runtime.training.objectives import (
    eagle_loss,
    feature_noise,
    pass_weights,
    smooth_l1,
)


def test_the_loss_fixture_is_084() -> None:
    assert eagle_loss(0.6, 2.4) == pytest.approx(0.84)


@pytest.mark.parametrize(("residual", "value"), [(0.5, 0.125), (1.0, 0.5), (2.0, 1.5)])
def test_smooth_l1_is_quadratic_then_linear(residual: float, value: float) -> None:
    assert smooth_l1(torch.tensor([[residual]]), torch.zeros(1, 1)) == pytest.approx(value)


def test_smooth_l1_weighs_rows_and_refuses_none() -> None:
    rows = torch.tensor([[1.0], [3.0]]).bfloat16()
    loss = smooth_l1(rows, torch.zeros(2, 1), torch.tensor([0.5, 1.5]))
    assert loss.dtype == torch.float32
    assert float(loss) == pytest.approx((0.5 * 0.5 + 1.5 * 2.5) / 2)
    with pytest.raises(TrainingError, match="no supervised row"):
        smooth_l1(rows[:0], rows[:0])


def test_pass_weights_add_up_to_the_field_note() -> None:
    assert sum(pass_weights(7)) == pytest.approx(3.951424)


@pytest.mark.parametrize(("length", "amplitude"), [(None, 0.1), (512, 0.1), (128, 0.4)])
def test_noise_is_uniform_of_its_named_amplitude(length: int | None, amplitude: float) -> None:
    noise = feature_noise(torch.zeros(20000), torch.Generator().manual_seed(0), length=length)
    assert noise.abs().max() <= amplitude
    assert noise.abs().max() > 0.99 * amplitude
    assert float(noise.std()) == pytest.approx(amplitude / 3**0.5, rel=0.02)
