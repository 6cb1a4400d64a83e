r"""What BoTorch and Ax ask of a bound beyond ``check_band``: weights and options."""

import inspect

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import (
    ExpectationPosteriorTransform,
    GenericMCObjective,
    IdentityMCObjective,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions import UnsupportedError
from torch.testing import assert_close

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    MartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
)
from kernelucb.exceptions import SinglePrecisionWarning
from problems import make_problem, uniform
from tolerances import REARRANGED

PROBLEM = make_problem(n=8, d=2, noise_std=0.3, seed=21)
OTHER = make_problem(n=8, d=2, noise_std=0.3, seed=7)
X, PENDING = uniform(6, 2, seed=22), uniform(2, 2, seed=23)
NORM = {"norm_bound": 3.0}
OPTIONS = {
    MartingaleMixtureUCB: NORM,
    AbbasiYadkoriUCB: NORM,
    IGPUCB: NORM,
    SrinivasUCB: {},
    WangDeFreitasUCB: NORM,
    StreamingKernelUCB: NORM | {"noise_std": UnknownNoise(0.1, 1.0)},
}
every_class = pytest.mark.parametrize("acqf_class", OPTIONS)


def at(acqf, points=X):
    return acqf(points.unsqueeze(-2))


def exact(**options):
    return MartingaleMixtureUCB(PROBLEM.model, **NORM, **options)


def weights(*values, offset=0.0):
    tensor = torch.tensor(values, dtype=torch.float64)
    return ScalarizedPosteriorTransform(tensor, offset=offset)


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize(("weight", "offset"), [(-1.0, 0.0), (2.5, 0.75), (-0.5, -3.0)])
def test_a_weight_is_applied_to_the_bound(weight, offset, maximize):
    acqf = exact(posterior_transform=weights(weight, offset=offset), maximize=maximize)
    transformed = [offset + weight * bound for bound in exact().bounds(X)]
    lower, upper = sorted(transformed, key=lambda side: float(side[0]))
    expected = upper if maximize else -lower
    assert_close(at(acqf), expected, rtol=REARRANGED, atol=1e-12)


def test_posterior_transforms_that_are_refused():
    for transform, message in (
        (weights(1.0, 1.0), "2 weights; the model has 1 output"),
        (weights(0.0), "All weights"),
        (ExpectationPosteriorTransform(n_w=2), "use ScalarizedPosteriorTransform"),
    ):
        with pytest.raises(UnsupportedError, match=message):
            exact(posterior_transform=transform)


@every_class
def test_pending_value_is_the_band_of_the_larger_design(acqf_class):
    r"""Mean and width of the data, variance of data and pending points (GP-BUCB)."""
    form = {"form": "analytic"} if acqf_class is MartingaleMixtureUCB else {}
    acqf = acqf_class(PROBLEM.model, **OPTIONS[acqf_class], **form, X_pending=PENDING)
    band, state = acqf.band.confidence_set, acqf.band.confidence_set.regression
    points, larger = state.project(X), state.with_pending(PENDING)
    tau = torch.tensor(band.regularizer, dtype=torch.float64)
    variance = larger.variance_at(larger.project(X), tau)
    mean = points.baseline + state.deviation_at(points, tau)
    expected = mean + band.width * variance.sqrt()
    assert_close(at(acqf), expected, rtol=REARRANGED, atol=1e-12)


def test_single_precision_points_warn():
    acqf = exact()
    with pytest.warns(SinglePrecisionWarning, match=r"float32.*Use float64"):
        at(acqf, X.float())
    with pytest.warns(SinglePrecisionWarning):
        lower, _ = acqf.bounds(X.float())
    assert lower.dtype == torch.float32


def test_many_points_are_what_their_parts_are():
    r"""Values, bounds and gradients do not show that they were computed in parts."""
    acqf, many = exact(), uniform(1100, 2, 3).requires_grad_()
    values, (lower, upper) = at(acqf, many), acqf.bounds(many)
    (gradient,) = torch.autograd.grad((values + upper - 2.0 * lower).sum(), many)
    for part in (slice(0, 5), slice(510, 515), slice(1095, 1100)):
        few = many[part].detach().requires_grad_()
        value, (low, high) = at(acqf, few), acqf.bounds(few)
        expected = torch.autograd.grad((value + high - 2.0 * low).sum(), few)[0]
        for own, wanted in ((values, value), (lower, low), (upper, high)):
            assert_close(own[part], wanted, rtol=REARRANGED, atol=0.0)
        assert_close(gradient[part], expected, rtol=REARRANGED, atol=1e-12)


class TestInputConstructors:
    @every_class
    def test_options_arrive(self, acqf_class):
        streaming = acqf_class is StreamingKernelUCB
        options = OPTIONS[acqf_class] | {
            "noise_std": UnknownNoise(0.05, 0.5) if streaming else 0.2,
            "delta": 0.01,
            "maximize": False,
            "X_pending": X[:1],
            "posterior_transform": weights(-2.0),
        }
        arguments = get_acqf_input_constructor(acqf_class)(model=PROBLEM.model, **options)
        value = at(acqf_class(**arguments))
        assert_close(value, at(acqf_class(PROBLEM.model, **options)))
        plain = at(acqf_class(PROBLEM.model, **OPTIONS[acqf_class]))
        assert (value - plain).abs().max() > 1e-2

    @every_class
    def test_what_ax_always_passes_is_accepted_and_nothing_else_is_ignored(
        self, acqf_class
    ):
        construct = get_acqf_input_constructor(acqf_class)
        streaming = acqf_class is StreamingKernelUCB
        needed = {"noise_std": UnknownNoise(0.1, 1.0)} if streaming else {}
        always = {"X_baseline": PROBLEM.X, "training_data": object(), "X_pending": None}
        always |= {"constraints": None, "objective_thresholds": None}
        always |= {"objective": IdentityMCObjective(), "posterior_transform": None}
        arguments = construct(model=PROBLEM.model, **needed, **always)
        assert set(arguments) <= set(inspect.signature(acqf_class).parameters)
        assert bool(at(acqf_class(**arguments)).isfinite().all())
        for name, value in {
            "constraints": [lambda Y: Y[..., 0]],
            "constraints_tuple": (torch.ones(1, 1), torch.zeros(1, 1)),
            "objective_thresholds": torch.zeros(2),
            "ref_point": [0.0, 0.0],
            "objective": GenericMCObjective(lambda Y, X=None: Y[..., 0] ** 2),
        }.items():
            with pytest.raises(UnsupportedError, match=f"does not take `{name}`"):
                construct(model=PROBLEM.model, **needed, **{name: value})
        with pytest.raises(TypeError, match="normbound"):
            construct(model=PROBLEM.model, **needed, normbound=1.0)
        with pytest.raises(TypeError, match="positional arguments"):
            acqf_class(PROBLEM.model, 3.0)
