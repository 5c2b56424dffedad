"""The two-state law."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lawfit import FitError, Geometric, NotIdentified, Observations
from lawfit.laws import Law, TwoState
from lawfit.two_state_fit import climb

SHARE = st.floats(0.02, 0.98)


def chain_survival(pi: float, rho: tuple[float, float], stay: tuple[float, float], horizon: int) -> list[float]:
    """P[a >= l] by summing over every path of hidden states."""
    move = np.array([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]])
    found = []
    for length in range(1, horizon + 1):
        total = 0.0
        for path in itertools.product((0, 1), repeat=length):
            chance = (pi, 1 - pi)[path[0]] * rho[path[0]]
            for before, after in itertools.pairwise(path):
                chance *= move[before, after] * rho[after]
            total += chance
        found.append(total)
    return found


def draw(law: Law, n: int, seed: int, *, cut: float = 0.0, prompts: int = 0) -> Observations:
    """Sample rounds of a law without entropy; a share of them is cut by the end of the request."""
    rng = np.random.default_rng(seed)
    horizon = law.horizon
    tail = np.concatenate([[1.0], law.survival(), [0.0]])
    a = rng.choice(horizon + 1, size=n, p=-np.diff(tail))
    cap = np.where(rng.random(n) < cut, rng.integers(0, horizon, n), horizon)
    cluster = rng.integers(0, prompts, n) if prompts else None
    return Observations(np.minimum(a, cap), np.full(n, horizon), a < cap, np.ones(n), cluster=cluster)


@settings(max_examples=40, deadline=None)
@given(SHARE, SHARE, SHARE, SHARE, SHARE)
def test_every_persistent_chain_is_one_of_its_survivals(
    pi: float, rho_d: float, rho_u: float, stay_d: float, stay_u: float
) -> None:
    assume(stay_d + stay_u > 1.0)
    expected = chain_survival(pi, (rho_d, rho_u), (stay_d, stay_u), 6)
    k = np.array([[rho_d * stay_d, rho_d * (1 - stay_d)], [rho_u * (1 - stay_u), rho_u * stay_u]])
    lam2, lam1 = np.sort(np.linalg.eigvals(k).real)
    assume(lam1 - lam2 > 1e-3)
    law = TwoState((expected[0] - lam2) / (lam1 - lam2), lam1, lam2, 6)
    assert law.survival() == pytest.approx(expected, abs=1e-12)
    assert law.mean() == pytest.approx(sum(expected), abs=1e-12)


@pytest.mark.parametrize("law", [TwoState(0.3, 0.95, 0.4, 6), TwoState(1.4, 0.8, 0.45, 6)])
def test_the_verbatim_restriction_is_a_chain_with_the_same_survival(law: TwoState) -> None:
    chain = law.regimes("verbatim")
    stay = (chain.stay_copy, chain.stay_ordinary)
    same = chain_survival(chain.pi, (chain.rho_copy, chain.rho_ordinary), stay, 6)
    assert law.survival() == pytest.approx(same, abs=1e-12)


def test_the_mixture_restriction_needs_a_weight_of_at_most_one() -> None:
    chain = TwoState(0.3, 0.95, 0.4, 6).regimes("mixture")
    assert (chain.pi, chain.rho_copy, chain.rho_ordinary) == (0.3, 0.95, 0.4)
    with pytest.raises(NotIdentified, match=r"w is 1\.4, expected at most 1"):
        TwoState(1.4, 0.8, 0.45, 6).regimes("mixture")
    with pytest.raises(FitError, match="restriction is 'cure', expected mixture or verbatim"):
        TwoState(0.3, 0.95, 0.4, 6).regimes("cure")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((0.5, 0.4, 0.6), "lam2 0.6 is above lam1 0.4"),
        ((2.0, 0.9, 0.1), "makes the first hazard 1.7"),
        ((-0.1, 0.9, 0.1), "weight -0.1"),
        ((0.5, 1.2, 0.1), "hazard is 1.2"),
        ((float("nan"), 0.9, 0.1), "weight nan"),
    ],
)
def test_values_outside_the_model_are_refused(values: tuple[float, float, float], message: str) -> None:
    with pytest.raises(FitError, match=message):
        TwoState(*values)


def test_it_reproduces_the_likelihood_ratio_of_the_humaneval_log(humaneval_rounds: Observations) -> None:
    two, one = TwoState.fit(humaneval_rounds), Geometric.fit(humaneval_rounds)
    assert two.fitted is not None
    assert one.fitted is not None
    assert 2 * (two.fitted.log_likelihood - one.fitted.log_likelihood) == pytest.approx(3766.53, abs=0.01)
    assert two.fitted.log_likelihood == pytest.approx(two.log_likelihood(humaneval_rounds))
    assert two.fitted.cluster_se is not None


@pytest.mark.parametrize("law", [TwoState(0.4, 0.95, 0.3), TwoState(1.3, 0.8, 0.4), TwoState(0.15, 0.99, 0.6)])
def test_no_grid_point_is_likelier_than_the_estimate(law: TwoState) -> None:
    rows = draw(law, 400, 3)
    best = TwoState.fit(rows)
    assert best.fitted is not None
    for lam1, share, lift in itertools.product(
        np.linspace(0.05, 1, 20), np.linspace(0, 0.95, 15), np.linspace(0.02, 1, 25)
    ):
        lam2 = lam1 * share
        other = TwoState(lift * (1 - lam2) / (lam1 - lam2), lam1, lam2, 15)
        assert other.log_likelihood(rows) <= best.fitted.log_likelihood + 1e-6


@pytest.mark.parametrize(("law", "cut"), [(TwoState(0.4, 0.93, 0.3), 0.0), (TwoState(1.3, 0.8, 0.35), 0.2)])
def test_intervals_cover_the_true_values(law: TwoState, cut: float) -> None:
    truth = np.array(list(law.params.values()), dtype=float)
    covered, told = np.zeros(3), 0
    for seed in range(200):
        fit = TwoState.fit(draw(law, 3000, seed, cut=cut, prompts=150)).fitted
        assert fit is not None
        if fit.cluster_se is None:
            continue
        told += 1
        estimate = np.array(
            list(TwoState.fit(draw(law, 3000, seed, cut=cut, prompts=150)).params.values()), dtype=float
        )
        covered += np.abs(estimate - truth) <= 1.96 * np.array(list(fit.cluster_se.values()))
    assert told >= 190
    # Within the 99.9% range of 200 tosses at .95.
    assert (covered / told > 0.895).all()


def test_many_logs_at_once_equal_one_by_one() -> None:
    rng = np.random.default_rng(2)
    matches, misses = rng.integers(1, 60, (5, 8)).astype(float), rng.integers(1, 60, (5, 8)).astype(float)
    together = climb(matches, misses)
    for k in range(5):
        alone = climb(matches[k : k + 1], misses[k : k + 1])
        assert alone[1][0] == pytest.approx(together[1][k], abs=1e-5)


def test_one_hazard_is_told_as_such() -> None:
    rows = draw(Geometric(0.5, 4), 12, 1)
    law = TwoState.fit(rows)
    assert law.fitted is not None
    assert law.fitted.log_likelihood >= Geometric.fit(rows).log_likelihood(rows) - 1e-9
    flat = Observations(
        np.repeat([0, 1, 2, 3], [8, 4, 2, 2]), np.full(16, 3), np.repeat([True, False], [14, 2]), np.ones(16)
    )
    single = TwoState.fit(flat)
    assert single.fitted is not None
    assert single.fitted.covariance is None
    assert "gain nothing over one hazard" in single.fitted.notes[0]
    assert single.hazard() == pytest.approx([0.5, 0.5, 0.5])


def test_an_estimate_on_an_edge_says_so_and_has_no_errors() -> None:
    # A third never misses: the cure model, with lam1 = 1.
    a = np.repeat([0, 1, 6], [40, 20, 30])
    law = TwoState.fit(Observations(a, np.full(90, 6), a < 6, np.ones(90)))
    assert law.lam1 == pytest.approx(1.0, abs=1e-6)
    assert law.fitted is not None
    assert law.fitted.covariance is None
    assert "on an edge of the parameters (lam1 = 1" in law.fitted.notes[0]


@pytest.mark.parametrize(
    ("a", "horizon", "message"),
    [([0, 1, 2], 2, "2 offsets were seen"), ([4, 4], 4, "no round missed"), ([0, 0], 4, "1 offsets were seen")],
)
def test_too_little_is_not_identified(a: list[int], horizon: int, message: str) -> None:
    lengths = np.array(a)
    rows = Observations(lengths, np.full(len(a), horizon), lengths < horizon, np.ones(len(a)))
    with pytest.raises(NotIdentified, match=message):
        TwoState.fit(rows)


def test_it_survives_json() -> None:
    law = TwoState.fit(draw(TwoState(0.4, 0.95, 0.3), 500, 0))
    again = Law.from_json(law.to_json())
    assert again == law
    assert again.fitted == law.fitted
