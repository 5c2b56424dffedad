"""Recipes by name: what each head is, what it reads, and how it is trained."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from runtime.errors import TrainingError
from runtime.frozen import Frozen
from runtime.heads.block import BlockConfig, DiffusionBlock, FeatureBlock
from runtime.heads.drafter import Head
from runtime.heads.eagle import EagleConfig, EagleHead
from runtime.heads.eagle3 import Eagle3Config, Eagle3Head
from runtime.heads.layers import Shape
from runtime.heads.medusa import MedusaConfig, MedusaHeads
from runtime.states import FeatureAddress
from runtime.target import Target
from runtime.training.batches import Batch
from runtime.training.blocks import BlockRecipe, block_loss
from runtime.training.unroll import PassLoss, UnrollRecipe, unrolled_losses

Part = tuple[Tensor, dict[str, float]]


@dataclass(frozen=True)
class Recipe:
    """A named way to a head.

    Attributes
    ----------
    kind
        Of the head: eagle, eagle3, feature-block, diffusion-block, medusa.
    objective
        How it is trained.
    taps
        Places of the tapped layers in the stack, as shares of its depth; none where only the final state is read.
    final
        Whether the final state is read.
    align_from
        Share of the steps before an unrolled head's passes begin; one pass until then.
    learning_rate
        At the top of the schedule.
    layers, link
        Layers of a block head, and hidden width of the link between its offsets; 0 for none.
    own_head
        Whether EAGLE-3 trains an output head of its own, started from the target's.
    """

    kind: str
    objective: UnrollRecipe | BlockRecipe = field(default_factory=UnrollRecipe)
    taps: tuple[float, ...] = ()
    final: str = "post-norm"
    align_from: float = 0.0
    learning_rate: float = 1e-3
    layers: int = 1
    link: int = 0
    own_head: bool = False

    def reads(self, layers: int) -> FeatureAddress:
        """Address its states in a target of so many layers."""
        return FeatureAddress(tuple(max(1, min(layers - 1, round(share * layers))) for share in self.taps), self.final)

    def head(self, target: Target, words: Tensor, theta: float, seed: int) -> Head:
        """Make the untrained head for a target; ``words`` are its draft vocabulary."""
        torch.manual_seed(seed)
        shape = target_shape(target, theta)
        taps = len(self.taps)
        if self.kind == "eagle":
            return EagleHead(EagleConfig(shape))
        if self.kind == "feature-block":
            return FeatureBlock(BlockConfig(shape, self.layers, taps=taps, link=self.link))
        if self.kind == "diffusion-block":
            return DiffusionBlock(BlockConfig(shape, self.layers, taps=taps))
        if self.kind == "medusa":
            return MedusaHeads(MedusaConfig(shape.hidden))
        head = Eagle3Head(Eagle3Config(shape, taps, tap_norm=True, words=len(words) if self.own_head else 0))
        if self.own_head:
            with torch.no_grad():
                head.lm_head.weight.copy_(Frozen.of(target, words).head)
        return head

    def losses(
        self, head: Any, batch: Batch, frozen: Frozen, generator: torch.Generator, done: float
    ) -> Iterable[Part]:
        """Yield the losses of one batch at a ``done`` share of the steps, and what is watched of each."""
        if isinstance(self.objective, BlockRecipe):
            loss = block_loss(head, batch, frozen, self.objective, generator)
            if loss is not None:
                offsets = {f"accuracy@{j}": value for j, value in enumerate(loss.accuracy, 1)}
                watched = {"feature": loss.feature, "token": loss.token, "recall": loss.recall, "norm": loss.norm}
                yield loss.total, watched | offsets
            return
        passes = self.objective.passes if done >= self.align_from else 1
        for part in unrolled_losses(head, batch, frozen, replace(self.objective, passes=passes), generator):
            yield part.total, _watched(part)


def target_shape(target: Target, theta: float) -> Shape:
    """Size a head's layers as the target's own; its key-value heads, and rotary positions of base ``theta``."""
    config = target.config
    heads = int(config.num_attention_heads)
    return Shape(
        int(config.hidden_size),
        heads,
        int(getattr(config, "num_key_value_heads", None) or heads),
        int(config.intermediate_size),
        theta,
        head_width=int(getattr(config, "head_dim", None) or 0),
    )


def _watched(part: PassLoss) -> dict[str, float]:
    return {
        "feature": part.feature,
        "token": part.token,
        "accuracy": part.accuracy,
        "recall": part.recall,
        "norm": part.norm,
    }


_LOW_MID_HIGH = (2 / 30, 15 / 30, 28 / 30)
_SPREAD = (2 / 30, 8 / 30, 15 / 30, 22 / 30, 28 / 30)

# What one cache of states holds, so that every recipe finds its own in it.
SHARED_TAPS = Recipe("feature-block", taps=_SPREAD)

RECIPES: MappingProxyType[str, Recipe] = MappingProxyType(
    {
        "eagle1": Recipe("eagle"),
        # As the paper: both losses weigh 1, all passes from the start.
        "hass-paper": Recipe("eagle", UnrollRecipe(passes=3, distill="top-k", token_weight=1.0, noise="none")),
        # Begins from a trained eagle1 head (--from), with half its step size.
        "hass": Recipe("eagle", UnrollRecipe(passes=3, distill="top-k", noise="none"), learning_rate=5e-4),
        "eagle3": Recipe(
            "eagle3",
            UnrollRecipe(passes=7, feature_weight=0.0, token_weight=1.0, decay=0.8, through=True, noise="none"),
            taps=_LOW_MID_HIGH,
            final="none",
            align_from=0.6,
            own_head=True,
        ),
        # As the pinned code: seven passes from the start, and the target's own output head.
        "eagle3-paper": Recipe(
            "eagle3",
            UnrollRecipe(passes=7, feature_weight=0.0, token_weight=1.0, decay=0.8, through=True, noise="none"),
            taps=_LOW_MID_HIGH,
            final="none",
        ),
        "glance": Recipe(
            "feature-block",
            BlockRecipe(token_weight=0.3, feature_weight=0.5),
            taps=_SPREAD,
            layers=2,
            link=576,
        ),
        "glance-paper": Recipe("diffusion-block", BlockRecipe(reveal=0.5), taps=_SPREAD, final="none", layers=3),
        "medusa": Recipe("medusa", BlockRecipe(anchors=32)),
    }
)


def find_recipe(name: str) -> Recipe:
    """Look a recipe up.

    Raises
    ------
    TrainingError
        There is none of this name.
    """
    if name not in RECIPES:
        raise TrainingError(f"recipe {name!r}, expected {', '.join(RECIPES)}")
    return RECIPES[name]
