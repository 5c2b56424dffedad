"""Acceptance estimates: the law on what is known before verification."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np
import polars as pl

from lawfit.errors import LawfitError, NotIdentified
from lawfit.log import RoundLog
from lawfit.logistic import fit_logistic
from lawfit.survival import expit
from policy.candidates import Candidates
from policy.history import History
from policy.tree import FloatArray, IntArray

# A draft probability of exactly 1 (or 0) has an infinite logit; beyond this the count behind it cannot tell.
_LOGIT_CAP = 12.0


@dataclass(frozen=True)
class OffsetLaw:
    """An affine logit on what is known before verification.

    ``logit p = b0 - b1 * H_prev + b2 * logit(draft_prob) + b3 * run_logit``

    Attributes
    ----------
    b0, b1
        Intercept and entropy slope, as in GLANCE Eq. 2, on the entropy of the row that produced the root, nats.
    b2, b3
        Slopes of the draft's own confidence and of the request's history (`policy.history.History.run_logit`).
    """

    b0: float
    b1: float
    b2: float
    b3: float = 0.0

    def __post_init__(self) -> None:
        """Refuse coefficients that are no numbers."""
        for name, value in asdict(self).items():
            if not np.isfinite(value):
                raise LawfitError(f"acceptance: {name} is {value}, expected a finite number")


@dataclass(frozen=True)
class Acceptance:
    """Conditional acceptance of a draft token given that its parent was accepted.

    The affine-logit law on what is known before verification, once for the first offset and once for those beyond it:
    there the entropy known before is older, and a token that follows accepted ones is of another kind. The root entropy
    of the coming round cannot enter: it does not exist yet.

    Attributes
    ----------
    first, beyond
        Laws at offset 1 and at later offsets.
    """

    first: OffsetLaw
    beyond: OffsetLaw

    @classmethod
    def fit(cls, log: RoundLog) -> Acceptance:
        """Fit on the offsets of the top-1 path that each round reached, by likelihood with a weak prior.

        A round with ``spine_len`` s gives s continuations and, unless the path ended there or the request did, one
        miss: the shared survival likelihood, offset by offset, so that the draft's confidence may differ by offset.

        Raises
        ------
        NotIdentified
            No round has ``prev_entropy``, ``draft_logprobs`` and ``spine_len``, or none was verified beyond offset 1.
        """
        offsets = _offsets(log)
        if offsets.is_empty():
            raise NotIdentified(
                f"{log.source}: no round holds prev_entropy, draft_logprobs and spine_len together; "
                "the adaptive policy is fitted on a log that lawfit's own engine recorded"
            )
        first = pl.col("offset") == 1
        laws = {"first": offsets.filter(first), "beyond": offsets.filter(~first)}
        return cls(**{name: _fit_law(rows, f"{log.source}: acceptance {name}") for name, rows in laws.items()})

    def hazard(self, log_prob: FloatArray, depth: IntArray, prev_entropy: float, run_logit: float = 0.0) -> FloatArray:
        """Probability that a top-1 draft token is accepted, its parent being accepted.

        Parameters
        ----------
        log_prob, depth : (M,)
            Log draft probability and 1-based offset of each token.
        prev_entropy
            Entropy of the row that produced the root, nats.
        run_logit
            The request's history.
        """
        design = _design(np.full(len(log_prob), prev_entropy), log_prob, np.full(len(log_prob), run_logit))
        first, beyond = (design @ np.array([law.b0, law.b1, law.b2, law.b3]) for law in (self.first, self.beyond))
        return np.asarray(expit(np.where(depth > 1, beyond, first)))

    def calibrate(self, candidates: Candidates, prev_entropy: float, run_logit: float = 0.0) -> Candidates:
        """Replace draft probabilities by acceptance probabilities.

        The best child of a node takes the law's hazard h; its siblings share the rest in proportion to the draft's
        own probabilities: (1 - h) * q_k / (1 - q_1). So siblings stay coherent (their sum is at most 1), and path
        values never rise from parent to child.
        """
        if candidates.count == 0:
            return candidates
        top = np.flatnonzero(candidates.is_top)
        hazard = self.hazard(candidates.log_prob[top], candidates.depth[top], prev_entropy, run_logit)
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
        return json.dumps({"acceptance": VERSION, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Acceptance:
        """Read what `to_json` wrote.

        Raises
        ------
        LawfitError
            The text is not an acceptance law of this version.
        """
        try:
            values = json.loads(text)
            if values.pop("acceptance") != VERSION:
                raise ValueError("version")
            if any(type(b) not in (int, float) for law in values.values() for b in law.values()):
                raise TypeError("expected numbers")
            laws = {name: OffsetLaw(**{key: float(b) for key, b in law.items()}) for name, law in values.items()}
            return cls(**laws)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise LawfitError(
                f"not an acceptance law of version {VERSION} ({type(error).__name__}: {error})"
            ) from error


VERSION = 1


def _fit_law(offsets: pl.DataFrame, where: str) -> OffsetLaw:
    """Fit one law, each coefficient with a log-F(1, 1) prior (Greenland and Mansournia 2015).

    The prior is half a success and half a failure at one unit of each feature: nothing against a real log, and enough
    to keep a short or one-sided one from an estimate at infinity.
    """
    if offsets.is_empty():
        raise NotIdentified(f"{where}: no draft was verified there")
    columns = (offsets[name].to_numpy() for name in ("prev_entropy", "draft_logprobs", "run_logit"))
    design = _design(*columns)
    prior = np.eye(design.shape[1])
    fit = fit_logistic(
        np.vstack([design, prior]),
        successes=np.append(offsets["accepted"].to_numpy().astype(np.float64), np.full(len(prior), 0.5)),
        trials=np.ones(len(design) + len(prior)),
        weight=np.append(offsets["count"].to_numpy().astype(np.float64), np.ones(len(prior))),
    )
    return OffsetLaw(*(float(value) for value in fit.coef))


def _design(entropy: FloatArray, log_prob: FloatArray, run_logit: FloatArray) -> FloatArray:
    """Columns of b0, b1, b2, b3 for each offset."""
    with np.errstate(divide="ignore"):
        logit = log_prob - np.log(-np.expm1(np.minimum(log_prob, 0.0)))
    logit = np.clip(logit, -_LOGIT_CAP, _LOGIT_CAP)
    return np.stack([np.ones_like(entropy), -entropy, logit, run_logit]).T


def _offsets(log: RoundLog) -> pl.DataFrame:
    """List every offset of the top-1 path that verification reached, with its outcome."""
    drafted = pl.col("draft_logprobs").list.len() > 0
    known = pl.all_horizontal(pl.col("prev_entropy", "draft_logprobs", "spine_len").is_not_null())
    rounds = log.frame.filter(known & drafted).with_columns(pl.col("truncated").fill_null(False))
    cut = pl.col("truncated") & (pl.col("spine_len") == pl.col("accept_len"))
    length = pl.col("draft_logprobs").list.len()
    rounds = rounds.with_columns(
        pl.min_horizontal(pl.col("spine_len") + (~cut).cast(pl.Int64), length).alias("reached")
    )
    return (
        rounds.with_columns(_run_logits(rounds), pl.int_ranges(1, length + 1).alias("offset"))
        .select("prev_entropy", "draft_logprobs", "offset", "run_logit", "spine_len", "reached", "count")
        .explode("draft_logprobs", "offset")
        .filter(pl.col("offset") <= pl.col("reached"))
        .with_columns((pl.col("offset") <= pl.col("spine_len")).alias("accepted"))
    )


def _run_logits(rounds: pl.DataFrame) -> pl.Series:
    """Replay every request's history: what each round knew of the rounds before it."""
    past: dict[tuple[str | None, ...], History] = {}
    logits = np.empty(len(rounds))
    order = np.argsort(rounds["round"].fill_null(0).to_numpy(), kind="stable").tolist()
    keys = list(rounds.select("run_id", "request_id", "prompt_id").iter_rows())
    run, reached = rounds["spine_len"].to_list(), rounds["reached"].to_list()
    for at in order:
        history = past.get(keys[at], History())
        logits[at] = history.run_logit
        past[keys[at]] = history.after(run[at], reached[at] > run[at])
    return pl.Series("run_logit", logits)
