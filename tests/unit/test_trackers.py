r"""Trackers over rounds: what they learnt stays, of one scale, in full or not at all."""

import pytest
import torch
from botorch.models.transforms.outcome import Log, Power, Standardize

from kernelucb import (
    KernelBandit,
    KernelRegression,
    NormTracker,
    StreamingNoiseTracker,
    UnknownNoise,
)
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from problems import frozen_kernel, frozen_model, make_problem

PROBLEM = make_problem(n=24, d=2, norm=5.0)
X, Y = PROBLEM.X, PROBLEM.Y


NOISE = UnknownNoise(0.01)
TRACKERS = {"norm": NormTracker, "noise": lambda: StreamingNoiseTracker(3.0, NOISE)}


def model_of(transform=None):
    outcomes = (Y[:9] - Y[:9].min() + 0.1).exp()
    kernel = frozen_kernel("matern52")
    return frozen_model(X[:9], outcomes, kernel, 0.2, outcome_transform=transform)


@pytest.fixture(params=TRACKERS)
def make(request):
    return TRACKERS[request.param]


def test_a_warning_that_is_an_error_leaves_the_new_state():
    tracker = StreamingNoiseTracker(1e-3, UnknownNoise(1e-6, 1e-5))
    with pytest.raises(InconsistentConfidenceSetWarning):
        tracker.observe(KernelRegression(X[:8], Y[:8], PROBLEM.kernel, 0.1))
    assert not tracker.consistent
    assert tracker.num_observations == 8


@pytest.mark.parametrize(
    ("first", "later", "words"),
    [
        (Log(), None, "before after Log, those of the model are untransformed"),
        (None, Log(), "before untransformed, those of the model are after Log"),
        (Power(0.5), Power(0.500000001), r"are after Power\(0\.500000001\)"),
    ],
)
def test_another_transform_is_refused_and_changes_nothing(make, first, later, words):
    tracker = make()
    tracker.observe(model_of(first))
    before = str(vars(tracker))
    with pytest.raises(ValueError, match=words):
        tracker.observe(model_of(later))
    assert str(vars(tracker)) == before
    tracker.observe(model_of(first))


def test_a_unit_that_is_estimated_again_is_no_other_scale(make):
    transforms = [Standardize(1), Standardize(1)]
    for transform, shift in zip(transforms, (0.0, 0.5), strict=True):
        transform.train()
        transform(torch.randn(7, 1, dtype=torch.float64) + shift)
    tracker = make()
    for transform in (*transforms, None):
        tracker.observe(model_of(None if transform is None else transform.eval()))


def test_a_bandit_is_of_untransformed_outcomes():
    tracker, fresh = NormTracker(), NormTracker()
    tracker.observe(model_of(Log()))
    late, first = (
        KernelBandit(PROBLEM.kernel, norm_bound=own, noise_std=0.2)
        for own in (tracker, fresh)
    )
    with pytest.raises(ValueError, match="untransformed"):
        late.observe(X[0], 1.0)
    first.observe(X[0], 1.0)
    with pytest.raises(ValueError, match="after Log"):
        fresh.observe(model_of(Log()))
