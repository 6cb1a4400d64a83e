r"""A norm bound from the data: what it is, what it says, and that it never falls."""

import json
import math
import re

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.outcome import Standardize
from torch.testing import assert_close

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    KernelRegression,
    KernelThompsonSampling,
    MartingaleMixtureUCB,
    NormTracker,
    PrequentialRadius,
    SrinivasUCB,
    StreamingKernelUCB,
    StreamingNoiseTracker,
    UnknownNoise,
    WangDeFreitasUCB,
    least_consistent_norm,
)
from kernelucb.acquisition import BoundedNorm
from kernelucb.confidence.assumptions import Status
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from problems import frozen_model, make_problem
from tolerances import REARRANGED

UNKNOWN = {"noise_std": UnknownNoise(0.02, 1.0)}


def srinivas(model, norm_bound=None):
    return SrinivasUCB(model, theorem=BoundedNorm(norm_bound))


BOUNDS = {
    "exact": (MartingaleMixtureUCB, {}),
    "analytic": (MartingaleMixtureUCB, {"form": "analytic"}),
    "convex": (MartingaleMixtureUCB, {"form": "convex"}),
    "unknown noise": (MartingaleMixtureUCB, {"noise_std": UnknownNoise()}),
    "AY": (AbbasiYadkoriUCB, {}),
    "IGP": (IGPUCB, {}),
    "WdF": (WangDeFreitasUCB, {}),
    "Srinivas": (srinivas, {}),
    "streaming": (StreamingKernelUCB, UNKNOWN),
}


@pytest.fixture
def problem():
    return make_problem(n=12, norm=5.0, seed=5)


@pytest.mark.parametrize("name", BOUNDS)
def test_the_estimate_is_a_norm_bound_like_any_other(problem, name):
    r"""The band is that of the number it reports; only the assumptions differ."""
    acqf_class, options = BOUNDS[name]
    estimated = acqf_class(problem.model, **options)
    tracker = NormTracker()
    acqf_class(problem.model, norm_bound=tracker, **options)
    given = acqf_class(problem.model, norm_bound=float(tracker.norm_bound), **options)
    for one, other in zip(
        estimated.bounds(problem.test_X), given.bounds(problem.test_X), strict=True
    ):
        assert_close(one, other, rtol=REARRANGED, atol=REARRANGED)
    norm = estimated.assumptions["norm"]
    assert norm.status is Status.ESTIMATED
    assert not estimated.assumptions.certified
    assert given.assumptions["norm"].status is Status.GIVEN
    least = f"{tracker.least_consistent_norm:.6g}"
    assert re.search(rf"at most {tracker.norm_bound:.6g}, .* at least {least}", str(norm))


@pytest.mark.parametrize("options", [{"noise_std": 0.1}, UNKNOWN])
def test_thompson_sampling(problem, options):
    tracker = NormTracker()
    sampler = KernelThompsonSampling(problem.model, norm_bound=tracker, **options)
    number = float(tracker.norm_bound)
    given = KernelThompsonSampling(problem.model, norm_bound=number, **options)
    assert sampler.assumptions["norm"].status is Status.ESTIMATED
    assert sampler.inflation_factor == pytest.approx(given.inflation_factor)


def test_the_cautious_one_is_larger(problem):
    cautious, default = NormTracker.cautious(), NormTracker()
    assert cautious.observe(problem.model) >= 1.2 * default.observe(problem.model)


def test_the_formula(problem):
    least = least_consistent_norm(problem.model)
    assert least > 0.5
    sd = math.sqrt(float(problem.kernel(problem.X[:1]).to_dense()))
    for inflation, floor in [(1.0, 2.0), (1.0, 0.1), (3.0, 0.1)]:
        tracker = NormTracker(inflation=inflation, floor=floor)
        expected = max(inflation * least, math.hypot(least, floor * sd))
        assert tracker.observe(problem.model) == pytest.approx(expected)
        assert tracker.least_consistent_norm == pytest.approx(least)


