r"""BKBUCB: its three widths, the inequalities of their proofs, what they rest on."""

import math

import pytest
import torch
from botorch.models.transforms import Standardize
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import BKBUCB, KernelRegression, NormTracker
from kernelucb.confidence.assumptions import Status
from kernelucb.confidence.bkb import (
    Budget,
    certified_width,
    covered_rounds,
    practical_width,
    required_qbar,
    theorem2_width,
)
from kernelucb.confidence.fit.radius import mixture_radius, with_energy
from kernelucb.confidence.norm.least import least_norm
from kernelucb.confidence.ridge_band import abbasi_yadkori_width
from kernelucb.models import BKBModel
from oracles import bkb_width
from problems import (
    RKHSFunction,
    frozen_kernel,
    generator,
    normal,
    uniform,
)
from tolerances import ORDER, REARRANGED, SCALE, SKETCH

LAM = 0.04
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
        budget = budget._replace(log_det=float(state.log_det(1.0)), residual=0.0)
        assert certified_width(budget, 1.0, 0.3, delta) < width

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
        X, bands, trackers = uniform(7, 2, 9), [], []
        for scale in (1.0, 1e3):
            model = make_model(scale=scale, outcome_transform=Standardize(1))
            norm = {"norm_bound": 2.0 * scale, "noise_std": 0.3 * scale}
            bands.append(make_acqf(model, radius=radius, **norm).bounds(X))
            trackers.append(NormTracker())
            BKBUCB(model, norm_bound=trackers[-1])
        for small, large in zip(*bands, strict=True):
            assert_close(large, 1e3 * small, rtol=SCALE, atol=1e3 * SCALE)
        one, other = (tracker.norm_bound for tracker in trackers)
        assert other == pytest.approx(1e3 * one)

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
        log = 6.0 * (1.0 + epsilon) / (1.0 - epsilon) * math.log(4.0 * horizon / delta)
        assert qbar == pytest.approx(log / epsilon**2)

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

    def test_standardize_estimates_the_mean_and_a_tracker_the_norm(self):
        model = make_model(qbar=1e6, outcome_transform=Standardize(1))
        assert make_acqf(model).assumptions.estimated == ("mean",)
        estimated = make_acqf(norm_bound=None)
        assert estimated.assumptions.estimated == ("norm",)
        given_ = make_acqf(norm_bound=float(estimated.norm_bound))
        assert given_.width == pytest.approx(estimated.width)
        assert given_.assumptions.certified


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


NAMES = ["rbf", "matern32", "matern52"]
SIZES = st.floats(1e-3, 1e3)


