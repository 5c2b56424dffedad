from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from lawfit import NotIdentified
from lawfit.calibration.features import FEATURES, LOGIT_CAP, columns, draft_logit, usable
from lawfit.calibration.nodes import NodeTable


def test_the_draft_logit_inverts_the_logistic_and_is_held_at_certainty() -> None:
    z = np.array([-8.0, -1.0, 0.0, 3.0, 11.0])
    assert draft_logit(-np.log1p(np.exp(-z))) == pytest.approx(z)
    assert draft_logit(np.array([0.0, 1e-9, -1e-300, -np.inf])).tolist() == [LOGIT_CAP] * 3 + [-LOGIT_CAP]


def test_no_feature_reads_what_exists_only_after_verification(nodes: NodeTable) -> None:
    blind = NodeTable(nodes.frame.with_columns(accepted=~pl.col("accepted"), reached=False))
    names = usable(nodes)
    assert (columns(nodes, names) == columns(blind, names)).all()


def test_usable_features_are_known_everywhere_and_vary(nodes: NodeTable) -> None:
    assert usable(nodes) == ("confidence", "first", "first_confidence", "offset", "prev_entropy")
    with pytest.raises(NotIdentified, match="nodes have no draft_entropy; leave it out"):
        columns(nodes, ("confidence", "draft_entropy"))


def test_every_feature_is_a_column_of_numbers(nodes: NodeTable) -> None:
    known = NodeTable(nodes.frame.with_columns(draft_entropy=pl.lit(0.5)))
    table = columns(known, tuple(FEATURES))
    assert table.shape == (len(nodes), len(FEATURES))
    assert np.isfinite(table).all()
