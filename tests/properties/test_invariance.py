r"""Symmetries of bands on random problems: units, sign, shift, order, repeats."""

import itertools

import pytest
import torch
from botorch.models.transforms.outcome import Standardize
from gpytorch.kernels import ScaleKernel
from hypothesis import example, given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import (
    AbbasiYadkoriUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    least_consistent_norm,
)
from problems import KERNELS, float64, frozen_model, generator, make_problem
from tolerances import PERMUTATION, SCALE


def is_clear(problem):
    r"""Whether no eigenvalue is so near the cut-off that round-off decides if it counts."""
    state = problem.state
    gram = state.prior.gram(state.distinct_inputs, state.distinct_noise_std)
    ratio = torch.linalg.eigvalsh(gram) / state.eigenvalue_cutoff
    return not bool(((ratio > 0.5) & (ratio < 2.0)).any())


problems = st.builds(
    make_problem,
    n=st.integers(2, 12),
    d=st.integers(1, 2),
    kernel=st.sampled_from(KERNELS),
    norm=st.floats(0.5, 5.0),
    noise_std=st.floats(0.05, 1.0),
    seed=st.integers(0, 10_000),
).filter(is_clear)
units = st.sampled_from([1e-6, 1e-3, 0.37, 10.0, 1e4, 1e7])
FORMS = ("dual", "grid", "analytic")


def state_of(problem, sign=1.0, scale=1.0, kernel=None, order=slice(None)):
    r"""The data in other units, mirrored or in another order."""
    kernel = problem.kernel if kernel is None else kernel
    X, Y = problem.X[order], sign * scale * problem.Y[order]
    return KernelRegression(X, Y, kernel, scale * problem.noise_std)


def standardized(problem, scale, norm, options):
    r"""The kernel is relative to the standardised outcomes: only ``B`` has units."""

    def band(s):
        model = frozen_model(
            problem.X,
            s * problem.Y,
            problem.kernel,
            problem.noise_std / float(problem.Y.std()),
            mean=0.1,
            outcome_transform=Standardize(m=1, min_stdv=1e-14),
        )
        acqf = MartingaleMixtureUCB(model, norm_bound=s * norm, **options)
        return [side / s for side in acqf.bounds(problem.test_X)]

    return band(scale), band(1.0)


def plain_kernel(problem, scale, norm, options):
    r"""``(y, B, sigma)`` times ``s`` under the same kernel: the mixture's covariance
    ``c K`` must stay the same multiple of the noise, so ``c`` goes with ``s^2``.
    """
    options = {"norm_bound": scale * norm, "covariance_scale": scale**2, **options}
    acqf = MartingaleMixtureUCB(state_of(problem, scale=scale), **options)
    return [side / scale for side in acqf.bounds(problem.test_X)], None


def output_scale(problem, scale, norm, options):
    r"""``||f||`` under ``s^2 k`` is ``||f||`` under ``k`` over ``s``."""
    kernel = ScaleKernel(problem.kernel).double().requires_grad_(False)
    kernel.outputscale = float64(scale**2)
    options = {"norm_bound": norm / scale, "covariance_scale": scale**-2, **options}
    acqf = MartingaleMixtureUCB(state_of(problem, kernel=kernel), **options)
    return acqf.bounds(problem.test_X), None


def mirrored(problem, _, norm, options):
    acqf = MartingaleMixtureUCB(state_of(problem, sign=-1.0), norm_bound=norm, **options)
    lower, upper = acqf.bounds(problem.test_X)
    return (-upper, -lower), None


def reordered(problem, scale, norm, options):
    order = torch.randperm(len(problem.X), generator=generator(int(1e7 * scale)))
    acqf = MartingaleMixtureUCB(state_of(problem, order=order), norm_bound=norm, **options)
    return acqf.bounds(problem.test_X), None


SYMMETRIES = (standardized, plain_kernel, output_scale, mirrored, reordered)


# The contract reorders the data of every band; units and kernels are read before the form.
QUICK = {
    *((symmetry, "dual") for symmetry in SYMMETRIES[:-1]),
    *((plain_kernel, form) for form in FORMS),
    (mirrored, "analytic"),
}


@pytest.mark.parametrize(
    ("symmetry", "form"),
    [
        pytest.param(*each, marks=[] if each in QUICK else [pytest.mark.slow])
        for each in itertools.product(SYMMETRIES, FORMS)
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
@given(problems, units)
@example(make_problem(n=4, d=2, norm=1.0, noise_std=1.0, seed=387), 1e-6)  # at an input
def test_the_band_is_the_same(symmetry, form, problem, scale):
    r"""Relative to the half-width of the norm ball, the unit of every band."""
    norm, options = 3.0 * problem.function.norm + 3.0, {"form": form}
    found, expected = symmetry(problem, scale, norm, options)
    if expected is None:
        acqf = MartingaleMixtureUCB(problem.state, norm_bound=norm, **options)
        expected = acqf.bounds(problem.test_X)
    tolerance = PERMUTATION if symmetry is reordered else SCALE
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, rtol=tolerance, atol=tolerance * norm)


@given(problems, units)
def test_units_of_the_least_norm(problem, scale):
    options = {"fit": "martingale", "covariance_scale": scale**2}
    least = least_consistent_norm(state_of(problem, scale=scale), **options) / scale
    expected = least_consistent_norm(problem.state, fit="martingale")
    assert float(least) == pytest.approx(float(expected), rel=SCALE, abs=SCALE)


@given(problems, st.floats(-100.0, 100.0))
def test_a_known_mean_shifts_everything(problem, shift):
    norm, Y = 3.0 * problem.function.norm + 3.0, problem.Y + shift
    model = frozen_model(problem.X, Y, problem.kernel, problem.noise_std, mean=shift)
    for acqf_class in (MartingaleMixtureUCB, AbbasiYadkoriUCB):
        shifted, plain = (
            acqf_class(each, norm_bound=norm).bounds(problem.test_X)
            for each in (model, problem.state)
        )
        for one, other in zip(shifted, plain, strict=True):
            assert_close(one - shift, other, rtol=SCALE, atol=SCALE * norm)


@given(problems, st.integers(2, 4))
def test_repeats_with_more_noise_are_one_observation_of_the_average(problem, count):
    r"""For the ridge estimate; the log-determinant agrees as well (Sylvester)."""
    X, Y, noise = problem.X, problem.Y, problem.noise_std * count**0.5
    many = KernelRegression(X.repeat(count, 1), Y.repeat(count), problem.kernel, noise)
    one, points = problem.state, problem.test_X
    for one_by_one, other in (
        (many.mean(points), one.mean(points)),
        (many.variance(points), one.variance(points)),
        (many.log_det(), one.log_det()),
    ):
        assert_close(one_by_one, other, rtol=PERMUTATION, atol=PERMUTATION)
