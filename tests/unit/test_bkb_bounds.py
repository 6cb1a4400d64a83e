r"""BKBUCB: radii, what they rest on, BoTorch's plumbing."""

import math

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import (
    UnsupportedError,
)
from botorch.models.transforms import Standardize
from botorch.optim import optimize_acqf, optimize_acqf_discrete
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import BKBUCB, KernelRegression, NormTracker
from kernelucb.confidence.assumptions import Status
from kernelucb.confidence.bkb import (
    Budget,
    covered_rounds,
    practical_width,
    required_qbar,
    theorem2_width,
)
from kernelucb.confidence.fit.radius import mixture_radius, with_energy
from kernelucb.confidence.norm.least import least_norm
from kernelucb.confidence.ridge_band import abbasi_yadkori_width
from kernelucb.models import BKBModel
from kernelucb.optim.chunked import argmax
from problems import RKHSFunction, frozen_kernel, make_problem, normal, uniform
from tolerances import GRADCHECK, SCALE, SINGLE

LAM = 0.04
UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
RADII = pytest.mark.parametrize("radius", ["certified", "theorem2", "practical"])


def make_model(n=30, qbar=1.0, kernel="matern52", scale=1.0, **options):
    X, Y = uniform(n, 2, 0), normal(n, 1).unsqueeze(-1)
    X, Y = torch.cat([X, X[:5]]), scale * torch.cat([Y, Y[:5]])
    return BKBModel(X, Y, frozen_kernel(kernel), LAM, qbar, **options)


def make_acqf(model=None, **options):
    model = make_model() if model is None else model
    return BKBUCB(model, **{"norm_bound": 2.0, "noise_std": 0.3, **options})


class TestRadius:
    def test_theorem_2_as_printed(self):
        r"""Theorem 2 with kappa^2 t = 300, where its logarithm is the larger one."""
        budget = Budget(300, 12.0, 300.0, 1.0, math.nan, math.nan)
        epsilon, delta, xi, norm = 0.5, 0.1, 0.3, 2.0
        gain = 3.0 * math.log(300.0) * 12.0 + math.log(10.0)
        beta = 2.0 * xi * math.sqrt(gain) + (1.0 + math.sqrt(2.0)) * norm
        width = theorem2_width(budget, norm, xi, delta, epsilon)
        assert width == pytest.approx(beta, rel=1e-12)

    def test_practical_as_in_the_authors_code(self):
        budget = Budget(300, 12.0, 300.0, 0.25, math.nan, math.nan)
        beta = 0.5 * 2.0 + 0.3 * math.sqrt(math.log(300.0) * 12.0 + math.log(10.0))
        width = practical_width(budget, 2.0, 0.3, 0.1)
        assert width == pytest.approx(beta / 0.5, rel=1e-12)

    @given(
        st.integers(0, 10**6),
        st.integers(1, 40),
        st.floats(1e-6, 10.0),
        st.floats(1e-3, 0.9),
        st.floats(0.05, 0.95),
    )
    def test_theorem_2_covers_the_exact_radius(self, seed, n, lam, delta, epsilon):
        r"""All points inducing, so variances are exact: the proof's inequality itself.

        ``ln det(I + K/lam) + 2 ln(2/delta)`` under the root, half of delta for the noise.
        """
        X = uniform(n, 1, seed)
        state = KernelRegression(X, normal(n, seed), frozen_kernel("rbf"), lam**0.5)
        total = float(state.variance(X).sum()) / lam
        budget = Budget(n, total, float(n), lam, math.nan, math.nan)
        width = theorem2_width(budget, 1.0, 0.3, delta, epsilon)
        exact = (
            0.3
            / lam**0.5
            * (abbasi_yadkori_width(float(state.log_det(1.0)), 0.0, delta / 2.0, 1.0))
        )
        assert width >= 2.0 + exact

    @RADII
    @given(st.floats(1e-6, 0.5), st.floats(1.01, 5.0))
    def test_monotone(self, radius, delta, factor):
        def width(**changed):
            return make_acqf(MODEL, **{"delta": delta, "radius": radius, **changed}).width

        assert width(delta=delta / factor) > width()
        assert width(norm_bound=2.0 * factor) > width()
        assert width(noise_std=0.3 * factor) > width()
        assert width(radius="theorem2") > width(radius="practical")

    @RADII
    def test_scale_equivariance(self, radius):
        r"""Outcomes, norm bound and noise times 1000, with Standardize in between."""
        X = uniform(7, 2, 9)
        one = make_acqf(make_model(outcome_transform=Standardize(1)), radius=radius)
        model = make_model(scale=1e3, outcome_transform=Standardize(1))
        other = make_acqf(model, radius=radius, norm_bound=2e3, noise_std=300.0)
        for small, large in zip(one.bounds(X), other.bounds(X), strict=True):
            assert_close(large, 1e3 * small, rtol=SCALE, atol=1e3 * SCALE)

    def test_noise_of_the_model(self):
        model = make_model(outcome_transform=Standardize(1))
        own = BKBUCB(model, norm_bound=2.0)
        given_ = BKBUCB(
            model, norm_bound=2.0, noise_std=LAM**0.5 * own.regression.outcome_scale
        )
        assert own.width == pytest.approx(given_.width)


