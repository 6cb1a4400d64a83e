r"""Symmetries: units of the outcomes, order of the data, sign, shift, repeats."""

import pytest
from botorch.models.transforms.outcome import Standardize
from gpytorch.kernels import ScaleKernel
from hypothesis import example, given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import (
    AbbasiYadkoriUCB,
    Filters,
    Grid,
    KernelRegression,
    MartingaleMixture,
    MartingaleMixtureUCB,
    least_consistent_norm,
)
from problems import KERNELS, float64, frozen_model, make_problem
from tolerances import PERMUTATION, SCALE

problems = st.builds(
    make_problem,
    n=st.integers(2, 12),
    d=st.integers(1, 2),
    kernel=st.sampled_from(KERNELS),
    norm=st.floats(0.5, 5.0),
    noise_std=st.floats(0.05, 1.0),
    seed=st.integers(0, 10_000),
)
units = st.sampled_from([1e-6, 1e-3, 0.37, 10.0, 1e4, 1e7])
FORMS = [{}, {"form": Grid()}, {"form": "analytic"}]
forms = pytest.mark.parametrize("form", FORMS, ids=["exact", "grid", "analytic"])


def assert_scaled(scaled, band, scale, norm, tolerance):
    r"""Relative to the half-width of the norm ball, the unit of every band."""
    for one, other in zip(scaled, band, strict=True):
        assert_close(one / scale, other, rtol=tolerance, atol=tolerance * norm)


@forms
@given(problems, units)
def test_units_of_a_standardized_model(form, problem, scale):
    r"""The kernel is relative to the standardised outcomes: only ``B`` has units."""
    norm = 3.0 * problem.function.norm + 3.0
    bands = []
    for s in (1.0, scale):
        model = frozen_model(
            problem.X,
            s * problem.Y,
            problem.kernel,
            problem.noise_std / float(problem.Y.std()),
            mean=0.1,
            outcome_transform=Standardize(m=1, min_stdv=1e-14),
        )
        acqf = MartingaleMixtureUCB(model, norm_bound=s * norm, **form)
        bands.append(acqf.bounds(problem.test_X))
    assert_scaled(bands[1], bands[0], scale, norm, SCALE)


@forms
@given(problems, units)
@example(make_problem(n=4, d=2, norm=1.0, noise_std=1.0, seed=387), 1e-6)  # at an input
def test_units_of_a_plain_kernel(form, problem, scale):
    r"""``(y, B, sigma)`` times ``s`` under the same kernel: the mixture's covariance
    ``c K`` must stay the same multiple of the noise, so ``c`` goes with ``s^2``.
    """
    norm = 3.0 * problem.function.norm + 3.0
    bands = []
    for s in (1.0, scale):
        state = KernelRegression(
            problem.X, s * problem.Y, problem.kernel, s * problem.noise_std
        )
        acqf = MartingaleMixtureUCB(state, norm_bound=s * norm, fit=Filters(s**2), **form)
        bands.append(acqf.bounds(problem.test_X))
    assert_scaled(bands[1], bands[0], scale, norm, SCALE)


@forms
@given(problems, units)
def test_output_scale_moves_between_kernel_and_norm(form, problem, scale):
    r"""``||f||`` under ``s^2 k`` is ``||f||`` under ``k`` over ``s``."""
    norm = 3.0 * problem.function.norm + 3.0
    kernel = ScaleKernel(problem.kernel).double().requires_grad_(False)
    kernel.outputscale = float64(scale**2)
    state = KernelRegression(problem.X, problem.Y, kernel, problem.noise_std)
    acqf = MartingaleMixtureUCB(
        state, norm_bound=norm / scale, fit=Filters(scale**-2), **form
    )
    plain = MartingaleMixtureUCB(problem.state, norm_bound=norm, **form)
    bands = acqf.bounds(problem.test_X), plain.bounds(problem.test_X)
    assert_scaled(*bands, 1.0, norm, SCALE)


@given(problems, units)
def test_units_of_the_least_norm(problem, scale):
    state = KernelRegression(
        problem.X, scale * problem.Y, problem.kernel, scale * problem.noise_std
    )
    options = {"fit": MartingaleMixture(scale**2)}
    least = least_consistent_norm(state, **options) / scale
    expected = least_consistent_norm(problem.state, fit="martingale")
    assert least == pytest.approx(expected, rel=SCALE, abs=SCALE)


@forms
@given(problems, st.randoms(use_true_random=False))
def test_order_of_the_data(form, problem, random):
    norm = 3.0 * problem.function.norm + 3.0
    order = list(range(len(problem.X)))
    random.shuffle(order)
    state = KernelRegression(
        problem.X[order], problem.Y[order], problem.kernel, problem.noise_std
    )
    shuffled = MartingaleMixtureUCB(state, norm_bound=norm, **form)
    straight = MartingaleMixtureUCB(problem.state, norm_bound=norm, **form)
    bands = shuffled.bounds(problem.test_X), straight.bounds(problem.test_X)
    assert_scaled(*bands, 1.0, norm, PERMUTATION)


@forms
@given(problems)
def test_mirrored_outcomes_swap_the_sides(form, problem):
    norm = 3.0 * problem.function.norm + 3.0
    state = KernelRegression(problem.X, -problem.Y, problem.kernel, problem.noise_std)
    mirrored = MartingaleMixtureUCB(state, norm_bound=norm, **form)
    lower, upper = mirrored.bounds(problem.test_X)
    straight = MartingaleMixtureUCB(problem.state, norm_bound=norm, **form)
    assert_scaled((-upper, -lower), straight.bounds(problem.test_X), 1.0, norm, SCALE)


@given(problems, st.floats(-100.0, 100.0))
def test_a_known_mean_shifts_everything(problem, shift):
    norm = 3.0 * problem.function.norm + 3.0
    model = frozen_model(
        problem.X, problem.Y + shift, problem.kernel, problem.noise_std, mean=shift
    )
    for acqf_class in (MartingaleMixtureUCB, AbbasiYadkoriUCB):
        shifted = acqf_class(model, norm_bound=norm).bounds(problem.test_X)
        plain = acqf_class(problem.state, norm_bound=norm).bounds(problem.test_X)
        band = [side - shift for side in shifted]
        assert_scaled(band, plain, 1.0, norm, SCALE)


@given(problems, st.integers(2, 4))
def test_repeats_with_more_noise_are_one_observation_of_the_average(problem, count):
    r"""For the ridge estimate; the log-determinant agrees as well (Sylvester)."""
    many = KernelRegression(
        problem.X.repeat(count, 1),
        problem.Y.repeat(count),
        problem.kernel,
        problem.noise_std * count**0.5,
    )
    one = problem.state
    tolerance = {"rtol": PERMUTATION, "atol": PERMUTATION}
    assert_close(many.mean(problem.test_X), one.mean(problem.test_X), **tolerance)
    assert_close(many.variance(problem.test_X), one.variance(problem.test_X), **tolerance)
    assert_close(many.log_det(), one.log_det(), rtol=PERMUTATION, atol=PERMUTATION)
