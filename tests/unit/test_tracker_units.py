r"""What trackers learnt of outcomes on one scale is not used for outcomes on another."""

import json

import pytest
import torch
from botorch.models.transforms.outcome import Log, Power, Standardize

from kernelucb import (
    KernelBandit,
    NormTracker,
    StreamingNoiseTracker,
    UnknownNoise,
)
from problems import frozen_model, make_problem

PROBLEM = make_problem(n=9, d=2, noise_std=0.2, kernel="matern52", seed=5)
NOISE = UnknownNoise(0.05, 2.0)
TRACKERS = {
    "norm": NormTracker,
    "noise": lambda: StreamingNoiseTracker(3.0, NOISE),
}


def model_of(transform=None):
    Y = (PROBLEM.Y - PROBLEM.Y.min() + 0.1).exp()
    return frozen_model(PROBLEM.X, Y, PROBLEM.kernel, 0.2, outcome_transform=transform)


@pytest.fixture(params=TRACKERS)
def make(request):
    return TRACKERS[request.param]


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
    before = tracker.state_dict()
    with pytest.raises(ValueError, match=words):
        tracker.observe(model_of(later))
    assert tracker.state_dict() == before
    tracker.observe(model_of(first))


def test_a_saved_state_remembers_the_transform(make):
    tracker, resumed = make(), make()
    tracker.observe(model_of(Log()))
    resumed.load_state_dict(json.loads(json.dumps(tracker.state_dict())))
    with pytest.raises(ValueError, match="untransformed"):
        resumed.observe(model_of())
    unused = make()
    unused.load_state_dict(make().state_dict())
    unused.observe(model_of())


def test_a_unit_that_is_estimated_again_is_no_other_scale(make):
    transforms = [Standardize(1), Standardize(1)]
    for transform, shift in zip(transforms, (0.0, 0.5), strict=True):
        transform.train()
        transform(torch.randn(7, 1, dtype=torch.float64) + shift)
    tracker = make()
    for transform in (*transforms, None):
        tracker.observe(model_of(None if transform is None else transform.eval()))


def test_a_bandit_is_of_untransformed_outcomes():
    tracker = NormTracker()
    tracker.observe(model_of(Log()))
    bandit = KernelBandit(PROBLEM.kernel, norm_bound=tracker, noise_std=0.2)
    with pytest.raises(ValueError, match="untransformed"):
        bandit.observe(PROBLEM.X[0], 1.0)
    fresh = NormTracker()
    KernelBandit(PROBLEM.kernel, norm_bound=fresh, noise_std=0.2).observe(PROBLEM.X[0], 1.0)
    with pytest.raises(ValueError, match="after Log"):
        fresh.observe(model_of(Log()))
