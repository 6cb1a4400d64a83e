r"""Trackers over rounds: what they learnt stays, of one scale, in full or not at all."""

import pytest
import torch
from botorch.models.transforms.outcome import Log, Power, Standardize

from kernelucb import KernelBandit, NormTracker, StreamingNoiseTracker, UnknownNoise
from problems import frozen_kernel, frozen_model, make_problem

PROBLEM = make_problem(n=24, d=2, norm=5.0)
X, Y = PROBLEM.X[:9], PROBLEM.Y[:9]
TRACKERS = [NormTracker, lambda: StreamingNoiseTracker(3.0, UnknownNoise(0.01))]


def model_of(transform=None):
    outcomes, kernel = (Y - Y.min() + 0.1).exp(), frozen_kernel("matern52")
    return frozen_model(X, outcomes, kernel, 0.2, outcome_transform=transform)


@pytest.mark.parametrize("make", TRACKERS)
@pytest.mark.parametrize(
    ("first", "later", "words"),
    [
        (Log(), None, "before after Log, those of the model are untransformed"),
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


@pytest.mark.parametrize("make", TRACKERS)
def test_a_unit_that_is_estimated_again_is_no_other_scale(make):
    tracker = make()
    transform = Standardize(1).train()
    transform(torch.randn(7, 1, dtype=torch.float64))
    for each in transform.eval(), None:
        tracker.observe(model_of(each))


def test_a_bandit_is_of_untransformed_outcomes():
    tracker = NormTracker()
    tracker.observe(model_of(Log()))
    bandit = KernelBandit(PROBLEM.kernel, norm_bound=tracker, noise_std=0.2)
    with pytest.raises(ValueError, match="untransformed"):
        bandit.observe(X[0], 1.0)
