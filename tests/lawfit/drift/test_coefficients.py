from __future__ import annotations

import numpy as np
import pytest

from lawfit import AffineLogit, FreeHazard, Geometric, Isotonic, RoundLog
from lawfit.drift.coefficients import moved, own_covariance, slots_of, value_at


def test_coefficients_are_found_by_name_by_offset_and_in_order() -> None:
    law = AffineLogit(0.5, 1.5, 4)
    assert slots_of(law, ("b1", "b0")) == (("b1", None), ("b0", None))
    free = FreeHazard((0.6, 0.7, 0.8))
    slots = slots_of(free, ("h1", "h2", "h3"))
    assert [value_at(free, slot) for slot in slots] == [0.6, 0.7, 0.8]
    assert moved(free, slots[1], 0.05) == FreeHazard((0.6, 0.75, 0.8))
    assert slots_of(free, ("h1", "h2")) == ()


def test_a_value_that_the_law_may_not_have_is_none() -> None:
    law = Geometric(1.0, 5)
    (slot,) = slots_of(law, ("match_prob",))
    assert moved(law, slot, 0.01) is None
    assert moved(law, slot, -0.25) == Geometric(0.75, 5)


def test_a_laws_own_error_is_that_of_its_fit_by_prompts(synthetic: RoundLog) -> None:
    law = AffineLogit.fit(synthetic)
    assert law.fitted is not None
    assert own_covariance(law) == pytest.approx(np.array(law.fitted.cluster_covariance))
    assert own_covariance(AffineLogit(1.0, 1.0)) is None
    assert own_covariance(Isotonic.fit(synthetic)) is None
