"""Linear layers whose weights are laid out for few rows, so that verifying a tree costs little more than one token.

A general matrix product lays its weights out anew at every call, which at 2 to 32 rows costs more than the product
itself. oneDNN keeps a layout that is made once. Only fp32 on a CPU gains: bf16 kernels bring their own layout.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

# Rows that the layout is made for; measured equally good from 2 to 200 rows.
_ROWS = 16


class PackedLinear(nn.Linear):
    """A frozen linear layer that also holds its weight in oneDNN's layout."""

    packed: torch.Tensor

    @classmethod
    def wrap(cls, linear: nn.Linear) -> PackedLinear:
        """Take over the parameters of ``linear`` and lay out its weight."""
        twin = cls.__new__(cls)
        nn.Module.__init__(twin)
        twin.in_features, twin.out_features = linear.in_features, linear.out_features
        twin.weight, twin.bias = linear.weight, linear.bias
        with torch.no_grad():
            twin.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), _ROWS)
        return twin

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Multiply (..., in) to (..., out)."""
        return torch.ops.mkldnn._linear_pointwise(input, self.packed, self.bias, "none", [], "")  # type: ignore[no-any-return]


def pack_weights(model: Any) -> bool:
    """Replace the linear layers of a frozen fp32 CPU model; return whether this torch can.

    The results differ from the plain layers' by rounding only, and one request uses one kind throughout.
    """
    usable = hasattr(torch.ops.mkldnn, "_linear_pointwise") and torch.backends.mkldnn.is_available()
    if not usable or model.device.type != "cpu" or model.dtype != torch.float32:
        return False
    try:
        wrapped = {
            name: PackedLinear.wrap(module) for name, module in model.named_modules() if type(module) is nn.Linear
        }
    except RuntimeError:
        return False
    for name, module in wrapped.items():
        model.set_submodule(name, module)
    return True
