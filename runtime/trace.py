"""Tracing: draft from every position of the target's own output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from policy.build import best_first
from policy.candidates import Candidates
from policy.controller import FixedBudget
from policy.tree import DraftTree
from runtime.drafters import Drafter
from runtime.engine import Engine
from runtime.round import draft_columns
from runtime.sampling import Sampling
from runtime.target import Target


def trace_request(
    target: Target, drafter: Drafter, prompt: Sequence[int], max_new_tokens: int, sampling: Sampling | None = None
) -> list[dict[str, Any]]:
    """Decode ``prompt`` plainly, greedily or by keyed draws, and draft behind every output token but the last.

    Returns
    -------
    list of dict
        One row of `lawfit.trace.Trace` per position: the token there is the root, and what follows it in the output
        decides which candidates are accepted. A run that reaches the end of the output is truncated.
    """
    engine = Engine(target, drafter, FixedBudget(0), sampling or Sampling())
    request = engine.start(prompt, max_new_tokens)
    rounds = list(engine.rounds(request))
    rows = []
    for plain in rounds:
        tree = best_first(plain.candidates, plain.candidates.root, drafter.max_nodes)
        where = {
            "round": plain.number,
            "position": plain.position,
            "context_len": plain.context_len,
            "root_entropy": plain.root_entropy,
            "prev_entropy": plain.prev_entropy,
        }
        rows.append({**where, **trace_columns(plain.candidates, tree, request.output[plain.position + 1 :])})
    return rows


def trace_columns(candidates: Candidates, tree: DraftTree, future: Sequence[int]) -> dict[str, Any]:
    """Score one draft against the target's own continuation ``future`` (at least one token)."""
    path: list[int] = []
    for token in future:
        child = tree.children[path[-1] if path else 0].get(token)
        if child is None:
            break
        path.append(child)
    on_path = np.isin(np.arange(1, tree.rows), path)
    return {
        **draft_columns(candidates, tree, path),
        "truncated": len(path) == len(future),
        "origin": "trace",
        "parent": tree.parent[1:].tolist(),
        "depth": tree.depth[1:].tolist(),
        "rank": _sibling_ranks(tree),
        "draft_logprob": (tree.log_score[1:] - tree.log_score[tree.parent[1:]]).tolist(),
        "on_path": on_path.tolist(),
    }


def _sibling_ranks(tree: DraftTree) -> list[int]:
    """0-based order of every node among its siblings."""
    seen = [0] * tree.rows
    ranks = []
    for parent in tree.parent[1:].tolist():
        ranks.append(seen[parent])
        seen[parent] += 1
    return ranks
