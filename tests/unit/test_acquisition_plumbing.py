r"""What BoTorch asks of an acquisition function, for every bound."""

import pickle
import warnings
from copy import deepcopy

import pytest
import torch
from botorch.acquisition.objective import (
    ExpectationPosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions import UnsupportedError
from torch.testing import assert_close

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    Grid,
    MartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
)
from kernelucb.exceptions import SinglePrecisionWarning
from problems import frozen_model, make_problem, uniform
from tolerances import CONVEX_VALUE, REARRANGED, SINGLE

PROBLEM = make_problem(n=8, d=2, noise_std=0.3, seed=21)
X = uniform(6, 2, seed=22)
PENDING = uniform(2, 2, seed=23)

BOUNDS = {
    "exact": (MartingaleMixtureUCB, {"norm_bound": 3.0}),
    "grid": (MartingaleMixtureUCB, {"norm_bound": 3.0, "form": Grid()}),
    "analytic": (MartingaleMixtureUCB, {"norm_bound": 3.0, "form": "analytic"}),
    "convex": (MartingaleMixtureUCB, {"norm_bound": 3.0, "form": "convex"}),
    "Abbasi-Yadkori": (AbbasiYadkoriUCB, {"norm_bound": 3.0}),
    "IGP": (IGPUCB, {"norm_bound": 3.0}),
    "Srinivas": (SrinivasUCB, {}),
    "Wang-de Freitas": (WangDeFreitasUCB, {"norm_bound": 3.0}),
    "streaming": (
        StreamingKernelUCB,
        {"norm_bound": 3.0, "noise_std": UnknownNoise(0.1, 1.0)},
    ),
}


def build(name, **options):
    acqf_class, defaults = BOUNDS[name]
    return acqf_class(PROBLEM.model, **{**defaults, **options})


@pytest.fixture(params=BOUNDS)
def name(request):
    return request.param


def test_value_is_the_upper_bound(name):
    acqf = build(name)
    assert_close(acqf(X.unsqueeze(-2)), acqf.bounds(X)[1], rtol=REARRANGED, atol=1e-12)


def test_minimizing_is_minus_the_lower_bound(name):
    acqf = build(name, maximize=False)
    lower, _ = build(name).bounds(X)
    assert_close(acqf(X.unsqueeze(-2)), -lower, rtol=REARRANGED, atol=1e-12)
    assert_close(acqf.bounds(X)[0], lower)  # bounds have no sign


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize(("weight", "offset"), [(-1.0, 0.0), (2.5, 0.75), (-0.5, -3.0)])
def test_posterior_transform_is_applied_to_the_bound(name, weight, offset, maximize):
    transform = ScalarizedPosteriorTransform(
        weights=torch.tensor([weight], dtype=torch.float64), offset=offset
    )
    acqf = build(name, posterior_transform=transform, maximize=maximize)
    transformed = [offset + weight * bound for bound in build(name).bounds(X)]
    lower, upper = sorted(transformed, key=lambda side: float(side[0]))
    assert bool((lower <= upper).all())
    expected = upper if maximize else -lower
    assert_close(acqf(X.unsqueeze(-2)), expected, rtol=REARRANGED, atol=1e-12)
    assert_close(acqf.bounds(X), build(name).bounds(X))  # bounds have no transform


def test_posterior_transforms_that_are_refused(name):
    two = ScalarizedPosteriorTransform(weights=torch.ones(2, dtype=torch.float64))
    with pytest.raises(UnsupportedError, match="2 weights; the model has 1 output"):
        build(name, posterior_transform=two)
    zero = ScalarizedPosteriorTransform(weights=torch.zeros(1, dtype=torch.float64))
    with pytest.raises(UnsupportedError, match="All weights"):
        build(name, posterior_transform=zero)
    with pytest.raises(UnsupportedError, match="use ScalarizedPosteriorTransform"):
        build(name, posterior_transform=ExpectationPosteriorTransform(n_w=2))


@pytest.mark.parametrize("maximize", [True, False])
def test_pending_points_lower_the_value_and_nothing_else(name, maximize):
    acqf = build(name, maximize=maximize)
    everywhere = torch.cat([PENDING, X]).unsqueeze(-2)
    before, bounds = acqf(everywhere), acqf.bounds(X)
    mean = acqf.regression.mean(X)
    acqf.set_X_pending(PENDING)
    assert torch.equal(acqf.X_pending, PENDING)
    after = acqf(everywhere)
    assert bool((after[:2] < before[:2] - 1e-2).all())  # at the pending points, clearly
    tolerance = CONVEX_VALUE if name == "convex" else REARRANGED
    assert bool((after <= before + tolerance).all())
    assert_close(acqf.bounds(X), bounds)
    assert torch.equal(acqf.regression.mean(X), mean)
    for nothing in (None, PENDING[:0]):
        acqf.set_X_pending(PENDING)
        acqf.set_X_pending(nothing)
        assert acqf.X_pending is None
        assert_close(acqf(everywhere), before, rtol=REARRANGED, atol=1e-8)


