"""The self-check of a target: the rows of a tree must be the model's own rows, behind text and behind an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from policy.tree import DraftTree
from runtime.errors import TargetError
from runtime.image import Image
from runtime.pack import pack

if TYPE_CHECKING:
    from runtime.target import Target

# Largest difference of logits that rounding explains, as a share of the largest logit.
_ROUNDING = {"fp32": 2e-3, "bf16": 8e-2}


def check_rows(target: Target) -> None:
    """Compare a prefill and a branched tree with the model's own plain passes, before and after a commit.

    Families differ in how they read masks, positions and windows; one that does not honour ours would give wrong text
    without an error. Some plain passes over a few dozen random tokens tell; a target that takes images is checked
    behind an image of noise as well.

    Raises
    ------
    TargetError
        The rows differ by more than rounding, are not finite, or the model cannot run such a pass.
    """
    try:
        rows = _differences(target)
    except TargetError:
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise TargetError(f"{target.name}: cannot verify draft trees on this model ({reason[:160]})") from error
    limit = _ROUNDING.get(target.dtype, _ROUNDING["bf16"])
    # In low precision a router may choose otherwise for the row of a near-tie, which moves that row far; a mask or a
    # position that is not honoured moves most rows.
    worst = float(np.median(rows) if target.dtype != "fp32" and _has_experts(target) else max(rows))
    if not worst <= limit:
        raise TargetError(
            f"{target.name}: its rows in a draft tree differ from its own by {worst:.2g} of the largest logit "
            f"(rounding explains {limit:g}): this kind of model does not honour tree masks or positions, "
            "so it is not supported"
        )


def _differences(target: Target) -> list[float]:
    """Compare behind text, and behind an image where the target takes one."""
    rng = np.random.default_rng(0)
    words = np.setdiff1d(np.arange(target.vocabulary), list(target.reserved))
    # A fork below the root and one deeper; rows are not in depth order.
    nodes = rng.choice(words, size=min(7, len(words)), replace=False)
    tree = DraftTree(nodes, np.array([-1, 0, 0, 1, 2, 2, 3])[: len(nodes)], -np.arange(float(len(nodes))))
    found = _behind(target, rng.choice(words, _length(target)).tolist(), tree, rounds=2)
    if target.vision is not None:
        tokens, image = target.vision.sample(rng, words)
        found += _behind(target, tokens, tree, rounds=1, image=image)
    return found


def _behind(target: Target, text: list[int], tree: DraftTree, rounds: int, image: Image | None = None) -> list[float]:
    """Compare a prefill and trees behind it, the second behind what is kept of the first: a difference for each row."""
    cache = target.new_cache(len(text) + 4 * tree.rows)
    found = _by_row(target.prefill(text, cache, image=image).logits[-1:], _own(target, text, image)[-1:])
    for _ in range(rounds):
        rows = target.verify(pack(tree, cache.committed, target.device), cache).logits
        for leaf in tree.paths:
            own = _own(target, [*text, *tree.tokens[leaf].tolist()], image)[len(text) :]
            found += _by_row(rows[torch.as_tensor(leaf)], own)
        # Go on behind the last path: its rows must have been kept, and only they.
        cache.commit(tree.paths[-1].tolist())
        text = [*text, *tree.tokens[tree.paths[-1]].tolist()]
    return found


def _has_experts(target: Target) -> bool:
    names = ("num_experts", "num_local_experts", "n_routed_experts")
    return any((getattr(target.config, name, None) or 0) > 1 for name in names)


def _length(target: Target) -> int:
    """Reach beyond a sliding window where it is short enough to do so cheaply."""
    window = target.window or 0
    room = max(target.max_context - 16, 1)
    return min(24 if not 0 < window <= 256 else window + 8, room)


@torch.inference_mode()
def _own(target: Target, tokens: list[int], image: Image | None) -> torch.Tensor:
    """Logits of a plain pass of the model, without cache, mask or positions of ours."""
    seen = target.vision.plain(tokens, image) if target.vision and image else {}
    output = target.model(torch.tensor([tokens], device=target.device), use_cache=False, **seen)
    return output.logits[0].float()


def _by_row(ours: torch.Tensor, own: torch.Tensor) -> list[float]:
    """Largest difference in each row of logits (R, V), as a share of the largest logit."""
    if not (torch.isfinite(ours).all() and torch.isfinite(own).all()):
        raise TargetError("the model's logits are not finite, expected numbers: its weights may be damaged")
    return list(((ours - own).abs().amax(1) / own.abs().max().clamp_min(1e-6)).tolist())
