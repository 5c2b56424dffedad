"""Random trees: a drafter that must never change the output, whatever it offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policy.candidates import Candidates
from runtime.drafters import Stateless


@dataclass(frozen=True)
class RandomDrafter(Stateless):
    """Offers random tries, for audits.

    With ``oracle`` (the target's own output, prompt included) a share of the nodes carries the true next token, so
    that paths of every length are accepted on any branch.

    Attributes
    ----------
    vocabulary
        Tokens are drawn below it.
    seed
        With the length of the context it determines the offer.
    """

    vocabulary: int
    seed: int = 0
    max_nodes: int = 24
    oracle: tuple[int, ...] = ()
    name: str = "random"

    def propose(self, tokens: Sequence[int], prompt_len: int, max_depth: int) -> Candidates:
        """Offer a random trie of random size, at most ``max_depth`` deep."""
        rng = np.random.default_rng((self.seed, len(tokens)))
        nodes, parents, depths = [int(tokens[-1])], [-1], [0]
        true_node = [True]
        taken: set[tuple[int, int]] = set()
        for _ in range(int(rng.integers(0, self.max_nodes + 1))):
            parent = int(rng.integers(0, len(nodes)))
            truth = len(tokens) + depths[parent]
            honest = true_node[parent] and truth < len(self.oracle) and rng.random() < 0.6
            token = self.oracle[truth] if honest else int(rng.integers(0, self.vocabulary))
            if depths[parent] >= max_depth or (parent, token) in taken:
                continue
            taken.add((parent, token))
            nodes.append(token)
            parents.append(parent)
            depths.append(depths[parent] + 1)
            true_node.append(true_node[parent] and truth < len(self.oracle) and token == self.oracle[truth])
        parent = np.array(parents)
        siblings = np.bincount(parent[1:], minlength=len(nodes)) if len(nodes) > 1 else np.ones(1)
        log_prob = np.where(parent < 0, 0.0, -np.log(np.maximum(siblings, 1))[parent] - rng.random(len(nodes)))
        log_prob[0] = 0.0
        return Candidates(np.array(nodes), parent, log_prob)
