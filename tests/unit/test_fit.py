r"""How far functions may be from the data: filters of the spectrum, mixtures of scales."""

import math
from functools import partial

import pytest
import torch
from botorch.utils.sampling import draw_sobol_samples
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from torch.testing import assert_close

from kernelucb import KernelRegression, MartingaleMixtureUCB, least_consistent_norm
from kernelucb.confidence.filters import FilterMixture
from kernelucb.confidence.radius import covariance_scales, energy_ball, mixture_radius
from oracles.mixture_program import energy_alone, flynn_reeb, hybrid, upper_deviation
from problems import frozen_kernel, make_problem, normal, uniform
from tolerances import ORDER, POSTERIOR, REARRANGED, SOCP

NORM = 6.0
UNIT_SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


@pytest.mark.parametrize("price", [3.0, 40.0, math.inf])
@pytest.mark.parametrize("count", [0, 1, 30, 3000])
def test_the_ball_is_where_the_mixture_reaches_its_level(count, price):
    shares = (0.0, 1.0) if math.isinf(price) else (0.5, 0.2)
    predicted = price + 2.0 * math.log(20.0)
    energy, slope = energy_ball(count, 0.05, predicted, shares)

    def log_mixture(energy):
        terms = [math.log(shares[0]) + 0.5 * (energy - price)] if shares[0] else []
        for j in range(-6, 17):
            floor = 1.0 / (1.0 + 2.0 ** (0.5 * j))
            weight = math.log(shares[1] / 23) + 0.5 * count * math.log1p(-floor)
            terms.append(weight + 0.5 * floor * energy)
        return float(logsumexp(terms))

    assert log_mixture(energy) == pytest.approx(math.log(20.0), abs=1e-9)
    step = 1e-4 * energy
    difference = (log_mixture(energy + step) - log_mixture(energy - step)) / step
    assert slope == pytest.approx(difference, rel=1e-4)


def test_weights_that_are_chosen_keep_their_price():
    r"""``sum_j w_j b_j + 2 KL(w || pi) + 2 ln(1/delta)``; here ``pi`` is in ``b``."""
    problem = make_problem(n=12)
    mixture = FilterMixture(problem.state, 0.05, 1.0, NORM)
    weights = uniform(len(mixture.prices), 1, 3)[:, 0].numpy()
    weights /= weights.sum()
    entropy = sum(w * math.log(w) for w in weights)
    expected = weights @ mixture.prices + 2.0 * entropy + 2.0 * math.log(20.0)
    assert mixture.ellipsoid(weights).squared_radius == pytest.approx(expected)


def test_round_off_takes_no_more_than_the_outcomes_that_it_hides():
    r"""A smooth kernel and a large norm, where the filters were dropped for this once."""
    X = draw_sobol_samples(UNIT_SQUARE, n=65, q=1, seed=0).squeeze(1)
    kernel = frozen_kernel("rbf", 0.7)
    outcomes = torch.sin(5.0 * X[:, 0]) * X[:, 1] + 0.02 * normal(65, 1)
    state = KernelRegression(X, outcomes, kernel, 0.02)
    assert state.hidden_part(1e4) > 0.1
    widths = {}
    for fit in ("filters", "martingale"):
        band = MartingaleMixtureUCB(state, norm_bound=1e4, fit=fit)
        lower, upper = band.bounds(uniform(50, 2, 3))
        widths[fit] = float((upper - lower).mean())
    assert widths["filters"] < 0.75 * widths["martingale"]


DELTA, MIXED_NORM = 0.05, 2.4
# The members and their prior weights, as the documentation states them.
ENERGIES = [1.0 / (1.0 + 2.0 ** (0.5 * j)) for j in range(-6, 17)]
HYBRIDS = [
    (unit**2 * 4.0**-power, floor)
    for unit in (4.0, MIXED_NORM)
    for power in range(1, 9)
    for floor in (0.0, 0.1, 0.3, 0.6)
]


def members(gram, y):
    return [
        flynn_reeb(gram, y, 1.0, 0.7),
        *(energy_alone(len(y), energy, 0.1 / len(ENERGIES)) for energy in ENERGIES),
        *(hybrid(gram, *each, 0.2 / len(HYBRIDS)) for each in HYBRIDS),
    ]


