r"""Bounds in common use against the papers' formulas."""

import math
from functools import partial

import pytest
import torch
from botorch.models.transforms.outcome import Standardize
from scipy.stats import norm as norm_law
from torch.testing import assert_close

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    KernelRegression,
    SrinivasUCB,
    WangDeFreitasUCB,
)
from kernelucb.confidence.assumptions import Status
from kernelucb.papers import BoundedNorm, CompactDomain, FiniteDomain
from oracles import closed_forms
from problems import frozen_kernel, frozen_model, make_problem
from tolerances import LINEAR_SOLVE, REARRANGED

N, DELTA, NORM = 12, 0.1, 3.0
CLOSE = {"rtol": LINEAR_SOLVE, "atol": LINEAR_SOLVE}


@pytest.fixture(params=["rbf", "matern32"])
def problem(request):
    return make_problem(n=N, d=2, kernel=request.param, noise_std=0.2, seed=33)


def arrays(problem):
    K = problem.kernel(problem.X).to_dense()
    k = problem.kernel(problem.test_X, problem.X).to_dense()
    return K, k, problem.kernel(problem.test_X, diag=True), problem.Y


def assert_band(acqf, problem, mean, half):
    lower, upper = acqf.bounds(problem.test_X)
    assert_close(lower, mean - half, **CLOSE)
    assert_close(upper, mean + half, **CLOSE)


RIDGE = [
    (AbbasiYadkoriUCB, {}, partial(closed_forms.abbasi_yadkori, alpha=0.2**2)),
    (AbbasiYadkoriUCB, {"alpha": 1.7}, partial(closed_forms.abbasi_yadkori, alpha=1.7)),
    (IGPUCB, {"horizon": N}, partial(closed_forms.improved_gp_ucb, horizon=N)),
    (IGPUCB, {"horizon": 1000}, partial(closed_forms.improved_gp_ucb, horizon=1000)),
    (WangDeFreitasUCB, {}, closed_forms.wang_de_freitas),
]


@pytest.mark.parametrize(("acqf_class", "options", "formula"), RIDGE)
def test_ridge_bands(problem, acqf_class, options, formula):
    acqf = acqf_class(problem.model, norm_bound=NORM, delta=DELTA, **options)
    assert_band(acqf, problem, *formula(*arrays(problem), 0.2, NORM, DELTA))


def posterior_band(problem, beta):
    mean, sd = closed_forms.ridge(*arrays(problem), 0.2**2)
    return mean, math.sqrt(beta) * sd


@pytest.mark.parametrize(
    ("theorem", "beta"),
    [
        (FiniteDomain(500), closed_forms.srinivas_finite(N + 1, DELTA, 500)),
        (
            CompactDomain(length=2.0, lipschitz_a=1.5, lipschitz_b=0.7),
            closed_forms.srinivas_compact(N + 1, DELTA, 2, 2.0, 1.5, 0.7),
        ),
    ],
)
def test_srinivas_on_domains(problem, theorem, beta):
    r"""Their experiments divide beta by five: a scale multiplies it."""
    for scale in (1.0, 0.2):
        acqf = SrinivasUCB(problem.model, delta=DELTA, theorem=theorem, scale=scale)
        assert_band(acqf, problem, *posterior_band(problem, scale * beta))
        assert acqf.band.constants["beta"] == pytest.approx(beta, rel=REARRANGED)


@pytest.mark.parametrize("gain", [None, 4.5, 450.0])
def test_srinivas_in_the_rkhs(problem, gain):
    acqf = SrinivasUCB(problem.model, delta=DELTA, theorem=BoundedNorm(NORM, gain))
    K = problem.kernel(problem.X).to_dense()
    observed = 0.5 * closed_forms.log_det(K, 0.2**2)
    used = observed if gain is None else gain
    beta = closed_forms.srinivas_rkhs(N + 1, DELTA, NORM, used)
    assert_band(acqf, problem, *posterior_band(problem, beta))
    assert 4.5 < observed < 450.0  # a gain below that of the data cannot be the largest
    expected = {None: Status.ESTIMATED, 4.5: Status.VIOLATED, 450.0: Status.GIVEN}[gain]
    assert acqf.assumptions["information gain"].status is expected


