"""Drafters by name, as commands take them."""

from __future__ import annotations

from pathlib import Path

from policy.match_weights import MatchWeights
from runtime.drafters import Drafter
from runtime.drafters.conditioned import Conditioned, bank_of
from runtime.drafters.mixed import MixedDrafter
from runtime.drafters.ngram import NgramDrafter
from runtime.drafters.none import NoDrafter
from runtime.drafters.random import RandomDrafter
from runtime.drafters.two_model import TwoModelDrafter
from runtime.errors import TargetError
from runtime.heads.files import LOOKUP, load_head
from runtime.heads.trie import Expansion
from runtime.target import Target

NAMES = "ngram, random, none, a head's folder, HEAD+ngram, HEAD@zeroed, HEAD@swapped, or two-model:FOLDER"
# Whose states a swapped head reads: any text that no prompt is about.
_OTHER = "The quick brown fox jumps over the lazy dog, and nobody in the village minds. " * 3


def make_drafter(name: str, target: Target) -> Drafter:
    """Make a drafter for a target.

    Parameters
    ----------
    name
        ``ngram``, ``random``, ``none``, a head's folder, such a folder with ``+ngram`` (mixed with lookup by the length
        of the match), with ``@zeroed`` or ``@swapped`` (it reads zeros, or the states of another text: the paper's
        ablation), or ``two-model:`` and the folder of a smaller model of the same vocabulary.

    Raises
    ------
    TargetError
        The name means nothing.
    ManifestMismatch
        A head, or a smaller model, does not belong to the target.
    """
    simple = {"ngram": NgramDrafter, "none": NoDrafter}
    if name in simple:
        return simple[name]()
    if name == "random":
        return RandomDrafter(target.vocabulary)
    if name.startswith("two-model:"):
        small = Target.load(Path(name.removeprefix("two-model:")), target.dtype, str(target.device))
        return TwoModelDrafter(small, Expansion()).require(target)
    for how in ("zeroed", "swapped"):
        if name.endswith(f"@{how}"):
            head = make_drafter(name.removesuffix(f"@{how}"), target)
            bank = bank_of(target, target.encode(_OTHER), head) if how == "swapped" else None
            return Conditioned(head, how, bank)
    folder = Path(base := name.removesuffix("+ngram"))
    if not base or not folder.is_dir():
        raise TargetError(f"drafter {name!r}, expected {NAMES}")
    head = load_head(folder, target)
    if not name.endswith("+ngram"):
        return head
    path = folder / LOOKUP
    if not path.is_file():
        raise TargetError(f"{path}: no such file, expected the weights of a lookup beside this head")
    return MixedDrafter(NgramDrafter(), head, MatchWeights.from_json(path.read_text(encoding="utf-8"), str(path)))