def test_pending_points_at_construction(name):
    later = build(name)
    later.set_X_pending(PENDING)
    acqf = build(name, X_pending=PENDING)
    assert_close(acqf(X.unsqueeze(-2)), later(X.unsqueeze(-2)))


@pytest.mark.parametrize(
    "name",
    ["analytic", "Abbasi-Yadkori", "IGP", "Srinivas", "Wang-de Freitas", "streaming"],
)
def test_pending_value_is_the_band_of_the_larger_design(name):
    r"""Mean and width of the data, variance of data and pending points (GP-BUCB)."""
    acqf = build(name, X_pending=PENDING)
    band, state = acqf.confidence_set, acqf.confidence_set.regression
    points, larger = state.project(X), state.with_pending(PENDING)
    tau = torch.tensor(band.regularizer, dtype=torch.float64)
    variance = larger.variance_at(larger.project(X), tau)
    mean = points.baseline + state.deviation_at(points, tau)
    expected = mean + band.width * variance.sqrt()
    assert_close(acqf(X.unsqueeze(-2)), expected, rtol=REARRANGED, atol=1e-12)


def test_batch_shapes(name):
    acqf = build(name)
    flat = acqf(X.unsqueeze(-2))
    assert flat.shape == (6,)
    assert_close(acqf(X.reshape(2, 3, 1, 2)), flat.reshape(2, 3), rtol=1e-8, atol=1e-8)
    assert_close(acqf(X[:1]), flat[:1], rtol=1e-8, atol=1e-8)
    lower, upper = acqf.bounds(X)
    assert lower.shape == upper.shape == (6,)


@pytest.mark.parametrize("name", [name for name in BOUNDS if name != "convex"])
def test_no_points(name):
    acqf = build(name)
    assert acqf(X[:0].unsqueeze(-2)).shape == (0,)


def test_second_backward(name):
    acqf, gradients = build(name), []
    for _ in range(2):
        points = X.unsqueeze(-2).clone().requires_grad_(True)
        acqf(points).sum().backward()
        gradients.append(points.grad)
    assert_close(gradients[0], gradients[1], rtol=1e-6, atol=1e-6)
    assert gradients[0].abs().max() > 1e-3


@pytest.mark.parametrize("copier", [deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
def test_copies(name, copier):
    acqf = build(name, X_pending=PENDING)
    points = X.unsqueeze(-2).requires_grad_(True)
    value = acqf(points)
    value.sum().backward()
    acqf.bounds(X)  # compiles the conic program
    copy = copier(acqf)
    assert_close(copy(points), value)
    assert_close(copy.bounds(X), acqf.bounds(X), rtol=1e-8, atol=1e-8)
    assert copy.assumptions == acqf.assumptions
    copy.set_X_pending(None)
    assert acqf.X_pending is not None


def test_single_precision_points_warn_once_and_are_computed_in_double(name):
    acqf, single = build(name), X.float()
    with pytest.warns(SinglePrecisionWarning, match=r"float32.*Use float64"):
        value = acqf(single.unsqueeze(-2))
    lower, upper = acqf.bounds(single)  # a second warning would be an error here
    expected = build(name)(single.double().unsqueeze(-2))
    assert value.dtype == lower.dtype == upper.dtype == torch.float32
    assert expected.dtype == torch.float64
    assert_close(value.double(), expected, rtol=2 * SINGLE, atol=1e-8)


def test_double_precision_points_do_not_warn(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error", SinglePrecisionWarning)
        build(name)(X.unsqueeze(-2))


def test_mean_enters_the_value():
    r"""A known mean shifts data, value and bounds alike."""
    shifted = frozen_model(
        PROBLEM.X, PROBLEM.Y + 4.0, PROBLEM.kernel, PROBLEM.noise_std, mean=4.0
    )
    acqf = MartingaleMixtureUCB(shifted, norm_bound=3.0)
    for one, other in zip(acqf.bounds(X), build("exact").bounds(X), strict=True):
        assert_close(one - 4.0, other, rtol=1e-9, atol=1e-9)


def test_many_points_are_what_their_parts_are():
    r"""Values, bounds and gradients do not show that they were computed in parts."""
    acqf, many = build("exact"), uniform(1100, 2, 3).requires_grad_()
    values, (lower, upper) = acqf(many.unsqueeze(-2)), acqf.bounds(many)
    (gradient,) = torch.autograd.grad((values + upper - 2.0 * lower).sum(), many)
    for part in (slice(0, 5), slice(510, 515), slice(1095, 1100)):
        few = many[part].detach().requires_grad_()
        value, (low, high) = acqf(few.unsqueeze(-2)), acqf.bounds(few)
        expected = torch.autograd.grad((value + high - 2.0 * low).sum(), few)[0]
        for own, wanted in ((values, value), (lower, low), (upper, high)):
            assert_close(own[part], wanted, rtol=REARRANGED, atol=0.0)
        assert_close(gradient[part], expected, rtol=REARRANGED, atol=1e-12)
