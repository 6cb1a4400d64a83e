r"""BKB: the model's formulas, draws and states; the widths, their proofs and claims."""

import math
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from botorch.models.transforms import Normalize, Standardize
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import BKBUCB, KernelRegression, NormTracker, optimum_report
from kernelucb.confidence.assumptions import Status
from kernelucb.confidence.bkb import (
    Budget,
    certified_width,
    covered_rounds,
    required_qbar,
    theorem2_width,
)
from kernelucb.confidence.ridge import abbasi_yadkori_width
from kernelucb.data.nystrom import draw, inclusion_probabilities
from kernelucb.models import BKBModel
from oracles import bkb_width
from oracles.sketch import dtc
from problems import (
    RKHSFunction,
    constant_mean,
    float64,
    frozen_kernel,
    generator,
    normal,
    polynomial_kernels,
    uniform,
)
from tolerances import POSTERIOR, REARRANGED, SKETCH

LAM = 0.04
KERNEL = frozen_kernel("matern32")
POLYNOMIALS = polynomial_kernels()


def make_data(n=40, d=2, seed=0):
    X = uniform(n, d, seed)
    X = torch.cat([X, X[: n // 4], X[:2]])
    return X, torch.sin(4.0 * X.sum(-1, keepdim=True)) + 0.2 * normal(len(X), 9)[:, None]


def make_model(n=40, d=2, seed=0, qbar=0.6, kernel="matern32", **options):
    X, Y = make_data(n, d, seed)
    model = BKBModel(X, Y, frozen_kernel(kernel), LAM, qbar, seed=seed, **options)
    return model, X, Y


def dense(kernel):
    return lambda left, right: kernel(left, right).to_dense()


def marginals(model, X):
    posterior = model.posterior(X.unsqueeze(-2))
    return posterior.mean.flatten(), posterior.variance.flatten()


QUERIES = torch.cat([uniform(20, 2, 77), make_data()[0][:3]])


class TestPredictive:
    @pytest.mark.parametrize("kernel", ["rbf", "matern32", "matern52"])
    @pytest.mark.parametrize("seed", range(3))
    def test_formulas(self, kernel, seed):
        model, X, Y = make_model(seed=seed, kernel=kernel)
        K, S = dense(frozen_kernel(kernel)), model.inducing_points
        assert 1 < len(S) < 40
        expected = dtc(K, S, X, Y.squeeze(-1), LAM, QUERIES)
        own = marginals(model, QUERIES)
        assert_close(own, expected, rtol=0, atol=SKETCH)
        _, at_data = marginals(model, X)
        assert model.summed_variance == pytest.approx(float(at_data.sum()) / LAM)

    def test_joint_posterior_and_batches(self):
        model, *_ = make_model()
        X = uniform(24, 2, 5).reshape(2, 3, 4, 2)
        posterior = model.posterior(X)
        joint = model.posterior(X.reshape(-1, 2)).distribution.covariance_matrix
        blocks = joint.unflatten(1, (6, 4)).unflatten(0, (6, 4)).diagonal(dim1=0, dim2=2)
        blocks = blocks.movedim(-1, 0).unflatten(0, (2, 3))
        assert_close(posterior.distribution.covariance_matrix, blocks)
        assert posterior.rsample(torch.Size([5])).shape == (5, 2, 3, 4, 1)
        single = model.posterior(X.unsqueeze(-2))
        assert_close(single.variance.squeeze(-1), posterior.variance)
        assert model.posterior(QUERIES[:0]).mean.shape == (0, 1)

    @pytest.mark.parametrize("kernel", ["matern32", "linear"])
    def test_all_points_inducing_is_the_exact_posterior(self, kernel):
        r"""A linear kernel in two dimensions has rank two, however many points."""
        X, Y = make_data()
        own = POLYNOMIALS["linear"] if kernel == "linear" else KERNEL
        model = BKBModel(X, Y, own, LAM, qbar=1e6)
        exact = KernelRegression(X, Y, own, LAM**0.5)
        assert model.state.features.shape[1] == (2 if kernel == "linear" else 40)
        expected = exact.mean(QUERIES), exact.variance(QUERIES)
        assert_close(marginals(model, QUERIES), expected, rtol=0, atol=POSTERIOR)

    def test_transforms_and_a_prior_mean(self):
        X, Y = make_data()
        raw, outcomes = 10.0 + 5.0 * X, 100.0 + 7.0 * Y
        bounds = torch.tensor([[10.0] * 2, [15.0] * 2])
        transforms = {
            "input_transform": Normalize(2, bounds=bounds),
            "outcome_transform": Standardize(1),
            "mean_module": constant_mean(3.0),
        }
        model = BKBModel(raw, outcomes, KERNEL, LAM, 0.6, **transforms)
        scale, shift = outcomes.std(), outcomes.mean()
        # The mean is in the units that the transform makes.
        plain = BKBModel((raw - 10) / 5, (outcomes - shift) / scale - 3.0, KERNEL, LAM, 0.6)
        assert model.regression().outcome_scale == pytest.approx(float(scale))
        assert model.estimated == {"mean"}
        mean, variance = marginals(model, 10.0 + 5.0 * QUERIES)
        expected, latent = marginals(plain, QUERIES)
        assert_close(mean, shift + scale * (3.0 + expected), rtol=1e-9, atol=0)
        assert_close(variance, scale**2 * latent, rtol=1e-9, atol=0)


class TestObservations:
    def test_conditioning_makes_the_inputs_inducing_points(self):
        model, X, Y = make_model()
        more, outcomes = torch.cat([uniform(5, 2, 8), X[:3]]), normal(8, 3).unsqueeze(-1)
        before = marginals(model, QUERIES)
        once = model.condition_on_observations(more, outcomes)
        steps = model
        for x, y in zip(more, outcomes, strict=True):
            steps = steps.condition_on_observations(x[None], y[None])
        assert_close(marginals(steps, QUERIES), marginals(once, QUERIES))
        assert_close(marginals(model, QUERIES), before, rtol=0, atol=0)
        expected = torch.cat([model.inducing_points, more]).unique(dim=0)
        assert torch.equal(once.inducing_points.unique(dim=0), expected)
        data = torch.cat([X, more]), torch.cat([Y, outcomes]).squeeze(-1)
        expected = dtc(dense(KERNEL), once.inducing_points, *data, LAM, QUERIES)
        assert_close(marginals(once, QUERIES), expected, rtol=0, atol=SKETCH)

    def test_update_draws_again_and_agrees_with_the_formulas(self):
        model, X, Y = make_model()
        assert (len(model.state.counts), model.num_observations) == (40, 52)  # repeats
        for step in range(30):
            x, y = uniform(1, 2, 100 + step), normal(1, step).unsqueeze(-1)
            X, Y = torch.cat([X, x]), torch.cat([Y, y])
            assert model.observe(x, y) is model
        S = model.inducing_points
        expected = dtc(dense(KERNEL), S, X, Y.squeeze(-1), LAM, QUERIES)
        assert_close(marginals(model, QUERIES), expected, rtol=0, atol=SKETCH)

    def test_inducing_points_are_drawn_with_their_probabilities(self):
        r"""Frequencies over 400 draws against ``min(1, qbar count var / lam)``."""
        model, *_ = make_model(n=12)
        data = model.state
        expected = inclusion_probabilities(data.variance, data.counts, LAM, 0.6)
        drawn, state = torch.zeros(12), data.generator_state
        for _ in range(400):
            index, state = draw(expected, state)
            drawn[index] += 1.0
        # five standard deviations of a binomial share: 12 shares, false alarm 7e-6
        spread = 5.0 * (expected * (1 - expected) / 400).sqrt()
        assert bool((expected < 1.0).any())
        assert bool(((drawn / 400 - expected).abs() <= spread + 1e-12).all())

    def test_no_step_draws_all_of_the_data_with_prior_variances(self):
        X = uniform(3000, 1, 0)
        model = BKBModel(X, torch.sin(9.0 * X), frozen_kernel("rbf"), LAM, 2.0)
        assert len(model.inducing_points) < 60
        mean, _ = marginals(model, uniform(50, 1, 1))
        assert_close(mean, torch.sin(9.0 * uniform(50, 1, 1)).flatten(), rtol=0, atol=0.02)


class TestAwkwardData:
    def test_never_without_inducing_points(self):
        X, Y = float64([[0.3], [0.3]]), float64([[1.0], [3.0]])
        model = BKBModel(X, Y, frozen_kernel("rbf"), LAM, qbar=1e-9)
        assert len(model.inducing_points) == 1
        expected = float64([4.0 / (2.0 + LAM)]), float64([LAM / (2.0 + LAM)])
        assert_close(marginals(model, X[:1]), expected)
        for _ in range(5):
            model.observe(X[:1], Y[:1])
            assert len(model.inducing_points) == 1

    def test_equal_outcomes_and_zeros_of_either_sign(self):
        X, same = float64([[0.0], [-0.0], [1.0]]), torch.full((3, 1), 5.0).double()
        scaled = {"outcome_transform": Standardize(1)}
        model = BKBModel(X, same, frozen_kernel("rbf"), LAM, 0.6, **scaled)
        assert len(model.state.counts) == 2
        assert_close(marginals(model, X)[0], same[:, 0])


SCALED = {"input_transform": Normalize(2), "outcome_transform": Standardize(1)}


def saved_model(n=12, seed=0, **options):
    return make_model(n, seed=seed, **{**deepcopy(SCALED), **options})[0]


class TestState:
    def test_a_loaded_model_goes_on_alike(self, tmp_path):
        r"""Within another module, and apart from the state that was loaded."""
        model, again = saved_model(), saved_model(5, seed=3)
        torch.save(torch.nn.ModuleList([model]).state_dict(), tmp_path / "state.pt")
        state = torch.load(tmp_path / "state.pt", weights_only=True)
        torch.nn.ModuleList([again]).load_state_dict(state)
        for name, value in state.items():
            parts = value.values() if name.endswith("_extra_state") else [value]
            for part in filter(torch.is_tensor, parts):
                part.zero_()
        assert_close(marginals(again, QUERIES), marginals(model, QUERIES))
        twin = deepcopy(again)
        twin.observe(uniform(3, 2, 6), normal(3, 1).unsqueeze(-1))
        assert twin.num_observations == again.num_observations + 3
        assert_close(marginals(again, QUERIES), marginals(model, QUERIES))
        for step in range(5):
            data = uniform(1, 2, 50 + step), normal(1, step).unsqueeze(-1)
            for each in (model, again):
                each.observe(*data)
            assert torch.equal(again.inducing_points, model.inducing_points)
        again.observe(make_data(12)[0][:1], data[1])  # still known as a repeat
        assert len(again.state.counts) == len(model.state.counts)
        assert not torch.equal(saved_model(seed=3).inducing_points, model.inducing_points)


RADII = pytest.mark.parametrize("radius", ["certified", "theorem2", "practical"])


def plain_model(n=30, qbar=1.0, kernel="matern52", scale=1.0, **options):
    X, Y = uniform(n, 2, 0), normal(n, 1).unsqueeze(-1)
    X, Y = torch.cat([X, X[:5]]), scale * torch.cat([Y, Y[:5]])
    return BKBModel(X, Y, frozen_kernel(kernel), LAM, qbar, **options)


def make_acqf(model=None, **options):
    model = plain_model() if model is None else model
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
        exact = abbasi_yadkori_width(float(state.log_det(1.0)), 0.0, delta / 2.0, 1.0)
        assert width >= 2.0 + 0.3 / lam**0.5 * exact
        budget = budget._replace(log_det=float(state.log_det(1.0)), residual=0.0)
        assert certified_width(budget, 1.0, 0.3, delta) < width


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
        assumptions = make_acqf(plain_model(qbar=qbar), norm_bound=50.0).assumptions
        assert assumptions.certified
        assert assumptions.anytime
        assert assumptions.horizon is None
        assert "every round at once" in assumptions.guarantee
        assert "qbar" not in str(assumptions)

    @RADII
    def test_a_norm_bound_that_the_data_contradict(self, radius):
        assumptions = make_acqf(radius=radius, norm_bound=1e-3).assumptions
        assert assumptions["norm"].status is Status.VIOLATED
        assert "least consistent norm" in assumptions["norm"].statement
        enough = make_acqf(radius=radius, norm_bound=50.0).assumptions
        assert enough["norm"].status is Status.GIVEN

    def test_standardize_estimates_the_mean_and_a_tracker_the_norm(self):
        model = plain_model(qbar=1e6, outcome_transform=Standardize(1))
        assert make_acqf(model).assumptions.estimated == ("mean",)
        estimated = make_acqf(norm_bound=None)
        assert estimated.assumptions.estimated == ("norm",)
        own = BKBUCB(model, norm_bound=2.0)  # by the model's noise
        noise_std = LAM**0.5 * own.band.data.outcome_scale
        given = make_acqf(model, noise_std=noise_std).band
        assert own.band.constants == pytest.approx(given.constants)


def test_a_report_in_print():
    r"""A band without a noise interval has one, too."""
    report = optimum_report(make_acqf(norm_bound=50.0), uniform(10, 2, 0))
    assert "noise is conditionally sub-Gaussian with scale 0.3" in str(report)


class TestEstimatedNorm:
    r"""The least consistent norm of the sketch is a valid lower bound."""

    def model(self, qbar, norm=3.0, n=60):
        function = RKHSFunction.random(frozen_kernel("matern52"), norm, 2, 1)
        X = uniform(n, 2, 0)
        Y = function(X) + 0.1 * normal(n, 2)
        return BKBModel(X, Y.unsqueeze(-1), frozen_kernel("matern52"), 0.01, qbar)

    @pytest.mark.parametrize("qbar", [0.02, 0.3, 2.0])
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
class TestProof:
    r"""Any inducing points: the inequalities between the data and the certificate."""

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
        model = BKBModel(X, X[:, :1], frozen_kernel(kernel), lam, 1e9)
        state = replace(model.state, inducing=index)
        # The estimate is linear in the outcomes: its weights from the state's own sketch.
        project, sketch = state.basis.project, state.sketch
        z, left = project(every)
        weights = torch.cholesky_solve(z.mT, sketch.factor).mT @ state.features.mT
        deviation = (left + lam * sketch.quadratic(z)).sqrt()
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