@pytest.mark.representatives("matern52-16-0.3-True")
@pytest.mark.parametrize(
    ("kernel", "n", "noise_std", "duplicates"),
    [("rbf", 8, 0.1, False), ("matern52", 16, 0.3, True), ("matern32", 30, 0.05, False)],
)
def test_one_ellipsoid_holds_the_whole_mixture_and_hardly_more(
    kernel, n, noise_std, duplicates
):
    r"""The best weights for each point would narrow the band by less than 3 %."""
    problem = make_problem(n, 1, kernel, 2.0, noise_std, duplicates=duplicates)
    # Noise scales apart by a factor of three.
    scales = noise_std * torch.linspace(1.0, 3.0, n, dtype=torch.float64)
    state = KernelRegression(problem.X, problem.Y, problem.kernel, scales)
    acqf = MartingaleMixtureUCB(state, norm_bound=MIXED_NORM, delta=DELTA, fit="filters")
    lower, upper = acqf.bounds(problem.test_X[::3])
    for x, low, high in zip(problem.test_X[::3], lower, upper, strict=True):
        joint = problem.kernel(torch.cat([problem.X, x.unsqueeze(0)])).to_dense()
        K = joint[:-1, :-1] / scales.outer(scales)
        both = members(K, problem.Y / scales)
        arguments = (scales, both, MIXED_NORM, DELTA)
        top = upper_deviation(joint, problem.Y, *arguments)
        bottom = -upper_deviation(joint, -problem.Y, *arguments)
        assert float(high) >= top - SOCP
        assert float(low) <= bottom + SOCP
        assert float(high - low) <= 1.03 * (top - bottom) + SOCP


scale_lists = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6)


def squared_radius(state, scales):
    return mixture_radius(state, DELTA, scales).squared(state)


@given(scales=scale_lists, n=st.integers(1, 30), seed=st.integers(0, 50))
def test_costs_at_most_two_log_of_their_number(scales, n, seed):
    state = make_problem(n=n, d=2, seed=seed).state
    single = [squared_radius(state, scale) for scale in scales]
    mixed = squared_radius(state, scales)
    slack = ORDER * max(single)
    assert mixed <= min(single) + 2.0 * math.log(len(scales)) + slack
    assert mixed >= min(single) - slack


def test_is_the_logarithm_of_the_mean_evidence():
    problem, scales = make_problem(n=20, d=2), [0.1, 1.0, 3.0]
    K, eye = problem.kernel(problem.X).to_dense(), torch.eye(20).double()
    noise = problem.noise_std**2 * eye
    evidence = [
        float(problem.Y @ torch.linalg.solve(noise + c * K, problem.Y))
        + float(torch.linalg.slogdet(eye + c * K / problem.noise_std**2).logabsdet)
        for c in scales
    ]
    mean = sum(math.exp(-0.5 * (a - min(evidence))) for a in evidence) / len(scales)
    expected = min(evidence) - 2.0 * math.log(mean) + 2.0 * math.log(1.0 / DELTA)
    assert squared_radius(problem.state, scales) == pytest.approx(expected, rel=POSTERIOR)


def test_refers_to_the_scale_that_explains_the_data_best():
    state, scales = make_problem(n=25, d=2, norm=20.0).state, [1e-3, 1.0, 1e2]
    best = min(scales, key=lambda scale: squared_radius(state, scale))
    radius = mixture_radius(state, DELTA, scales)
    assert radius.tau_ref == pytest.approx(1.0 / best)
    options = {"fit": "martingale", "covariance_scale": scales, "form": "analytic"}
    acqf = MartingaleMixtureUCB(state, norm_bound=30.0, **options)
    assert acqf.band.confidence_set.regularizer == pytest.approx(1.0 / best)


def test_nothing_cancels_at_small_noise():
    r"""Evidences of 1e12 whose differences of order one decide."""
    problem = make_problem(n=12, d=2)
    state = KernelRegression(problem.X, problem.Y, problem.kernel, 1e-6)
    scales = [1.0, 1.0 + 1e-9]
    both, one = (mixture_radius(state, DELTA, c) for c in (scales, 1.0))
    assert both.slack == pytest.approx(one.slack, rel=1e-6)


@pytest.mark.covering
@pytest.mark.parametrize("form", ["dual", "grid", "analytic", "convex"])
@pytest.mark.parametrize("fit", ["filters", "martingale"])
def test_names_and_numbers_of_a_fit(fit, form):
    r"""The name means a scale of one; one scale, alone or repeated, is the plain bound."""
    problem = make_problem(n=12, d=2, kernel="matern52")
    make = partial(MartingaleMixtureUCB, problem.state, norm_bound=3.0, fit=fit, form=form)
    acqfs = (make(covariance_scale=c) for c in (None, 1.0, [1.0], [1.0, 1.0, 1.0]))
    plain, *others = (acqf.bounds(problem.test_X[:3]) for acqf in acqfs)
    for other in others:
        assert_close(other, plain, rtol=REARRANGED, atol=REARRANGED)


def test_the_least_consistent_norm_takes_a_mixture():
    r"""A larger radius consists with smaller norms; 2 ln 17 is little beside a bad one."""
    state = make_problem(n=30, norm=20.0, seed=2).state
    scales = covariance_scales("mixture")
    assert len(scales) == 17
    mixed = least_consistent_norm(state, covariance_scale="mixture")
    single = [least_consistent_norm(state, covariance_scale=c) for c in scales]
    assert 0.5 * max(single) <= mixed <= max(single)
