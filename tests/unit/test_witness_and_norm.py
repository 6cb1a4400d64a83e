r"""The function that attains the bound, and the least norm that fits the data."""

import math

import pytest
import torch
from botorch.models.transforms.outcome import Standardize
from torch.testing import assert_close

from kernelucb import (
    KernelRegression,
    MartingaleMixture,
    MartingaleMixtureUCB,
    least_consistent_norm,
)
from kernelucb.confidence.fit.radius import Radius
from kernelucb.confidence.norm.least import least_norm
from oracles import socp
from oracles.filtered import counted
from problems import frozen_model, make_problem, uniform
from tolerances import LEAST_NORM, REARRANGED, WITNESS_CONSTRAINT, WITNESS_VALUE

CASES = {
    "rbf": {"kernel": "rbf"},
    "matern32": {"kernel": "matern32", "d": 2, "n": 14},
    "much noise": {"noise_std": 2.0, "norm": 1.0},
    "duplicates": {"duplicates": True},
}


def standardized(problem):
    return frozen_model(
        problem.X,
        5.0 + 3.0 * problem.Y,
        problem.kernel,
        3.0 * problem.noise_std / float((3.0 * problem.Y).std()),
        mean=0.3,
        outcome_transform=Standardize(m=1),
    )


def model_of(problem, units):
    return standardized(problem) if units == "standardized" else problem.model


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("units", ["plain", "standardized"])
@pytest.mark.parametrize("case", CASES)
def test_witness_is_in_the_set_and_attains_the_bound(case, units, upper):
    problem = make_problem(**CASES[case])
    acqf = MartingaleMixtureUCB(model_of(problem, units), norm_bound=20.0)
    bounds = acqf.bounds(problem.test_X)[int(upper)]
    for x, bound in zip(problem.test_X, bounds, strict=True):
        witness = acqf.witness(x.unsqueeze(0), upper=upper)
        assert witness.norm <= 20.0 * (1.0 + WITNESS_CONSTRAINT)
        assert witness.misfit <= witness.radius * (1.0 + WITNESS_CONSTRAINT)
        value = witness(x.unsqueeze(0))[0]
        assert_close(value, bound, rtol=WITNESS_VALUE, atol=WITNESS_VALUE)


@pytest.mark.parametrize("fit", ["filters", "martingale"])
@pytest.mark.parametrize("units", ["plain", "standardized"])
def test_witness_reports_its_norm_and_misfit_from_its_values(units, fit):
    r"""Recomputed from values alone: interpolation norm and distance to the outcomes."""
    problem = make_problem(n=5, kernel="matern32", noise_std=0.3)
    model = model_of(problem, units)
    acqf = MartingaleMixtureUCB(model, norm_bound=20.0, fit=fit)
    x = uniform(1, 1, seed=70)
    witness = acqf.witness(x)
    state = acqf.regression
    outcomes = state.train_targets
    misfit = (witness(problem.X) - outcomes) / state.noise_std
    misfit = (misfit @ counted(acqf) @ misfit).sqrt()
    assert_close(witness.misfit, float(misfit), rtol=WITNESS_VALUE, atol=0.0)
    nodes = torch.cat([problem.X, x])
    mean = float(state.project(x).baseline)
    values = witness(nodes) - mean
    K = problem.kernel(nodes).to_dense()  # the model's kernel as it stands
    norm = math.sqrt(float(values @ torch.linalg.solve(K, values)))
    scale = state.outcome_scale
    assert_close(witness.norm, norm, rtol=WITNESS_VALUE, atol=0.0)
    assert (scale != 1.0) == (units == "standardized")


def test_witness_under_the_norm_constraint_alone():
    r"""Far away from uninformative data: ``B k(x, .) / sqrt(k(x, x))``."""
    problem = make_problem(noise_std=3.0, norm=0.5, outputscale=4.0)
    acqf = MartingaleMixtureUCB(problem.model, norm_bound=3.0)
    x = torch.full((1, 1), 50.0, dtype=torch.float64)
    witness = acqf.witness(x)
    assert_close(witness.norm, 3.0, rtol=WITNESS_VALUE, atol=0.0)
    assert_close(float(witness(x)), 6.0, rtol=WITNESS_VALUE, atol=0.0)