MODEL = make_model()


class TestAssumptions:
    @given(st.integers(1, 10**6), st.floats(1e-6, 0.9), st.floats(0.05, 0.9))
    def test_covered_rounds_invert_the_theorems_qbar(self, horizon, delta, epsilon):
        qbar = required_qbar(horizon, delta, epsilon)
        assert covered_rounds(qbar, delta, epsilon) == horizon
        assert covered_rounds(0.999 * qbar, delta, epsilon) < horizon

    def test_theorem_1(self):
        expected = 6.0 * 3.0 * math.log(4.0 * 1000 / 0.05) / 0.25
        assert required_qbar(1000, 0.05, 0.5) == pytest.approx(expected)

    def test_an_accuracy_whose_square_is_zero(self):
        assert required_qbar(1000, 0.05, 1e-200) == math.inf

    def test_enough_inducing_points(self):
        model = make_model(qbar=required_qbar(100, 0.05))
        assumptions = make_acqf(model, radius="theorem2", norm_bound=50.0).assumptions
        assert assumptions.certified
        assert "up to 100 at once" in assumptions.guarantee
        assert "Theorem 2" in assumptions.source

    def test_too_few_inducing_points(self):
        assumptions = make_acqf(radius="theorem2").assumptions
        assert assumptions.violated
        assert assumptions["inducing points"].status is Status.VIOLATED
        assert f"asks for {required_qbar(35, 0.05):.6g}" in str(assumptions)
        assert "no guarantee" in assumptions.guarantee

    @pytest.mark.parametrize("qbar", [1e-3, 1.0, 1e9])
    def test_certified_asks_nothing_of_the_inducing_points(self, qbar):
        assumptions = make_acqf(make_model(qbar=qbar), norm_bound=50.0).assumptions
        assert assumptions.certified
        assert assumptions.anytime
        assert assumptions.horizon is None
        assert "every round at once" in assumptions.guarantee
        assert "qbar" not in str(assumptions)
        assert "Theorem 1" not in str(assumptions)
        names = [item.name for item in assumptions.items]
        assert names == ["kernel", "mean", "noise", "norm", "outcomes"]

    @RADII
    def test_a_norm_bound_that_the_data_contradict(self, radius):
        assumptions = make_acqf(radius=radius, norm_bound=1e-3).assumptions
        assert assumptions["norm"].status is Status.VIOLATED
        assert "least consistent norm" in assumptions["norm"].statement
        enough = make_acqf(radius=radius, norm_bound=50.0).assumptions
        assert enough["norm"].status is Status.GIVEN

    def test_practical_says_that_it_has_no_theorem(self):
        model = make_model(qbar=1e6)
        assumptions = make_acqf(model, radius="practical").assumptions
        assert assumptions.violated
        assert "no theorem" in str(assumptions)
        assert "no guarantee" in assumptions.guarantee

    def test_standardize_estimates_the_mean(self):
        model = make_model(qbar=1e6, outcome_transform=Standardize(1))
        assumptions = make_acqf(model).assumptions
        assert assumptions["mean"].status is Status.ESTIMATED
        assert not assumptions.certified


