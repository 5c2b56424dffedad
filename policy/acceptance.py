"""Acceptance estimates: the law on what is known before verification."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np
import polars as pl

from lawfit.errors import LawfitError, NotIdentified
from lawfit.log import RoundLog

from policy.candidates import Candidates
from policy.tree import FloatArray

# A draft probability of exactly 1 (or 0) has an infinite logit; beyond this the count behind it cannot tell.
_LOGIT_CAP = 12.0


@dataclass(frozen=True)
class Acceptance:
    """Conditional acceptance of a draft token given that its parent was accepted.

    The affine-logit law (GLANCE Eq. 2) on the entropy that is known before verification, with a term for the draft's
    own confidence and a change of level and slope beyond the first offset, where that entropy is older::

        logit p = b0 - b1 * H_prev + b2 * logit(draft_prob)            at offset 1
        logit p = b0 + c0 - (b1 + c1) * H_prev + b2 * logit(draft_prob)  beyond

    Root entropy of the coming round cannot enter: it does not exist yet.

    Attributes
    ----------
    b0, b1, b2, c0, c1
        Coefficients; entropies in nats.
    """

    b0: float
    b1: float
    b2: float
    c0: float = 0.0
    c1: float = 0.0

    def __post_init__(self) -> None:
        """Refuse coefficients that are no numbers."""
        for name, value in asdict(self).items():
            if not np.isfinite(value):
                raise LawfitError(f"acceptance: {name} is {value}, expected a finite number")

    @classmethod
    def fit(cls, log: RoundLog) -> Acceptance:
        """Fit by maximum likelihood on the offsets of the top-1 path that each round reached.

        A round with ``spine_len`` s gives s continuations and, unless the path ended there or the request did, one
        miss: the shared survival likelihood, offset by offset, so that the draft's confidence may differ by offset.

        Raises
        ------
        NotIdentified
            No round has ``prev_entropy``, ``draft_logprobs`` and ``spine_len``, or they do not identify the law.
        """
        offsets = _offsets(log)
        if offsets.is_empty():
            raise NotIdentified(
                f"{log.source}: no round holds prev_entropy, draft_logprobs and spine_len together; "
                "the adaptive policy is fitted on a log that lawfit's own engine recorded"
            )
        entropy = offsets["prev_entropy"].to_numpy()
        deeper = (offsets["offset"].to_numpy() > 1).astype(np.float64)
        design = _design(entropy, offsets["draft_logprobs"].to_numpy(), deeper)
        from lawfit.logistic import fit_logistic

        fit = fit_logistic(
            design,
            successes=offsets["accepted"].to_numpy().astype(np.float64),
            trials=np.ones(len(offsets)),
            weight=offsets["count"].to_numpy().astype(np.float64),
        )
        return cls(*(float(value) for value in fit.coef))

    def hazard(self, prev_entropy: float, log_prob: FloatArray, depth: FloatArray) -> FloatArray:
        """Probability that a top-1 draft token is accepted, its parent being accepted.

        Parameters
        ----------
        prev_entropy
            Entropy of the row that produced the root, nats.
        log_prob, depth : (M,)
            Log draft probability and 1-based offset of each token.
        """
        entropy = np.full(len(log_prob), prev_entropy)
        coef = np.array([self.b0, self.b1, self.b2, self.c0, self.c1])
        logit = _design(entropy, log_prob, (depth > 1).astype(np.float64)) @ coef
        return 1.0 / (1.0 + np.exp(-logit))

    def calibrate(self, candidates: Candidates, prev_entropy: float) -> Candidates:
        """Replace draft probabilities by acceptance probabilities.

        The best child of a node takes the law's hazard h; its siblings share the rest in proportion to the draft's
        own probabilities: (1 - h) * q_k / (1 - q_1). So siblings stay coherent (their sum is at most 1), and path
        values never rise from parent to child.
        """
        if candidates.count == 0:
            return candidates
        top = np.flatnonzero(candidates.is_top)
        hazard = self.hazard(prev_entropy, candidates.log_prob[top], candidates.depth[top])
        hazard = np.clip(hazard, 1e-9, 1.0 - 1e-9)
        # Scale of the siblings below each parent, indexed by the parent.
        scale = np.zeros(len(candidates.tokens))
        scale[candidates.parent[top]] = (1.0 - hazard) / np.maximum(-np.expm1(candidates.log_prob[top]), 1e-12)
        accepted = np.exp(candidates.log_prob) * scale[candidates.parent]
        accepted[top] = hazard
        log_prob = np.log(np.clip(accepted, 1e-300, 1.0))
        log_prob[0] = 0.0
        return Candidates(candidates.tokens, candidates.parent, log_prob, candidates.confidence, candidates.passes)

    def to_json(self) -> str:
        """Serialise the coefficients."""
        return json.dumps({"acceptance": 1, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Acceptance:
        """Read what `to_json` wrote.

        Raises
        ------
        LawfitError
            The text is not an acceptance law of version 1.
        """
        try:
            values = json.loads(text)
            if values.pop("acceptance") != 1:
                raise ValueError("version")
            return cls(**{name: float(value) for name, value in values.items()})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise LawfitError(f"not an acceptance law of version 1 ({type(error).__name__}: {error})") from error


def _design(entropy: FloatArray, log_prob: FloatArray, deeper: FloatArray) -> FloatArray:
    """Columns of b0, b1, b2, c0, c1 for each offset."""
    with np.errstate(divide="ignore"):
        logit = log_prob - np.log(-np.expm1(np.minimum(log_prob, 0.0)))
    logit = np.clip(logit, -_LOGIT_CAP, _LOGIT_CAP)
    return np.column_stack([np.ones_like(entropy), -entropy, logit, deeper, -entropy * deeper])


def _offsets(log: RoundLog) -> pl.DataFrame:
    """List every offset of the top-1 path that verification reached, with its outcome."""
    known = pl.all_horizontal(pl.col("prev_entropy", "draft_logprobs", "spine_len").is_not_null())
    rounds = log.frame.lazy().filter(known).select(
        "prev_entropy", "draft_logprobs", "spine_len", "accept_len", "count", pl.col("truncated").fill_null(False)
    )
    cut = pl.col("truncated") & (pl.col("spine_len") == pl.col("accept_len"))
    reached = pl.col("spine_len") + (~cut).cast(pl.Int64)
    return (
        rounds.with_columns(
            reached.alias("reached"), pl.int_ranges(1, pl.col("draft_logprobs").list.len() + 1).alias("offset")
        )
        .explode("draft_logprobs", "offset")
        .filter(pl.col("offset") <= pl.col("reached"))
        .with_columns((pl.col("offset") <= pl.col("spine_len")).alias("accepted"))
        .collect()
    )