def test_without_information_it_is_the_floor():
    problem = make_problem(n=2, norm=1.0, noise_std=50.0)
    assert least_consistent_norm(problem.model) == 0.0
    acqf = MartingaleMixtureUCB(problem.model, norm_bound=NormTracker(floor=2.5))
    assert acqf.norm_bound == pytest.approx(2.5)
    assert acqf.least_consistent_norm == 0.0


def test_it_never_falls_over_rounds():
    r"""A smoother function, an outlier taken back: the least norm falls, the bound not."""
    problem = make_problem(n=12, norm=5.0, seed=5)
    rough, smooth = (
        frozen_model(problem.X, factor * problem.Y, problem.kernel, 0.1)
        for factor in (1.0, 0.1)
    )
    tracker = NormTracker()
    first = tracker.observe(rough)
    certified = tracker.least_consistent_norm
    assert MartingaleMixtureUCB(smooth).norm_bound < 0.9 * first
    assert MartingaleMixtureUCB(smooth, norm_bound=tracker).norm_bound == first
    assert tracker.least_consistent_norm == certified


def test_outcome_units(problem):
    r"""Outcomes in other units: the norm scales with them."""

    def standardized(scale):
        return frozen_model(
            problem.X,
            3.0 + scale * problem.Y,
            problem.kernel,
            0.2,
            outcome_transform=Standardize(m=1),
        )

    small, large = (MartingaleMixtureUCB(standardized(s)).norm_bound for s in (1.0, 1e3))
    assert large == pytest.approx(1e3 * small, rel=1e-9)


def test_no_norm_is_consistent(problem):
    r"""Repeated inputs whose outcomes differ by much more than the noise, under a radius
    from predictions that knew them: finite, and said to be wrong."""
    X, Y = torch.cat([problem.X, problem.X]), torch.cat([problem.Y, problem.Y + 1.0])
    state = KernelRegression(X, Y, problem.kernel, 1e-3)
    radius = PrequentialRadius()
    radius.observe_predictions(Y, torch.zeros_like(Y), Y, 1e-3, X)
    with pytest.warns(InconsistentConfidenceSetWarning, match="noise_std is too small"):
        acqf = MartingaleMixtureUCB(state, fit=radius)
    assert acqf.least_consistent_norm == math.inf
    assert acqf.assumptions["noise"].status is Status.VIOLATED
    lower, upper = acqf.bounds(problem.test_X)
    assert bool((lower <= upper).all() & torch.isfinite(upper - lower).all())


def test_a_fitted_model_needs_no_other_argument(problem):
    model = SingleTaskGP(problem.X, problem.Y.unsqueeze(-1))
    acqf = MartingaleMixtureUCB(model)
    value = acqf(problem.test_X.unsqueeze(-2))
    assert bool(torch.isfinite(value).all())
    assert acqf.norm_bound > acqf.least_consistent_norm


def test_a_noise_tracker_brings_its_norm_bound(problem):
    noise = StreamingNoiseTracker(norm_bound=7.0, delta=0.0375, **UNKNOWN)
    acqf = StreamingKernelUCB(problem.model, tracker=noise, **UNKNOWN)
    assert acqf.norm_bound == 7.0
    assert acqf.assumptions["norm"].status is Status.GIVEN


class TestState:
    def test_resumes_from_json(self, problem):
        tracker = NormTracker(inflation=1.2, floor=1.5)
        tracker.observe(problem.model)
        resumed = NormTracker(inflation=1.2, floor=1.5)
        resumed.load_state_dict(json.loads(json.dumps(tracker.state_dict())))
        assert resumed.state_dict() == tracker.state_dict()

    def test_of_other_arguments(self):
        state = NormTracker(floor=1.5).state_dict()
        with pytest.raises(ValueError, match=r"floor is 1\.5 in the state and 2\.5 here"):
            NormTracker(floor=2.5).load_state_dict(state)
        with pytest.raises(ValueError, match="no state of a NormTracker"):
            NormTracker().load_state_dict({"floor": 1.5})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inflation": 0.9}, "inflation must be at least 1"),
        ({"inflation": math.nan}, "inflation must be a finite number"),
        ({"floor": 0.0}, "floor must be a finite number above 0"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        NormTracker(**options)