class TestPlumbing:
    @RADII
    def test_values(self, radius):
        acqf, X = make_acqf(radius=radius), uniform(9, 2, 4)
        posterior = acqf.model.posterior(X)
        mean, sd = posterior.mean.flatten(), posterior.variance.sqrt().flatten()
        lower, upper = acqf.bounds(X)
        assert_close(upper, mean + acqf.width * sd)
        assert_close(lower, mean - acqf.width * sd)
        assert_close(acqf(X.unsqueeze(-2)), upper)
        minimize = make_acqf(radius=radius, maximize=False)
        assert_close(minimize(X.unsqueeze(-2)), -lower)
        transform = ScalarizedPosteriorTransform(torch.tensor([-2.0]).double(), 1.0)
        turned = make_acqf(radius=radius, posterior_transform=transform)
        assert_close(turned(X.unsqueeze(-2)), 1.0 - 2.0 * lower)

    def test_pending_points(self):
        acqf, far = make_acqf(), torch.tensor([[3.0, 3.0]]).double()
        before = acqf(far.unsqueeze(-2))
        band = acqf.bounds(far)
        acqf.set_X_pending(far)
        assert float(acqf(far.unsqueeze(-2))) < 0.5 * float(before)
        assert_close(acqf.bounds(far), band)

    def test_gradients(self):
        acqf = make_acqf()
        X = uniform(3, 2, 5).unsqueeze(-2).requires_grad_()
        assert torch.autograd.gradcheck(acqf, (X,), **GRADCHECK)

    def test_continuous_domain(self):
        acqf = make_acqf()
        point, value = optimize_acqf(acqf, UNIT, q=1, num_restarts=4, raw_samples=64)
        grid = torch.cartesian_prod(*[torch.linspace(0, 1, 60).double()] * 2)
        assert float(value) >= argmax(acqf, grid).value - 1e-6
        pair, _ = optimize_acqf(
            acqf, UNIT, q=2, num_restarts=2, raw_samples=32, sequential=True
        )
        assert point.shape == (1, 2)
        assert not torch.allclose(pair[0], pair[1], atol=1e-3)

    def test_finite_domain(self):
        acqf, candidates = make_acqf(), uniform(300, 2, 6)
        point, value = optimize_acqf_discrete(acqf, q=1, choices=candidates)
        best = argmax(acqf, candidates, chunk_size=17)
        assert torch.equal(point, best.point)
        assert float(value) == pytest.approx(best.value)

    def test_single_precision(self):
        acqf, X = make_acqf(), uniform(9, 2, 4)
        with pytest.warns(Warning, match="float64"):
            values = acqf(X.float().unsqueeze(-2))
        assert values.dtype == torch.float32
        exact = acqf(X.float().double().unsqueeze(-2))
        assert_close(values.double(), exact, rtol=4 * SINGLE, atol=SINGLE)

    def test_input_constructor(self):
        construct = get_acqf_input_constructor(BKBUCB)
        inputs = construct(MODEL, norm_bound=2.0, radius="practical")
        assert BKBUCB(**inputs).width == make_acqf(radius="practical", noise_std=0.2).width

    @pytest.mark.parametrize(
        ("options", "match"),
        [
            ({"norm_bound": 0.0}, "norm_bound"),
            ({"noise_std": -1.0}, "noise_std"),
            ({"delta": 1.0}, "delta"),
            ({"epsilon": 1.0}, "epsilon"),
            ({"radius": "light"}, "radius"),
        ],
    )
    def test_bad_arguments(self, options, match):
        with pytest.raises(ValueError, match=match):
            make_acqf(**options)

    def test_other_models(self):
        with pytest.raises(UnsupportedError, match="BKBModel"):
            BKBUCB(make_problem().model, norm_bound=1.0)


class TestEstimatedNorm:
    r"""The least consistent norm of the sketch is a valid lower bound."""

    def model(self, qbar, norm=3.0, n=60):
        function = RKHSFunction.random(frozen_kernel("matern52"), norm, 2, 1)
        X = uniform(n, 2, 0)
        Y = function(X) + 0.1 * normal(n, 2)
        return BKBModel(X, Y.unsqueeze(-1), frozen_kernel("matern52"), 0.01, qbar)

    def test_all_points_inducing_is_the_exact_one(self):
        model = self.model(qbar=1e9)
        state = model.state
        regression = KernelRegression(
            state.inputs, state.tally.sums, frozen_kernel("matern52"), 0.1
        )
        radius = mixture_radius(regression, 0.05, 1.0)
        form = float(regression.quadratic_form(radius.tau_ref))
        squared = with_energy(form + radius.slack, 60, 0.05)
        exact = least_norm(regression, radius._replace(slack=squared - form))
        tracker = NormTracker()
        BKBUCB(model, norm_bound=tracker)
        assert tracker.least_consistent_norm == pytest.approx(exact, rel=1e-6)

    @pytest.mark.parametrize("qbar", [0.02, 0.3, 2.0, 1e9])
    def test_never_above_the_exact_one_nor_the_norm(self, qbar):
        tracker, exact = NormTracker(), NormTracker()
        BKBUCB(self.model(qbar), norm_bound=tracker)
        BKBUCB(self.model(1e9), norm_bound=exact)
        least = tracker.least_consistent_norm
        assert 0.0 <= least <= exact.least_consistent_norm * (1.0 + 1e-6)
        assert least <= 3.0

    @pytest.mark.parametrize("norm_bound", [None, "cautious"])
    def test_says_that_it_is_an_estimate(self, norm_bound):
        model = self.model(required_qbar(100, 0.05))
        acqf = BKBUCB(model, norm_bound=norm_bound)
        assert acqf.assumptions["norm"].status is Status.ESTIMATED
        assert not acqf.assumptions.certified
        given_ = BKBUCB(model, norm_bound=float(acqf.norm_bound))
        assert given_.width == pytest.approx(acqf.width)
        assert given_.assumptions.certified

    def test_in_outcome_units(self):
        r"""Outcomes times 1000, with a transform that takes it away again."""
        trackers = {1.0: NormTracker(), 1e3: NormTracker()}
        for scale, tracker in trackers.items():
            model = make_model(scale=scale, outcome_transform=Standardize(1))
            BKBUCB(model, norm_bound=tracker)
        assert trackers[1e3].norm_bound == pytest.approx(1e3 * trackers[1.0].norm_bound)
        assert trackers[1.0].least_consistent_norm > 0.0
