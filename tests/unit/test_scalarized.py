r"""Bounds of weighted sums of outcomes."""

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import ModelListGP, SingleTaskGP
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import MartingaleMixtureUCB, ScalarizedUCB
from problems import make_problem, uniform
from tolerances import REARRANGED

FIRST = make_problem(n=8, d=2, norm=2.0)
SECOND = make_problem(n=5, d=2, norm=3.0, seed=11, noise_std=0.2)
NORMS, NOISES = [2.0, 3.0], [0.1, 0.2]
X = uniform(12, 2, 40)
MODEL = ModelListGP(FIRST.model, SECOND.model)
CLOSE = {"rtol": REARRANGED, "atol": REARRANGED}


def single_bounds(**options):
    return [
        MartingaleMixtureUCB(problem.state, norm_bound=norm, delta=0.025, **options)
        for problem, norm in zip((FIRST, SECOND), NORMS, strict=True)
    ]


def from_model(*weights, model=MODEL, offset=0.0, **options):
    arguments = {"norm_bound": NORMS, "noise_std": NOISES} | options
    weights = torch.tensor(weights, dtype=torch.float64)
    transform = ScalarizedPosteriorTransform(weights, offset=offset)
    return ScalarizedUCB.from_model(model, posterior_transform=transform, **arguments)


def corners(weights, offset=0.0):
    r"""The band of the sum, from the definition: the best and worst corner of the box."""
    first, second = (torch.stack(acqf.bounds(X)) for acqf in single_bounds())
    sums = offset + weights[0] * first.unsqueeze(1) + weights[1] * second
    return sums.amin((0, 1)), sums.amax((0, 1))


WEIGHTS = st.floats(-3.0, 3.0).filter(lambda w: abs(w) > 1e-3)


@given(WEIGHTS, WEIGHTS, st.floats(-5.0, 5.0))
def test_the_band_reaches_from_the_worst_to_the_best_corner(first, second, offset):
    bands, weights = single_bounds(), [first, second]
    acqf = ScalarizedUCB(bands, weights, offset=offset)
    lower, upper = corners(weights, offset)
    assert_close(acqf.bounds(X), (lower, upper), **CLOSE)
    assert_close(acqf(X.unsqueeze(-2)), upper, **CLOSE)
    acqf = ScalarizedUCB(bands, weights, offset=offset, maximize=False)
    assert_close(acqf(X.unsqueeze(-2)), -lower, **CLOSE)


def test_delta_is_shared_and_each_output_read():
    acqf = from_model(1.0, -2.0, delta=0.05, offset=0.5)
    assert [band.delta for band in acqf.band.parts] == [0.025, 0.025]
    assert_close(acqf.bounds(X), corners((1.0, -2.0), 0.5), **CLOSE)
    assert acqf.assumptions.delta == pytest.approx(0.05)
    assert acqf.assumptions.certified
    assert acqf.assumptions["output 2: norm"].statement.endswith("at most 3")


def test_outputs_of_weight_zero_cost_nothing():
    acqf = from_model(0.0, 2.0, delta=0.05)
    assert [band.delta for band in acqf.band.parts] == [0.05]
    plain = MartingaleMixtureUCB(SECOND.state, norm_bound=3.0, delta=0.05)
    assert_close(acqf.bounds(X)[1], 2.0 * plain.bounds(X)[1], rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore:Data .* is not standardized")
def test_several_columns_of_one_model():
    Y = torch.stack([FIRST.Y, FIRST.Y.flip(0)], -1)
    model = SingleTaskGP(FIRST.X, Y, torch.full_like(Y, 0.01))
    acqf = from_model(1.0, 1.0, model=model, norm_bound=20.0, noise_std=None)
    targets = [band.data.train_targets for band in acqf.band.parts]
    assert_close(torch.stack(targets, -1), Y)
    assert not acqf.assumptions.certified  # Standardize, trainable length scales


def test_each_outcome_has_an_estimated_norm_of_its_own():
    model = ModelListGP(*[make_problem(seed=s, norm=n).model for s, n in [(0, 1), (9, 8)]])
    acqf = from_model(1.0, 1.0, model=model, norm_bound=None, noise_std=None)
    norms = [part.norm_bounds[0] for part in acqf.band.parts]
    assert norms[1] > 1.5 * norms[0]
    assert not acqf.assumptions.certified