@pytest.mark.parametrize("acqf_class", [IGPUCB, WangDeFreitasUCB])
def test_one_noise_scale_is_the_largest_of_several(problem, acqf_class):
    noise = torch.linspace(0.1, 0.5, N, dtype=torch.float64)
    state = KernelRegression(problem.X, problem.Y, problem.kernel, noise)
    largest = state.with_noise_std(0.5)
    one, other = (acqf_class(s, norm_bound=NORM) for s in (state, largest))
    assert_close(one.bounds(problem.test_X), other.bounds(problem.test_X))


@pytest.mark.parametrize("acqf_class", [AbbasiYadkoriUCB, IGPUCB, WangDeFreitasUCB])
def test_standardized_model_is_the_formula_in_the_units_of_its_kernel(problem, acqf_class):
    r"""``alpha = 1 + eta`` and the mixed terms of Wang & de Freitas are not free of
    units: they refer to ``covar_module`` as it stands. Bounds scale back to outcomes.
    """
    outcomes, transform = 50.0 + 7.0 * problem.Y, Standardize(m=1)
    given = {"outcome_transform": transform}
    standardize = frozen_model(problem.X, outcomes, problem.kernel, 0.2, **given)
    constant = KernelRegression.from_model(standardize).outcome_scale
    centred = (outcomes - outcomes.mean()) / constant
    plain = frozen_model(problem.X, centred, problem.kernel, 0.2)
    band = acqf_class(standardize, norm_bound=NORM * constant)
    assert band.band.norm_bounds[0] == pytest.approx(NORM * constant)
    outcome = band.bounds(problem.test_X)
    unit = acqf_class(plain, norm_bound=NORM).bounds(problem.test_X)
    for one, other in zip(outcome, unit, strict=True):
        assert_close(one, outcomes.mean() + constant * other, **CLOSE)


def exact_violation(half_width, ratio, norm, unit):
    r"""How often ``|f(x) - mean| > half_width`` at the one observed input, Gaussian noise.

    With ``k(x, x) = unit^2``, noise ``ratio unit`` and ``f = norm k(x, .) / unit`` the
    value is ``norm unit`` and the estimate ``1 / (1 + ratio^2)`` of it, plus noise.
    """
    shrunk = 1.0 / (1.0 + ratio**2)
    bias, scale = norm * unit * (1.0 - shrunk), shrunk * ratio * unit
    tails = (
        norm_law.sf((half_width - bias) / scale),
        norm_law.sf((half_width + bias) / scale),
    )
    return sum(tails)


@pytest.mark.covering(2)
@pytest.mark.parametrize("unit", [1e-3, 1.0])
@pytest.mark.parametrize("ratio", [0.01, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("norm", [0.01, 1.0, 5.0])
def test_wang_de_freitas_holds_where_the_printed_formula_does_not(unit, ratio, norm):
    r"""With one observation the probability is a Gaussian tail, without simulation.

    The last term of the printed width is times the noise scale: too narrow at small noise
    and small ``delta``.
    """
    X = torch.zeros(1, 1, dtype=torch.float64)
    state = KernelRegression(X, X, frozen_kernel("rbf", 0.5, unit**2), ratio * unit)
    for delta in (0.3, 0.1, 1e-2, 1e-4, 1e-6, 1e-9):
        acqf = WangDeFreitasUCB(state, norm_bound=norm, delta=delta, fixed_design=True)
        lower, upper = acqf.bounds(X)
        half_width = 0.5 * float(upper - lower)
        assert exact_violation(half_width, ratio, norm, unit) <= delta
        if (delta, unit, ratio, norm) == (1e-6, 1e-3, 1.0, 0.01):
            width, log = acqf.band.confidence_set.width, math.log(2.0 / delta)
            printed = math.sqrt(width**2 - 2.0 * log + 2.0 * ratio * unit * log)
            printed_width = half_width * printed / width
            assert exact_violation(printed_width, ratio, norm, unit) > 100.0 * delta
