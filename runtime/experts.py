"""Which experts a pass touches: the rows of a tree share their experts' weights only where their routers agree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from lawfit.arrays import Ints
from runtime.errors import TargetError
from runtime.target import Target


@dataclass(frozen=True, eq=False)
class ExpertUse:
    """The routers' choices in one pass of a mixture of experts.

    Attributes
    ----------
    layers
        The decoder layers that have experts.
    experts
        Experts in each of them.
    chosen : (layers, rows, k) int
        The k experts of every row.
    """

    layers: tuple[int, ...]
    experts: int
    chosen: Ints

    @property
    def rows(self) -> int:
        """Rows of the pass: of a verify pass, the root and its candidate nodes."""
        return int(self.chosen.shape[1])

    @property
    def union(self) -> tuple[int, ...]:
        """Distinct experts touched in each layer: E_verify, the size of a union over candidate nodes (seed 000, 0x09A).

        Their weights are what the pass has to read.
        """
        return tuple(len(np.unique(layer)) for layer in self.chosen)

    @property
    def total(self) -> int:
        """Distinct experts touched, summed over layers."""
        return sum(self.union)

    @property
    def mean(self) -> float:
        """Distinct experts touched per layer."""
        return self.total / len(self.layers)

    def at(self, budget: int) -> ExpertUse:
        """Give the use of the same pass at a smaller budget: rows are best-first, so a budget is a slice."""
        if not 0 <= budget < self.rows:
            raise TargetError(f"budget {budget} of a pass over {self.rows} rows, expected 0 to {self.rows - 1}")
        return ExpertUse(self.layers, self.experts, self.chosen[:, : budget + 1])


@contextmanager
def experts_touched(target: Target) -> Iterator[list[ExpertUse]]:
    """Record the experts of every pass inside the block; outside of it nothing is watched, and nothing costs.

    Yields
    ------
    list of ExpertUse
        Grows by one entry with every pass of the target: around `Engine.rounds`, one for each round.

    Raises
    ------
    TargetError
        The target has no experts, or its routers do not tell their choices.
    """
    routers = _routers(target.model)
    if not routers:
        raise TargetError(f"{target.name}: no routers found, expected a mixture of experts")
    uses, chosen = list[ExpertUse](), dict[int, Ints]()

    def note(layer: int) -> Any:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            chosen[layer] = _choices(output, target.name)

        return hook

    def close(module: nn.Module, inputs: Any, output: Any) -> None:
        layers = tuple(sorted(chosen))
        uses.append(ExpertUse(layers, experts, np.stack([chosen[layer] for layer in layers])))
        chosen.clear()

    experts = int(next(iter(routers.values())).num_experts)
    hooks = [router.register_forward_hook(note(layer)) for layer, router in routers.items()]
    hooks.append(target.model.register_forward_hook(close))
    try:
        yield uses
    finally:
        for hook in hooks:
            hook.remove()


def _routers(model: nn.Module) -> dict[int, Any]:
    """Find the router of every layer that has experts, by what transformers itself records router logits of."""
    kinds = set[type]()
    for module in model.modules():
        recorded = getattr(type(module), "_can_record_outputs", None) or {}
        router = getattr(recorded.get("router_logits"), "target_class", None)
        kinds |= {router} if router else set()
    found = {}
    for name, module in model.named_modules():
        place = re.search(r"layers\.(\d+)\.", name)
        if place and type(module) in kinds and hasattr(module, "num_experts"):
            found[int(place[1])] = module
    return dict(sorted(found.items()))


def _choices(output: Any, source: str) -> Ints:
    """Take the chosen experts (rows, k) from what a router returned: its logits, the weights, and these."""
    chosen = output[2] if isinstance(output, tuple) and len(output) == 3 else None
    if not isinstance(chosen, torch.Tensor) or chosen.ndim != 2 or chosen.is_floating_point():
        raise TargetError(f"{source}: its routers do not return their choices, expected logits, weights and indices")
    return chosen.cpu().numpy()
