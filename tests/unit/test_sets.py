r"""Sets and bands by themselves: gains, defaults, outcomes far from the prior mean."""

import pytest
import torch
from botorch.exceptions import UnsupportedError
from botorch.models import SingleTaskGP
from torch.testing import assert_close

from kernelucb import KernelBandit, MartingaleMixtureUCB, SafeSet
from kernelucb.confidence.band import Band
from kernelucb.confidence.dual import Ellipsoids
from kernelucb.exceptions import InconsistentConfidenceSetWarning, UncertifiedError
from problems import frozen_kernel, make_problem, uniform

PROBLEM = make_problem(n=6, d=2)
X, ACQF = PROBLEM.X, MartingaleMixtureUCB(PROBLEM.model, norm_bound=3.0)


def test_a_gain_has_a_gradient_by_its_reference():
    functions, reference = ACQF.band.confidence_set, X[:1].clone().requires_grad_()
    gain = functions.max_gain_over(X[1:], reference)
    (slope,) = torch.autograd.grad(gain.sum(), reference)
    step = 1e-5 * slope / slope.norm()
    ends = [functions.max_gain_over(X[1:], X[:1] + s * step).sum() for s in (1.0, -1.0)]
    assert float(ends[0] - ends[1]) == pytest.approx(2e-5 * float(slope.norm()), rel=1e-3)


def test_a_cheap_difference_is_hardly_larger():
    state, given = ACQF.band.data, uniform(5, 2, seed=4).requires_grad_()
    for reference, is_observed in ((X[2:3], True), (X[2:3] + 0.1, False)):
        points, other = state.project(given), state.project(reference)
        found, slopes = [], []
        for cheap in (True, False):
            change = state.difference(points, other, cheap)
            found.append(change.prior_variance)
            parts = change.features.square().sum(-1) + change.residual_variance
            assert_close(parts, change.prior_variance)
            slopes += torch.autograd.grad(parts.sum(), given, retain_graph=True)
        more = (found[0] - found[1]).detach() / other.prior_variance
        assert float(more.min()) >= (0.0 if not is_observed else -1e-12)
        assert float(more.max()) <= (0.0 if not is_observed else 3e-6)
        assert_close(*slopes, rtol=1e-5, atol=1e-5)


def test_a_reference_that_changed_in_place_is_read_again():
    functions, reference = ACQF.band.confidence_set, X[:1].clone()
    functions.max_gain_over(X, reference)
    reference += 0.1
    gains = functions.max_gain_over(X, reference), functions.max_gain_over(X, X[:1] + 0.1)
    assert_close(*gains, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("pending", [None, X[:2] + 0.05])
def test_the_gradient_at_chosen_regularisers_is_that_of_the_formula(pending):
    functions = ACQF.band.confidence_set
    if pending is not None:
        functions = functions.with_pending(pending)
    given = uniform(4, 2, seed=3).requires_grad_()
    tau, slopes = torch.linspace(0.1, 5.0, 4, dtype=torch.float64), []
    for plain in (False, True):
        points = functions.project(given)
        found = Ellipsoids(functions, points, -1).bounds(tau.numpy())
        if plain:
            column, state = tau.unsqueeze(-1), functions.regression
            variance = functions.design.variance_at(points.design, column)
            width = (functions.constraints.excess(state, tau) / tau * variance).sqrt()
            assert_close(found, width - state.deviation_at(points.centre, column))
            found = width - state.deviation_at(points.centre, column)
        slopes += torch.autograd.grad(found.square().sum(), given, create_graph=not plain)
    assert_close(*slopes)
    with pytest.raises(UnsupportedError, match="first derivatives alone"):
        torch.autograd.grad(slopes[0].sum(), given)


class Elsewhere(Band):
    r"""A band that is made elsewhere: the three members that it needs."""

    assumptions, prior_std = ACQF.assumptions, 1.0

    def bounds(self, X):
        return X[:, 0] - 1.0, X[:, 0] + 2.0


def test_defaults_of_a_band_made_elsewhere():
    band, gain = Elsewhere(), X[1:, 0] - X[0, 0] + 3.0
    assert_close(band.max_gain_over(X[1:], X[:1]), gain)
    assert_close(band.max_gain_over(X[1:], X[:1], -1), 6.0 - gain)
    assert (band.direction, band.observed, band.norm_bounds) == (1, None, ())


def test_no_pending_points_are_no_change():
    state = PROBLEM.state
    assert state.with_pending(X[:0]) is state


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
@pytest.mark.parametrize("offset", [1e4, 1e8, 1e12])
@pytest.mark.parametrize("noise_std", [1e-4, 1.0])
def test_outcomes_far_from_the_prior_mean_keep_the_sides_apart(offset, noise_std):
    inputs = uniform(15, 3, 0)
    outcomes = torch.sin(5.0 * inputs).sum(-1, keepdim=True) + offset
    model = SingleTaskGP(inputs, outcomes, outcome_transform=None)
    acqf = MartingaleMixtureUCB(model, noise_std=noise_std)
    lower, upper = acqf.bounds(torch.cat([inputs, uniform(30, 3, 6)]))
    assert bool((lower <= upper).all())


def test_a_safe_set_follows_a_bandit_that_comes_to_contradict_its_data():
    bandit = KernelBandit(frozen_kernel("rbf", 0.3), norm_bound=0.1, noise_std=0.1)
    bandit.observe(torch.zeros(1), 0.0)
    safe_set, points = SafeSet(bandit, -1.0), torch.zeros(3, 1).double()
    assert bool(safe_set.is_safe(points).all())
    for x in (0.1, 0.5, 1.0):
        bandit.observe(torch.full((1,), x), 5.0)
    with pytest.warns(InconsistentConfidenceSetWarning):
        bandit.bounds(points)
    with pytest.raises(UncertifiedError, match="norm violated"):
        safe_set.is_safe(points)
