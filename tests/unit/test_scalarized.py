r"""Bounds of weighted sums of outcomes."""

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models import KroneckerMultiTaskGP, ModelListGP, SingleTaskGP
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import MartingaleMixtureUCB, NormTracker, ScalarizedUCB, regret_certificate
from problems import make_problem, uniform
from tolerances import REARRANGED

FIRST = make_problem(n=8, d=2, norm=2.0)
SECOND = make_problem(n=5, d=2, norm=3.0, seed=11, noise_std=0.2)
NORMS, NOISES = [2.0, 3.0], [0.1, 0.2]
X = uniform(12, 2, 40)
MODEL = ModelListGP(FIRST.model, SECOND.model)


def single_bounds(delta=0.025, **options):
    return [
        MartingaleMixtureUCB(problem.state, norm_bound=norm, delta=delta, **options)
        for problem, norm in zip((FIRST, SECOND), NORMS, strict=True)
    ]


def weights_of(*weights, offset=0.0):
    tensor = torch.tensor(weights, dtype=torch.float64)
    return ScalarizedPosteriorTransform(tensor, offset=offset)


def from_model(*weights, model=MODEL, offset=0.0, **options):
    arguments = {"norm_bound": NORMS, "noise_std": NOISES} | options
    transform = weights_of(*weights, offset=offset)
    return ScalarizedUCB.from_model(model, posterior_transform=transform, **arguments)


def corners(weights, offset=0.0, **options):
    r"""The band of the sum, from the definition: the best and worst corner of the box."""
    bands = [torch.stack(acqf.bounds(X)) for acqf in single_bounds(**options)]
    sums = [
        offset + weights[0] * first + weights[1] * second
        for first in bands[0]
        for second in bands[1]
    ]
    return torch.stack(sums).amin(0), torch.stack(sums).amax(0)


@given(
    st.floats(-3.0, 3.0).filter(lambda w: abs(w) > 1e-3),
    st.floats(-3.0, 3.0).filter(lambda w: abs(w) > 1e-3),
    st.floats(-5.0, 5.0),
)
def test_the_band_reaches_from_the_worst_to_the_best_corner(first, second, offset):
    bands = single_bounds()
    acqf = ScalarizedUCB(bands, [first, second], offset=offset)
    lower, upper = corners((first, second), offset)
    tolerance = {"rtol": REARRANGED, "atol": REARRANGED}
    assert_close(acqf.bounds(X)[0], lower, **tolerance)
    assert_close(acqf.bounds(X)[1], upper, **tolerance)
    assert_close(acqf(X.unsqueeze(-2)), upper, **tolerance)
    acqf = ScalarizedUCB(bands, [first, second], offset=offset, maximize=False)
    assert_close(acqf(X.unsqueeze(-2)), -lower, **tolerance)


class TestFromModel:
    def test_shares_delta_and_reads_each_output(self):
        acqf = from_model(1.0, -2.0, delta=0.05, offset=0.5)
        assert [band.delta for band in acqf.band.parts] == [0.025, 0.025]
        lower, upper = corners((1.0, -2.0), 0.5, delta=0.025)
        assert_close(acqf.bounds(X)[0], lower, rtol=REARRANGED, atol=REARRANGED)
        assert_close(acqf.bounds(X)[1], upper, rtol=REARRANGED, atol=REARRANGED)
        assert acqf.assumptions.delta == pytest.approx(0.05)
        assert acqf.assumptions.certified
        assert acqf.assumptions.guarantee.endswith("at once with probability 0.95")
        assert acqf.assumptions["output 2: norm"].statement.endswith("at most 3")

    def test_outputs_of_weight_zero_cost_nothing(self):
        acqf = from_model(0.0, 2.0, delta=0.05)
        assert [band.delta for band in acqf.band.parts] == [0.05]
        plain = MartingaleMixtureUCB(SECOND.state, norm_bound=3.0, delta=0.05)
        assert_close(acqf.bounds(X)[1], 2.0 * plain.bounds(X)[1], rtol=1e-9, atol=1e-9)

    @pytest.mark.filterwarnings("ignore:Data .* is not standardized")
    def test_several_columns_of_one_model(self):
        Y = torch.stack([FIRST.Y, FIRST.Y.flip(0)], -1)
        model = SingleTaskGP(FIRST.X, Y, torch.full_like(Y, 0.01))
        acqf = from_model(1.0, 1.0, model=model, norm_bound=20.0, noise_std=None)
        targets = [band.data.train_targets for band in acqf.band.parts]
        assert_close(torch.stack(targets, -1), Y)
        assert not acqf.assumptions.certified  # Standardize, trainable length scales


class TestPlumbing:
    def test_pending_points_reach_every_outcome(self):
        acqf = from_model(1.0, -0.5)
        before = acqf(X.unsqueeze(-2))
        band = acqf.bounds(X)
        acqf.set_X_pending(X[:2])
        pending = single_bounds(X_pending=X[:2])
        expected = pending[0](X.unsqueeze(-2)) + 0.5 * MartingaleMixtureUCB(
            SECOND.state, norm_bound=3.0, delta=0.025, maximize=False, X_pending=X[:2]
        )(X.unsqueeze(-2))
        assert_close(acqf(X.unsqueeze(-2)), expected, rtol=REARRANGED, atol=REARRANGED)
        assert_close(acqf.bounds(X), band)
        acqf.set_X_pending(None)
        assert_close(acqf(X.unsqueeze(-2)), before)

    def test_certificate_sums_the_outcomes_own_differences(self):
        acqf = from_model(1.0, -2.0)
        certificate = regret_certificate(acqf, X)
        lower, upper = acqf.bounds(X)
        assert certificate.certified
        # Differences are bounded over functions, so no looser than by the band's sides.
        assert certificate.gap <= float(upper.max() - lower.max()) + REARRANGED
        assert certificate.assumptions.delta == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: ScalarizedUCB(single_bounds(), [0.0, 0.0]),
            ValueError,
            "all weights are zero",
        ),
        (
            lambda: ScalarizedUCB(
                single_bounds(posterior_transform=weights_of(2.0)), [1.0, 1.0]
            ),
            UnsupportedError,
            "give its weight to ScalarizedUCB",
        ),
        (lambda: from_model(1.0), UnsupportedError, "has 1 weights; the model has 2"),
        (
            lambda: from_model(1.0, 1.0, model=KroneckerMultiTaskGP(X, X), norm_bound=1.0),
            UnsupportedError,
            "not independent models",
        ),
        (
            lambda: from_model(1.0, 1.0, norm_bound=NormTracker()),
            ValueError,
            "give each outcome its own",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_each_outcome_has_an_estimated_norm_of_its_own():
    model = ModelListGP(*[make_problem(seed=s, norm=n).model for s, n in [(0, 1), (9, 8)]])
    acqf = ScalarizedUCB.from_model(model, posterior_transform=weights_of(1.0, 1.0))
    norms = [part.norm_bounds[0] for part in acqf.band.parts]
    assert norms[1] > 1.5 * norms[0]
    assert not acqf.assumptions.certified
