r"""The set of a mixture of filters: an ellipsoid in the eigenbasis, like any other fit."""

import math

import pytest
import torch
from botorch.utils.sampling import draw_sobol_samples
from scipy.special import logsumexp
from torch.testing import assert_close

from kernelucb import (
    KernelRegression,
    MartingaleMixtureUCB,
    least_consistent_norm,
    regret_certificate,
)
from kernelucb._numerics import spectral
from kernelucb.confidence.fit.choice import data_fit
from kernelucb.confidence.fit.filters import FilterMixture, Hybrids
from kernelucb.confidence.fit.radius import KernelFree, with_energy
from kernelucb.confidence.martingale_mixture.dual import ExactSet
from kernelucb.confidence.martingale_mixture.problem import Constraints
from kernelucb.confidence.norm.least import for_least_norm, least_norm
from kernelucb.regression.exact import FilteredRegression, SpectralFilter
from oracles import socp
from oracles.filtered import counted
from problems import frozen_kernel, make_problem, normal, uniform
from tolerances import LEAST_NORM, LINEAR_SOLVE, REARRANGED, SOCP

NORM = 6.0
UNIT_SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
CASES = {
    "rbf": {"kernel": "rbf"},
    "matern32": {"kernel": "matern32", "d": 2, "n": 14},
    "matern52": {"kernel": "matern52", "d": 2, "n": 20, "noise_std": 0.4},
    "much noise": {"noise_std": 2.0, "norm": 1.0},
    "duplicates": {"duplicates": True},
}


def cone_arguments(problem, acqf):
    noise = problem.state.noise_std
    squared = acqf.function_constraints.radius.squared(acqf.confidence_set.regression)
    return problem.Y, noise, squared, NORM, counted(acqf)


@pytest.mark.parametrize("options", [{}, {"form": "convex"}])
@pytest.mark.parametrize("case", CASES)
def test_the_band_is_that_of_the_cone_program(case, options):
    problem = make_problem(**CASES[case])
    acqf = MartingaleMixtureUCB(problem.state, norm_bound=NORM, **options)
    arguments = cone_arguments(problem, acqf)
    for x, low, high in zip(problem.test_X, *acqf.bounds(problem.test_X), strict=True):
        K = problem.kernel(torch.cat([problem.X, x.unsqueeze(0)])).to_dense()
        assert float(high) == pytest.approx(socp.upper_deviation(K, *arguments), abs=1e-6)
        assert float(low) == pytest.approx(socp.lower_deviation(K, *arguments), abs=1e-6)


def test_noise_of_each_observation():
    problem = make_problem(n=10, d=2)
    noise = 0.1 + uniform(10, 1, 3)[:, 0]
    state = KernelRegression(problem.X, problem.Y, problem.kernel, noise)
    acqf = MartingaleMixtureUCB(state, norm_bound=NORM)
    squared = acqf.function_constraints.radius.squared(acqf.confidence_set.regression)
    for x, high in zip(problem.test_X, acqf.bounds(problem.test_X)[1], strict=True):
        K = problem.kernel(torch.cat([problem.X, x.unsqueeze(0)])).to_dense()
        expected = socp.upper_deviation(K, problem.Y, noise, squared, NORM, counted(acqf))
        assert float(high) == pytest.approx(expected, abs=1e-6)


def test_the_gap_of_a_certificate_is_the_cone_programs():
    problem = make_problem(n=8, d=2, norm=3.0, seed=5)
    candidates = uniform(5, 2, 9)
    acqf = MartingaleMixtureUCB(problem.model, norm_bound=NORM)
    certificate = regret_certificate(acqf, candidates)
    arguments = cone_arguments(problem, acqf)
    gaps = []
    for x in candidates:
        points = torch.cat([problem.X, x.unsqueeze(0), certificate.recommended[None]])
        K = problem.kernel(points).to_dense()
        gaps.append(socp.largest_difference(K, *arguments))
    assert certificate.gap == pytest.approx(max(gaps), abs=SOCP)
    assert certificate.certified


@pytest.mark.parametrize("case", ["rbf", "matern32", "duplicates"])
def test_the_least_norm_is_that_of_the_cone_program(case):
    problem = make_problem(norm=5.0, **CASES[case])
    constraint, norm, _ = for_least_norm(data_fit("filters", problem.state, 0.05))
    regression, radius = constraint
    K = problem.kernel(problem.X).to_dense()
    whitened = K / problem.noise_std**2
    lam, U = torch.linalg.eigh(whitened)
    A = (U * regression.spectral_filter(lam.clamp_min(0.0))) @ U.mT
    squared = radius.squared(regression)
    expected = socp.least_norm(K, problem.Y, problem.state.noise_std, squared, A)
    assert expected > 0.5
    assert_close(norm, expected, rtol=LEAST_NORM, atol=0.0)
    assert_close(norm, least_norm(*constraint), rtol=REARRANGED, atol=0.0)


def test_the_least_norm_is_sharper_than_the_martingale_mixtures():
    r"""Of a function of norm 5, and the same whatever the norm bound."""
    problem = make_problem(n=60, d=2, norm=5.0, noise_std=0.1)
    both = [least_consistent_norm(problem.state, fit=f) for f in ("martingale", "filters")]
    assert both[0] < both[1] < 5.0
    acqf = MartingaleMixtureUCB(problem.state, norm_bound=NORM)
    assert acqf.least_consistent_norm == pytest.approx(both[1])


