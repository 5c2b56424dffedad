"""Training rows of a feature drafter: which addresses are legal is planned before anything is gathered."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from runtime.errors import TrainingError


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of packed segments, each with where it came from.

    Row r stands at source (batch, place) t: it reads the feature f_t and the token x_{t+1}, and is to give f_{t+1}.

    Attributes
    ----------
    batch, source
        (R,) address of the source.
    segment, position
        (R,) identity of the row: rows of other segments are invisible, positions are the original ones.
    supervise
        (R,) whether the row enters the loss; the others are kept as context.
    width
        Places of a sequence, to address flat arrays.
    """

    batch: Tensor
    source: Tensor
    segment: Tensor
    position: Tensor
    supervise: Tensor
    width: int

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.source)

    def at(self, values: Tensor, ahead: int = 0) -> Tensor:
        """Gather ``values`` (B, S, ...) at ``ahead`` places after each source: (R, ...)."""
        return values[self.batch, self.source + ahead]

    def visible(self) -> Tensor:
        """Give the (R, R) mask of a causal pass over the rows: same segment, no later position."""
        same = (self.batch[:, None] == self.batch) & (self.segment[:, None] == self.segment)
        return same & (self.position[:, None] >= self.position)

    def take(self, kept: Tensor) -> Rows:
        """Keep the rows flagged in ``kept`` (R,)."""
        parts = (self.batch, self.source, self.segment, self.position, self.supervise)
        return Rows(*(part[kept] for part in parts), width=self.width)


def compile_soft_rows(valid: Tensor, segment: Tensor, position: Tensor, supervise: Tensor) -> Rows:
    r"""Plan the rows of soft distillation (seed 000, 0x02A).

    .. math:: b_t = [\mathrm{seg}(t) = \mathrm{seg}(t+1)]\, v_t v_{t+1}, \qquad m_t = b_t \ell_t

    The last teacher feature of a segment is a target, so that S tokens give S - 1 rows; x_{t+2} is never read. Rows
    with b_t but not m_t stay as context.

    Parameters
    ----------
    valid
        (B, S) whether a token and its teacher feature exist.
    segment, position
        (B, S) segment of each place, and its position in the text.
    supervise
        (B, S) supervision by source row.

    Raises
    ------
    TrainingError
        Shapes do not agree.
    """
    _require_shapes(valid, segment, position, supervise)
    legal = torch.zeros_like(valid, dtype=torch.bool)
    legal[:, :-1] = valid[:, :-1].bool() & valid[:, 1:].bool() & (segment[:, :-1] == segment[:, 1:])
    batch, source = legal.nonzero(as_tuple=True)
    return Rows(
        batch,
        source,
        segment[batch, source],
        position[batch, source],
        supervise[batch, source].bool(),
        valid.shape[1],
    )


def hard_rows(rows: Rows, valid: Tensor, segment: Tensor) -> Rows:
    r"""Withdraw supervision where the observed token x_{t+2} is missing: the hard-label alternative.

    .. math:: m^{hard}_t = m_t\, v_{t+2} [\mathrm{seg}(t+1) = \mathrm{seg}(t+2)]
    """
    inside = rows.source + 2 < rows.width
    ahead = (rows.source + 2).clamp(max=rows.width - 1)  # an address outside is invalid, and never read
    seen = inside & valid[rows.batch, ahead].bool() & (segment[rows.batch, ahead] == rows.segment)
    return Rows(rows.batch, rows.source, rows.segment, rows.position, rows.supervise & seen, rows.width)


def _require_shapes(*parts: Tensor) -> None:
    shapes = {tuple(part.shape) for part in parts}
    if len(shapes) != 1 or parts[0].ndim != 2:
        raise TrainingError(f"valid, segment, position and supervise have shapes {sorted(shapes)}, expected one (B, S)")