@pytest.mark.parametrize("c", [0.3, 1.0])
@pytest.mark.parametrize("case", ["rbf", "matern32", "duplicates"])
def test_least_norm_is_the_cone_program(case, c):
    problem = make_problem(norm=5.0, **CASES[case])
    K = problem.kernel(problem.X).to_dense()
    noise = torch.full_like(problem.Y, problem.noise_std)
    squared = socp.squared_radius(K, problem.Y, noise, 0.05, c)
    expected = socp.least_norm(K, problem.Y, noise, squared)
    assert expected > 0.5  # the data say something
    least = least_consistent_norm(problem.model, fit=MartingaleMixture(c))
    assert least == pytest.approx(expected, rel=LEAST_NORM, abs=0.0)


def test_least_norm_with_noise_of_each_observation():
    problem = make_problem(n=8, norm=5.0)
    noise = 0.05 + 0.3 * uniform(8, 1, seed=71)[:, 0]
    K = problem.kernel(problem.X).to_dense()
    squared = socp.squared_radius(K, problem.Y, noise, 0.05, 1.0)
    least = least_consistent_norm(problem.model, noise, fit="martingale")
    expected = socp.least_norm(K, problem.Y, noise, squared)
    assert least == pytest.approx(expected, rel=LEAST_NORM, abs=0.0)


def test_least_norm_in_outcome_units_under_standardize():
    r"""Norm bounds refer to ``f - mean`` in outcome units and ``model.covar_module``."""
    problem = make_problem(n=9, norm=5.0)
    model = standardized(problem)
    state = KernelRegression.from_model(model)
    K = problem.kernel(problem.X).to_dense()
    deviations = state.train_targets - state.project(problem.X).baseline
    # Eq. (8) for the model's own prior, scale^2 k, but the norm under k itself.
    squared = socp.squared_radius(
        state.outcome_scale**2 * K, deviations, state.noise_std, 0.05, 1.0
    )
    expected = socp.least_norm(K, deviations, state.noise_std, squared)
    least = least_consistent_norm(model, fit="martingale")
    assert least == pytest.approx(expected, rel=LEAST_NORM, abs=0.0)


def test_least_norm_is_zero_when_the_data_are_within_the_noise():
    problem = make_problem(norm=0.1, noise_std=1.0)
    assert least_consistent_norm(problem.model) == 0.0


def test_least_norm_is_finite_however_small_the_noise():
    r"""Eq. (8) grows with the data: ``quadratic_form(1/c) < r^2``, and the ridge estimate
    at ``tau = 1/c`` misfits by no more than that. No data make the norm infinite.
    """
    problem = make_problem(n=8, duplicates=True, noise_std=0.1)
    for noise_std in (1e-1, 1e-3, 1e-5):
        state = problem.state.with_noise_std(noise_std)
        ridge_norm = norm_of_ridge(problem, state.noise_std[0] ** 2)
        least = least_consistent_norm(problem.model, noise_std, fit="martingale")
        assert least <= ridge_norm


def norm_of_ridge(problem, alpha):
    K = problem.kernel(problem.X).to_dense()
    weights = torch.linalg.solve(K + alpha * torch.eye(len(K)).to(K), problem.Y)
    return float((weights @ K @ weights).sqrt())


def test_least_norm_is_infinite_when_repeated_inputs_disagree_by_more_than_the_radius():
    r"""Only for a radius other than Eq. (8)'s, which covers what repeats disagree by."""
    problem = make_problem(n=8, duplicates=True, noise_std=0.1)
    halves = problem.Y.reshape(2, 4)
    squared = float(((halves[0] - halves[1]) / 0.1).square().sum() / 2.0)
    state = problem.state
    for factor, infinite in [(0.9, True), (1.1, False)]:
        slack = factor * squared - float(state.quadratic_form(1.0))
        assert math.isinf(least_norm(state, Radius(1.0, slack))) == infinite


@pytest.mark.parametrize("fit", ["filters", "martingale"])
def test_least_norm_is_what_the_acquisition_function_reports(fit):
    problem = make_problem(norm=5.0)
    options = {"delta": 0.1, "fit": fit}
    acqf = MartingaleMixtureUCB(problem.model, norm_bound=9.0, **options)
    least = least_consistent_norm(problem.model, **options)
    assert acqf.least_consistent_norm == pytest.approx(least, rel=REARRANGED, abs=0.0)
    assert acqf.norm_bound == 9.0