def state_of(kernel, lam=0.04, qbar=1e9, n=30, seed=0):
    X = uniform(n, 2, seed)
    X = torch.cat([X, X[: n // 3], X[:2]])  # some inputs two or three times
    Y = normal(len(X), seed).unsqueeze(-1)
    return BKBModel(X, Y, frozen_kernel(kernel), lam, qbar).state


def with_inducing(state, index):
    return state.restored(state.inputs, state.tally, index, state.generator_state)


def gram_of(state, kernel):
    return frozen_kernel(kernel)(state.inputs).to_dense()


class TestCertifiedWidth:
    @pytest.mark.parametrize("kernel", NAMES)
    @pytest.mark.parametrize("lam", [0.01, 1.0])
    @pytest.mark.parametrize("qbar", [1e-3, 0.1, 0.5, 2.0, 1e9])
    def test_against_dense_matrices_in_feature_space(self, kernel, lam, qbar):
        state = state_of(kernel, lam, qbar)
        budget = Budget.of(state)
        log_det, residual = bkb_width.terms(
            gram_of(state, kernel), state.counts, state.inducing, lam
        )
        assert budget.log_det == pytest.approx(log_det, rel=SKETCH)
        assert budget.residual == pytest.approx(residual, rel=SKETCH, abs=SKETCH)
        gain = log_det + 2.0 * math.log(1.0 / 0.07)
        expected = bkb_width.width(gain, residual, lam, 3.0, 0.2)
        assert certified_width(budget, 3.0, 0.2, 0.07) == pytest.approx(
            expected, rel=SKETCH
        )

    @pytest.mark.parametrize("block", [2, 7, 16, 30, 64])
    @pytest.mark.parametrize("kernel", NAMES)
    def test_residuals_in_blocks(self, kernel, block):
        r"""Between the largest eigenvalue of what is left and its trace; equal in one."""
        state = state_of(kernel, qbar=0.1)
        gram = gram_of(state, kernel)
        terms = gram, state.counts, state.inducing, 0.04
        exact = bkb_width.largest_residual(*terms)
        singly, blocks = Budget.of(state), Budget.of(state, block)
        assert exact * (1.0 - SKETCH) <= blocks.residual < singly.residual
        if block >= 30:
            assert blocks.residual == pytest.approx(exact, rel=SKETCH)
        assert blocks._replace(residual=singly.residual) == singly

    @given(SIZES, SIZES, st.floats(0.0, 1e4))
    def test_the_worst_share(self, noise, norm, residual):
        r"""The closed form against a search over the share outside the span."""
        budget = Budget(1, 1.0, 1.0, 1.0, noise**2, residual)
        own = certified_width(budget, norm, 1.0, 1.0)
        expected = bkb_width.width(noise**2, residual, 1.0, norm, 1.0)
        assert own == pytest.approx(expected, rel=SKETCH)
        assert own <= (noise + norm * math.sqrt(1.0 + residual)) * (1.0 + REARRANGED)
        assert own >= (noise + norm) * (1.0 - REARRANGED)

    @pytest.mark.parametrize("kernel", NAMES)
    def test_all_points_inducing_is_abbasi_yadkori(self, kernel):
        state = state_of(kernel)
        gram = state.counts.sqrt().outer(state.counts.sqrt()) * gram_of(state, kernel)
        log_det = float(torch.linalg.eigvalsh(gram).div(0.04).log1p().sum())
        exact = abbasi_yadkori_width(log_det, 2.0, 0.1, 0.04 / 0.3**2)
        width = certified_width(Budget.of(state), 2.0, 0.3, 0.1)
        assert width == pytest.approx(exact, rel=SKETCH)


@pytest.mark.parametrize("kernel", NAMES)
class TestProof:
    r"""Any inducing points: the inequalities between the data and the certificate."""

    @given(st.integers(0, 10**6), st.integers(1, 20), st.floats(1e-2, 10.0))
    def test_the_determinant_covers_the_kernel(self, kernel, seed, size, lam):
        state = state_of(kernel, lam, n=20)
        index = torch.randperm(20, generator=generator(seed))[:size].sort().values
        gram = state.counts.sqrt().outer(state.counts.sqrt()) * gram_of(state, kernel)
        exact = float(torch.linalg.eigvalsh(gram).clamp_min(0.0).div(lam).log1p().sum())
        bound = Budget.of(with_inducing(state, index)).log_det
        assert bound >= exact * (1.0 - ORDER)

    @given(
        st.integers(0, 10**6),
        st.integers(1, 20),
        st.floats(1e-2, 10.0),
        st.floats(0.0, 3.0),
        st.booleans(),
        st.sampled_from([1, 6, 64]),
    )
    def test_no_function_and_no_noise_is_further(
        self, kernel, seed, size, lam, level, worst, block
    ):
        r"""Estimate minus function, over the deviation, below the width for this noise.

        ``noise^T K (K + lam)^-1 noise`` stands for what bounds it with probability
        ``1 - delta``. The functions are random, or as far from the estimate as any can
        be at the worst input.
        """
        X, Q = uniform(20, 2, 0), uniform(15, 2, 7)
        every = torch.cat([X, Q])
        K = frozen_kernel(kernel)(every).to_dense()
        values, vectors = torch.linalg.eigh(K)
        features = vectors * values.clamp_min(0.0).sqrt()
        observed, random = features[:20], generator(seed)
        index = torch.randperm(20, generator=random)[:size].sort().values
        noise = level * torch.randn(20, generator=random, dtype=torch.float64)
        state = with_inducing(state_of_inputs(X, kernel, lam), index)
        # The estimate is linear in the outcomes: its weights from the state's own sketch.
        project, sketch = state.basis.project, state.sketch
        z, left = project(every)
        weights = torch.cholesky_solve(z.mT, sketch.factor).mT @ state.features.mT
        deviation = sketch.variance(z, left).sqrt()
        bias = weights @ observed - features
        theta = torch.randn(len(every), generator=random, dtype=torch.float64)
        if worst:
            far = int((bias.norm(dim=-1) / deviation).argmax())
            theta = bias[far] * torch.sign(weights[far] @ noise + 1e-300)
        theta = 2.0 * theta / theta.norm()
        error = (bias @ theta + weights @ noise).abs()
        gram = observed @ observed.mT
        energy = noise @ gram @ torch.linalg.solve(gram + lam * torch.eye(20), noise)
        budget = Budget.of(state, block)._replace(log_det=float(energy))
        width = certified_width(budget, 2.0, 1.0, 1.0)
        assert bool((error <= width * deviation * (1.0 + SKETCH)).all())


def state_of_inputs(X, kernel, lam):
    return BKBModel(X, X[:, :1], frozen_kernel(kernel), lam, 1e9).state