def test_points_pending_count_once():
    r"""``k - k^T (K + tau W^-1)^-1 k``, where ``W`` is ``A / noise^2`` and one for each."""
    problem, tau = make_problem(n=20, d=2, noise_std=0.3), 0.7
    acqf = MartingaleMixtureUCB(problem.state, norm_bound=NORM)
    pending, X = uniform(3, 2, 7), problem.test_X
    design = acqf.confidence_set.regression.with_pending(pending)
    both = torch.cat([problem.X, pending])
    weights = torch.block_diag(counted(acqf), torch.eye(3).double())
    K = problem.kernel(both).to_dense()
    matrix = K + tau * problem.noise_std**2 * torch.linalg.inv(weights)
    k = problem.kernel(both, X).to_dense()
    expected = 1.0 - (k * torch.linalg.solve(matrix, k)).sum(0)
    variance = design.variance_at(design.project(X), torch.tensor(tau).double())
    assert_close(variance, expected, rtol=0.0, atol=LINEAR_SOLVE)


def test_many_points_pending_are_filtered_with_the_others():
    problem = make_problem(n=9, d=2)
    acqf = MartingaleMixtureUCB(problem.state, norm_bound=NORM)
    state = acqf.confidence_set.regression
    design = state.with_pending(uniform(5, 2, 7))
    assert isinstance(design, FilteredRegression)
    assert design.num_observations == 14
    assert design.spectral_filter is state.spectral_filter
    assert state.with_pending(problem.X[:0]) is state


def test_one_filter_for_all_directions_is_another_radius():
    problem = make_problem(n=8)
    level = SpectralFilter(0.25, *torch.zeros(3, 0).double())
    state = FilteredRegression(problem.state, level)
    tau = torch.tensor([0.03, 0.5]).double()
    assert_close(state.quadratic_form(0.25 * tau), 0.25 * problem.state.quadratic_form(tau))
    assert_close(state.mean(problem.test_X), problem.state.mean(problem.test_X))
    assert_close(state.variance(problem.test_X), problem.state.variance(problem.test_X))


def test_the_filters_of_the_hybrids():
    r"""``A = l + (1 - l) c lam / (c lam + 1 - l)``, from the energy to all of it."""
    hybrids, lam = Hybrids.for_norm(3.0), torch.logspace(-8, 8, 9).double()
    c, floor = hybrids.scales.unsqueeze(-1), hybrids.floors.unsqueeze(-1)
    share = c * lam / (c * lam + 1.0 - floor)
    expected = floor + (1.0 - floor) * share
    assert_close(hybrids.filters(lam), expected, rtol=REARRANGED, atol=0.0)
    other = Hybrids.for_norm(3.0 / 0.2)  # of the kernel 0.2^2 k
    assert_close(other.filters(0.04 * lam), expected, rtol=REARRANGED, atol=REARRANGED)


@pytest.mark.parametrize("price", [3.0, 40.0, math.inf])
@pytest.mark.parametrize("count", [0, 1, 30, 3000])
def test_the_ball_is_where_the_mixture_reaches_its_level(count, price):
    shares = (0.0, 1.0) if math.isinf(price) else (0.5, 0.2)
    predicted = price + 2.0 * math.log(20.0)
    energy, slope = KernelFree.of(count, 0.05, predicted, shares).ball

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


def test_the_energy_of_the_noise_costs_little_and_helps_bad_predictions():
    price = 2.0 * math.log(20.0)
    assert with_energy(30.0 + price, 30, 0.05) < 30.0 + price + 0.45
    assert with_energy(1e6, 30, 0.05) < 80.0


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


@pytest.mark.parametrize("along", [0, 3])
@pytest.mark.parametrize("norm", [6.0, 60.0, 6000.0])
def test_eigenvalues_that_count_as_zero_leave_the_set_valid(monkeypatch, along, norm):
    r"""With a cut-off so large that what it hides can be computed.

    The outcomes are those of a function along one hidden direction: the band of the same
    weights without cut-off lies within the one that takes in what is hidden.
    """
    problem = make_problem(n=12)
    whole = KernelRegression(problem.X, problem.Y, problem.kernel, 0.1)
    u = norm * torch.eye(12, dtype=torch.float64)[along]
    vectors = whole.feature_basis * whole.eigenvalues.sqrt() * 0.1
    outcomes = 0.1 * (vectors @ (whole.eigenvalues.sqrt() * u) + normal(12, 5))
    states = []
    for factor in (4.0, 4e10):
        monkeypatch.setattr(spectral, "_CUT_OFF", factor)
        states.append(KernelRegression(problem.X, outcomes, problem.kernel, 0.1))
    whole, cut = states
    assert whole.eigenvalues[along] > 0.0 == cut.eigenvalues[along]
    weights = uniform(66, 1, 9)[:, 0].numpy()[:65]
    weights /= weights.sum()
    bands = []
    for state in (cut, whole):
        mixture = FilterMixture(state, 0.05, 1.0, norm)
        fit = mixture.constraint(weights)
        fit = fit.beside_hidden(norm) if state is cut else fit
        constraints = Constraints(fit.radius, norm, None)
        given = MartingaleMixtureUCB(cut, norm_bound=norm).assumptions
        bands.append(ExactSet(fit.regression, constraints, given).bounds(problem.test_X))
    (lower, upper), (inner_lower, inner_upper) = bands
    room = 1e-9 * norm
    assert bool((lower <= inner_lower + room).all())
    assert bool((inner_upper <= upper + room).all())
