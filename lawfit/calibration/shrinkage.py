r"""Empirical-Bayes shrinkage: small prompts lean on their task, small tasks on the whole.

`BetaBinomial` shrinks plain rates; `Levels` shrinks log odds beside a hazard, by task and prompt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from lawfit.arrays import Floats, Ints
from lawfit.errors import FitError, NotIdentified
from lawfit.survival import expit

# Of Gauss-Hermite quadrature: a mean of logistics to five digits.
_POINTS = 15
# Log odds beyond any fit, whose squares do not overflow.
_HUGE = 1e12


@dataclass(frozen=True)
class BetaBinomial:
    r"""Rates that differ between prompts as Beta(alpha, beta), each seen through binomial counts.

    Attributes
    ----------
    alpha, beta
        The prior's successes and failures.
    """

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        """Refuse what is no beta distribution."""
        if not (0.0 < self.alpha < math.inf and 0.0 < self.beta < math.inf):
            raise FitError(f"alpha is {self.alpha} and beta {self.beta}, expected finite numbers above 0")

    @property
    def mean(self) -> float:
        """Mean rate over prompts."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def rho(self) -> float:
        """Correlation of two trials of one prompt, 1 / (alpha + beta + 1)."""
        return 1.0 / (self.alpha + self.beta + 1.0)

    def shrink(self, successes: ArrayLike, trials: ArrayLike) -> Floats:
        """Posterior mean of each prompt's rate, (s + alpha) / (n + alpha + beta)."""
        s, n = _counts(successes, trials)
        return np.asarray((s + self.alpha) / (n + self.alpha + self.beta))

    def interval(self, successes: ArrayLike, trials: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
        """Give the ends of the equal-tailed posterior interval of each prompt's rate."""
        from scipy.stats import beta

        s, n = _counts(successes, trials)
        tail = (1.0 - level) / 2.0
        posterior = beta(s + self.alpha, n - s + self.beta)
        return np.asarray(posterior.ppf(tail)), np.asarray(posterior.ppf(1.0 - tail))

    @classmethod
    def fit(cls, successes: ArrayLike, trials: ArrayLike) -> Self:
        """Maximise the beta-binomial likelihood of (G,) prompts' counts.

        Raises
        ------
        NotIdentified
            Fewer than two prompts with trials, only one outcome, or prompts that differ no more than chance has it: the
            likelihood then rises towards one common rate.
        """
        from scipy.optimize import minimize
        from scipy.special import betaln

        s, n = _counts(successes, trials)
        s, n = s[n > 0], n[n > 0]
        if len(n) < 2 or not 0 < s.sum() < n.sum():
            raise NotIdentified(f"{len(n)} prompts with {s.sum():.0f} of {n.sum():.0f}: no spread of rates to estimate")

        def loss(point: Floats) -> float:
            mean, size = expit(point[0]), np.exp(point[1])
            a, b = mean * size, (1.0 - mean) * size
            return -float(np.sum(betaln(s + a, n - s + b) - betaln(a, b)))

        rate = s.sum() / n.sum()
        options = {"xatol": 1e-8, "fatol": 1e-9, "maxiter": 4000}
        starts = [np.array([np.log(rate / (1.0 - rate)), log_size]) for log_size in (1.0, 4.0)]
        found = min((minimize(loss, x, method="Nelder-Mead", options=options) for x in starts), key=lambda f: f.fun)
        if found.x[1] > 15.0:
            raise NotIdentified("prompts differ no more than chance has it: one rate serves all")
        mean, size = float(expit(found.x[0])), float(np.exp(found.x[1]))
        return cls(mean * size, (1.0 - mean) * size)


@dataclass(frozen=True)
class Levels:
    r"""Levels of tasks and prompts on the log odds of a hazard.

    .. math:: \operatorname{logit} h' = \operatorname{logit} h + \mu + u_{task} + v_{prompt}, \qquad
              u \sim N(0, \tau_{task}^2),\; v \sim N(0, \tau_{prompt}^2)

    Modes of the penalised likelihood; the variances come from its working Gaussian model by expectation maximisation
    (penalised quasi-likelihood, Breslow and Clayton 1993).

    Attributes
    ----------
    mu
        Common level; it serves tasks that the fit did not meet.
    tasks
        (name, u) pairs.
    prompts
        (task, name, v).
    task_sd, prompt_sd
        tau; 0 where levels do not differ, or there is one task only.
    """

    mu: float
    tasks: tuple[tuple[str, float], ...]
    prompts: tuple[tuple[str, str, float], ...]
    task_sd: float
    prompt_sd: float

    def __post_init__(self) -> None:
        """Refuse levels that are no numbers."""
        effects = [self.mu, self.task_sd, self.prompt_sd, *(u for _, u in self.tasks), *(v for *_, v in self.prompts)]
        if not np.isfinite(effects).all() or min(self.task_sd, self.prompt_sd) < 0:
            raise FitError("levels must be finite numbers, and their standard deviations at least 0")
        if np.abs(effects).max() > _HUGE:
            raise FitError(f"a level is {max(effects, key=abs)}, expected log odds within +-{_HUGE:g}")

    def at(self, tasks: list[str], prompts: list[str]) -> Floats:
        """Give (n,) levels; a new prompt takes its task's, a new task the common one."""
        of_task, of_prompt = dict(self.tasks), {(task, name): v for task, name, v in self.prompts}
        rows = zip(tasks, prompts, strict=True)
        return np.array([self.mu + of_task.get(t, 0.0) + of_prompt.get((t, p), 0.0) for t, p in rows])

    def probability(self, logit: Floats, tasks: list[str], prompts: list[str]) -> Floats:
        """Add the levels to a hazard's log odds (n,); probabilities (n,).

        A level that is not known is averaged over: the mean over what it may be, not the value at its centre.
        """
        of_task, of_prompt = {name for name, _ in self.tasks}, {(task, name) for task, name, _ in self.prompts}
        new_task = np.array([task not in of_task for task in tasks])
        new_prompt = np.array([key not in of_prompt for key in zip(tasks, prompts, strict=True)])
        spread = np.sqrt(new_task * self.task_sd**2 + new_prompt * self.prompt_sd**2)
        centre = logit + self.at(tasks, prompts)
        points, weight = np.polynomial.hermite_e.hermegauss(_POINTS)
        parts = (w * expit(centre + spread * x) for x, w in zip(points, weight / weight.sum(), strict=True))
        return np.asarray(sum(parts))

    @classmethod
    def fit(cls, logit: Floats, accepted: Floats, weight: Floats, tasks: list[str], prompts: list[str]) -> Self:
        """Fit to n trials whose log odds a hazard gives.

        Parameters
        ----------
        logit, accepted, weight
            (n,) the hazard's log odds; outcomes in {0, 1}; rounds that each row stands for.
        tasks, prompts
            n names; a prompt belongs to its task.
        """
        names = sorted(set(zip(tasks, prompts, strict=True)))
        number = {name: k for k, name in enumerate(names)}
        prompt = np.array([number[key] for key in zip(tasks, prompts, strict=True)])
        task_names = sorted({task for task, _ in names})
        task = np.array([task_names.index(name) for name, _ in names])
        trials = _Trials(logit, accepted, weight, prompt, task)
        state = _Effects(0.0, np.zeros(len(task_names)), np.zeros(len(names)), 0.25 * (len(task_names) > 1), 0.25)
        for _ in range(300):
            before = state
            state = trials.step(state)
            if state.distance(before) < 1e-6:
                break
        return cls(
            mu=state.mu,
            tasks=tuple(zip(task_names, state.u.tolist(), strict=True)),
            prompts=tuple((t, p, v) for (t, p), v in zip(names, state.v.tolist(), strict=True)),
            task_sd=math.sqrt(state.task_var),
            prompt_sd=math.sqrt(state.prompt_var),
        )


@dataclass(frozen=True, eq=False)
class _Effects:
    """Levels mu, u (T,), v (P,) and their variances."""

    mu: float
    u: Floats
    v: Floats
    task_var: float
    prompt_var: float

    def distance(self, other: _Effects) -> float:
        spread = abs(self.task_var**0.5 - other.task_var**0.5) + abs(self.prompt_var**0.5 - other.prompt_var**0.5)
        moved = np.abs(np.concatenate([self.u - other.u, self.v - other.v])).max()
        return float(max(spread, moved, abs(self.mu - other.mu)))

    def toward(self, other: _Effects, part: float) -> _Effects:
        mu = self.mu + part * (other.mu - self.mu)
        u, v = self.u + part * (other.u - self.u), self.v + part * (other.v - self.v)
        return _Effects(mu, u, v, other.task_var, other.prompt_var)


@dataclass(frozen=True, eq=False)
class _Trials:
    """Trials (n,), the prompt (n,) of each, and the task (P,) of each prompt."""

    logit: Floats
    accepted: Floats
    weight: Floats
    prompt: Ints
    task: Ints

    def value(self, at: _Effects) -> float:
        """Penalised log-likelihood, nats, up to a constant."""
        z = self.logit + (at.mu + at.u[self.task] + at.v)[self.prompt]
        likelihood = self.weight @ (self.accepted * z - np.logaddexp(0.0, z))
        pulls = ((at.u, at.task_var), (at.v, at.prompt_var))
        return float(likelihood - sum(0.5 * (x @ x) / var for x, var in pulls if var > 0))

    def step(self, at: _Effects) -> _Effects:
        """Solve the nested Gaussian model around ``at``, then move the variances by expectation maximisation."""
        size = len(self.task)
        effect = at.mu + at.u[self.task] + at.v
        p = expit(self.logit + effect[self.prompt])
        info: Floats = np.bincount(self.prompt, self.weight * p * (1.0 - p), size).astype(np.float64)
        score = np.bincount(self.prompt, self.weight * (self.accepted - p), size) + info * effect
        new = _solve(info, score, self.task, at)
        part = 1.0
        while part > 1e-3 and self.value(at.toward(new, part)) < self.value(at) - 1e-9:
            part /= 2.0  # a Newton step may overshoot where most trials agree
        return _spread(info, self.task, at.toward(new, part))


def _solve(info: Floats, score: Floats, task: Ints, at: _Effects) -> _Effects:
    """Best linear unbiased predictors: each prompt's working mean score / info has variance 1 / info."""
    held = 1.0 + info * at.prompt_var
    task_info = np.bincount(task, weights=info / held, minlength=len(at.u))
    task_score = np.bincount(task, weights=score / held, minlength=len(at.u))
    task_held = 1.0 + task_info * at.task_var
    total = float((task_info / task_held).sum())
    mu = float((task_score / task_held).sum()) / max(total, 1e-300)
    u = at.task_var * (task_score - task_info * mu) / task_held
    v = at.prompt_var * (score - info * (mu + u[task])) / held
    return _Effects(mu, u, v, at.task_var, at.prompt_var)


def _spread(info: Floats, task: Ints, at: _Effects) -> _Effects:
    """Average each level's posterior second moment, what is unknown of the levels above included."""
    held = 1.0 + info * at.prompt_var
    task_info = np.bincount(task, weights=info / held, minlength=len(at.u))
    task_held = 1.0 + task_info * at.task_var
    mu_var = 1.0 / max(float((task_info / task_held).sum()), 1e-300)
    task_var = at.task_var / task_held + (1.0 - 1.0 / task_held) ** 2 * mu_var
    above = at.task_var / task_held + mu_var / task_held**2
    prompt_var = at.prompt_var / held + (1.0 - 1.0 / held) ** 2 * above[task]
    return _Effects(
        at.mu,
        at.u,
        at.v,
        float(np.mean(at.u**2 + task_var)) if at.task_var > 0 else 0.0,
        float(np.mean(at.v**2 + prompt_var)) if at.prompt_var > 0 else 0.0,
    )


def _counts(successes: ArrayLike, trials: ArrayLike) -> tuple[Floats, Floats]:
    s, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    if s.shape != n.shape or not ((s >= 0) & (s <= n) & np.isfinite(n)).all():
        raise FitError("expected 0 <= successes <= trials, of one shape")
    return s, n
