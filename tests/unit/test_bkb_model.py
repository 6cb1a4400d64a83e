r"""BKBModel: the formulas, GPyTorch's own SGPR, BoTorch's habits, awkward data."""

from copy import deepcopy

import gpytorch
import pytest
import torch
from botorch.exceptions import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from botorch.models import SingleTaskVariationalGP
from botorch.models.transforms import Log, Normalize, Standardize
from botorch.models.transforms.outcome import ChainedOutcomeTransform
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import InducingPointKernel, LinearKernel, MaternKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ConstantMean, ZeroMean
from gpytorch.models import ExactGP
from gpytorch.settings import sgpr_diagonal_correction
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from hypothesis import given
from hypothesis import strategies as st
from linear_operator import to_linear_operator
from linear_operator.operators import RootLinearOperator
from torch.testing import assert_close

from kernelucb import KernelRegression
from kernelucb.models import BKBInducingPointAllocator, BKBModel
from kernelucb.regression.lowrank import basis
from kernelucb.regression.lowrank.sketch import draw, inclusion_probabilities
from kernelucb.regression.prior import Prior
from oracles.sketch import collapsed_bound, dtc
from oracles.weak_duality import nystrom_split
from problems import float64, frozen_kernel, generator, normal, uniform
from tolerances import GRADCHECK, POSTERIOR, REARRANGED, SINGLE, SKETCH

LAM = 0.04


def make_data(n=40, d=2, seed=0, repeats=True):
    X = uniform(n, d, seed)
    if repeats:
        X = torch.cat([X, X[: n // 4], X[:2]])
    return X, torch.sin(4.0 * X.sum(-1, keepdim=True)) + 0.2 * normal(len(X), 9)[:, None]


def make_model(n=40, d=2, seed=0, qbar=0.6, kernel="matern32", repeats=True, **options):
    X, Y = make_data(n, d, seed, repeats)
    model = BKBModel(X, Y, frozen_kernel(kernel), LAM, qbar, seed=seed, **options)
    return model, X, Y


def standardized(Y):
    return (Y - Y.mean(0)) / Y.std(0)


def dense(kernel):
    return lambda left, right: kernel(left, right).to_dense()


def marginals(model, X):
    posterior = model.posterior(X.unsqueeze(-2))
    return posterior.mean.flatten(), posterior.variance.flatten()


QUERIES = torch.cat([uniform(20, 2, 77), make_data()[0][:3]])


class TestPredictive:
    @pytest.mark.parametrize("kernel", ["rbf", "matern32", "matern52"])
    @pytest.mark.parametrize("seed", range(5))
    def test_formulas(self, kernel, seed):
        model, X, Y = make_model(seed=seed, kernel=kernel)
        K, S = dense(frozen_kernel(kernel)), model.inducing_points
        assert 1 < len(S) < 40
        mean, variance = dtc(K, S, X, Y.squeeze(-1), LAM, QUERIES)
        assert_close(marginals(model, QUERIES), (mean, variance), rtol=0, atol=SKETCH)

    @pytest.mark.parametrize("kernel", ["rbf", "matern52"])
    def test_sgpr(self, kernel):
        r"""GPyTorch's own predictive for the same inducing points."""
        model, X, Y = make_model(kernel=kernel)
        likelihood = GaussianLikelihood(
            noise_constraint=gpytorch.constraints.GreaterThan(1e-12)
        ).double()
        likelihood.noise = float64(LAM)

        class SGPR(ExactGP):
            def __init__(self):
                super().__init__(X, Y.squeeze(-1), likelihood)
                self.mean_module = ZeroMean()
                self.covar_module = InducingPointKernel(
                    frozen_kernel(kernel), model.inducing_points.clone(), likelihood
                )

            def forward(self, x):
                return MultivariateNormal(self.mean_module(x), self.covar_module(x))

        sgpr = SGPR().double().eval()
        # GPyTorch makes a sparse tensor; torch warns unless told whether to check it.
        checks = torch.sparse.check_sparse_tensor_invariants(enable=True)
        with torch.no_grad(), checks:
            with sgpr_diagonal_correction(False):  # of the data, which would make it FITC
                assert sgpr(QUERIES).variance.shape == (23,)
            expected = sgpr(QUERIES)
        assert_close(
            marginals(model, QUERIES),
            (expected.mean, expected.variance),
            rtol=0,
            atol=SKETCH,
        )

    def test_evidence_lower_bound_is_the_collapsed_one(self):
        r"""So the variational distribution is the optimal one."""
        model, X, Y = make_model()
        likelihood = model.likelihood.expected_log_prob(
            Y.squeeze(-1), model.posterior(X).distribution
        ).sum()
        bound = float(likelihood - model.model.variational_strategy.kl_divergence())
        K = dense(frozen_kernel("matern32"))
        expected = collapsed_bound(K, model.inducing_points, X, Y.squeeze(-1), LAM)
        assert bound == pytest.approx(expected, rel=SKETCH)

    def test_joint_posterior_and_batches(self):
        model, *_ = make_model()
        X = uniform(24, 2, 5).reshape(2, 3, 4, 2)
        posterior = model.posterior(X)
        joint = model.posterior(X.reshape(-1, 2)).distribution.covariance_matrix
        blocks = torch.stack(
            [joint[4 * i : 4 * i + 4, 4 * i : 4 * i + 4] for i in range(6)]
        ).reshape(2, 3, 4, 4)
        assert posterior.mean.shape == posterior.variance.shape == (2, 3, 4, 1)
        assert_close(posterior.distribution.covariance_matrix, blocks)
        assert posterior.rsample(torch.Size([5])).shape == (5, 2, 3, 4, 1)
        single = model.posterior(X.unsqueeze(-2))
        assert_close(single.variance.squeeze(-1), posterior.variance)

    def test_all_points_inducing_is_the_exact_posterior(self):
        X, Y = make_data(repeats=True)
        kernel = frozen_kernel("matern32")
        model = BKBModel(X, Y, kernel, LAM, qbar=1e6)
        exact = KernelRegression(X, Y, kernel, LAM**0.5)
        assert len(model.inducing_points) == 40
        expected = exact.mean(QUERIES), exact.variance(QUERIES)
        assert_close(marginals(model, QUERIES), expected, rtol=0, atol=POSTERIOR)

    def test_gradients(self):
        model, *_ = make_model(n=15)
        X = uniform(2, 2, 3).unsqueeze(-2).requires_grad_()

        def both(x):
            posterior = model.posterior(x)
            return posterior.mean, posterior.variance

        assert torch.autograd.gradcheck(both, (X,), **GRADCHECK)

    def test_prior_mean(self):
        X, Y = make_data()
        mean = ConstantMean().double()
        mean.constant = float64(3.0)
        model = BKBModel(X, Y + 3.0, frozen_kernel("rbf"), LAM, 0.6, mean_module=mean)
        plain = BKBModel(X, Y, frozen_kernel("rbf"), LAM, 0.6)
        shifted, variance = marginals(model, QUERIES)
        expected, same = marginals(plain, QUERIES)
        assert_close(shifted, expected + 3.0, rtol=0, atol=REARRANGED)
        assert_close(variance, same)

    def test_single_precision_is_computed_in_double(self):
        model, *_ = make_model()
        single = model.posterior(QUERIES.float())
        double = model.posterior(QUERIES.float().double())
        assert single.mean.dtype == single.variance.dtype == torch.float32
        assert_close(single.mean.double(), double.mean, rtol=4 * SINGLE, atol=SINGLE)
        with pytest.raises(UnsupportedError, match="float64"):
            model.float()
        assert model.inducing_points.dtype == torch.float64

    def test_transforms(self):
        X, Y = make_data()
        raw, outcomes = 10.0 + 5.0 * X, 100.0 + 7.0 * Y
        kernel = frozen_kernel("rbf")
        model = BKBModel(
            raw,
            outcomes,
            kernel,
            LAM,
            0.6,
            input_transform=Normalize(2, bounds=torch.tensor([[10.0] * 2, [15.0] * 2])),
            outcome_transform=Standardize(1),
        )
        scale, shift = outcomes.std(), outcomes.mean()
        plain = BKBModel((raw - 10) / 5, (outcomes - shift) / scale, kernel, LAM, 0.6)
        assert model.regression().outcome_scale == pytest.approx(float(scale))
        assert model.estimated == {"mean"}
        mean, variance = marginals(model, 10.0 + 5.0 * QUERIES)
        expected, latent = marginals(plain, (10.0 + 5.0 * QUERIES - 10.0) / 5.0)
        assert_close(mean, shift + scale * expected, rtol=REARRANGED, atol=0)
        assert_close(variance, scale**2 * latent, rtol=REARRANGED, atol=0)
        model.observe(raw[:1], outcomes[:1])
        assert model.num_observations == len(X) + 1
        log = ChainedOutcomeTransform(log=Log())
        model = BKBModel(X, Y.exp(), kernel, LAM, outcome_transform=log)
        with pytest.raises(UnsupportedError, match="transform the outcomes yourself"):
            model.regression()


class TestContract:
    r"""GPyTorch's contract: the strategy marginalises whatever distribution it is given."""

    def parts(self):
        r"""Our strategy and GPyTorch's, and what maps our whitened values to its own."""
        model, *_ = make_model(kernel="matern32")
        strategy, basis = model.model.variational_strategy, model.state.basis
        points = basis.inducing
        theirs = VariationalStrategy(
            model.model,
            points,
            CholeskyVariationalDistribution(len(points)).double(),
            learn_inducing_locations=False,
            jitter_val=0.0,
        )
        covariance = dense(frozen_kernel("matern32"))(points, points)
        values = covariance @ basis.matrix  # of u = f(points), given our weights
        change = torch.linalg.solve(torch.linalg.cholesky(covariance), values)
        return strategy.eval(), theirs.eval(), change

    @pytest.mark.parametrize("root", [True, False])
    def test_any_other_distribution(self, root):
        strategy, theirs, change = self.parts()
        rank, points = change.shape[1], strategy.inducing_points
        mean, factor = normal(rank, 4), normal(rank * rank, 5).reshape(rank, rank)
        own = RootLinearOperator(factor)
        own = own if root else to_linear_operator(factor @ factor.mT)
        covariance = to_linear_operator(change @ (factor @ factor.mT) @ change.mT)
        with torch.no_grad():
            expected = theirs.forward(QUERIES, points, change @ mean, covariance)
            joint = strategy.forward(QUERIES, points, mean, own)
            single = strategy.forward(QUERIES.unsqueeze(-2), points, mean, own)
        slack = {"rtol": 0, "atol": SKETCH}
        assert_close(joint.mean, expected.mean, **slack)
        assert_close(joint.covariance_matrix, expected.covariance_matrix, **slack)
        assert_close(single.mean.flatten(), expected.mean, **slack)
        assert_close(single.variance.flatten(), expected.variance, **slack)

    def test_known_inducing_values(self):
        r"""Without a covariance they are known, as in GPyTorch."""
        strategy, theirs, change = self.parts()
        mean, points = normal(change.shape[1], 4), strategy.inducing_points
        with torch.no_grad():
            expected = theirs.forward(QUERIES, points, change @ mean, None)
            ours = strategy.forward(QUERIES, points, mean)
        assert_close(ours.mean, expected.mean, rtol=0, atol=SKETCH)
        assert_close(
            ours.covariance_matrix, expected.covariance_matrix, rtol=0, atol=SKETCH
        )

    def test_other_inducing_points(self):
        strategy, _, _ = self.parts()
        points, kernel = uniform(6, 2, 31), dense(frozen_kernel("matern32"))
        with torch.no_grad():
            ours = strategy.forward(QUERIES, points, torch.zeros(6).double())
        left = kernel(QUERIES, points)
        solved = torch.linalg.solve(kernel(points, points), left.mT)
        expected = kernel(QUERIES, QUERIES) - left @ solved
        assert_close(ours.covariance_matrix, expected, rtol=0, atol=SKETCH)

    def test_its_own_distribution_is_the_posterior(self):
        strategy, _, _ = self.parts()
        with torch.no_grad():
            own = strategy.variational_distribution
            ours = strategy.forward(
                QUERIES, strategy.inducing_points, own.mean, own.lazy_covariance_matrix
            )
        model, X, Y = make_model(kernel="matern32")
        kernel = dense(frozen_kernel("matern32"))
        mean, variance = dtc(kernel, model.inducing_points, X, Y.squeeze(-1), LAM, QUERIES)
        assert_close(ours.mean, mean, rtol=0, atol=SKETCH)
        assert_close(ours.variance, variance, rtol=0, atol=SKETCH)


class TestObservations:
    def test_repeats_are_counts(self):
        model, X, Y = make_model(n=20)
        data = model.state
        assert len(data.counts) == 20
        assert model.num_observations == len(X) == 27
        assert_close(data.tally.sums.sum(), Y.sum())
        assert_close(data.tally.squares.sum(), Y.square().sum())

    def test_conditioning_makes_the_inputs_inducing_points(self):
        model, X, Y = make_model()
        more = torch.cat([uniform(5, 2, 8), X[:3]])
        outcomes = normal(8, 3).unsqueeze(-1)
        before = marginals(model, QUERIES)
        once = model.condition_on_observations(more, outcomes)
        steps = model
        for x, y in zip(more, outcomes, strict=True):
            steps = steps.condition_on_observations(x[None], y[None])
        assert_close(marginals(steps, QUERIES), marginals(once, QUERIES))
        assert_close(marginals(model, QUERIES), before, rtol=0, atol=0)
        expected = torch.cat([model.inducing_points, more]).unique(dim=0)
        assert torch.equal(once.inducing_points.unique(dim=0), expected)
        mean, variance = dtc(
            dense(frozen_kernel("matern32")),
            once.inducing_points,
            torch.cat([X, more]),
            torch.cat([Y, outcomes]).squeeze(-1),
            LAM,
            QUERIES,
        )
        assert_close(marginals(once, QUERIES), (mean, variance), rtol=0, atol=SKETCH)

    def test_update_draws_again_and_agrees_with_the_formulas(self):
        model, X, Y = make_model()
        for step in range(30):
            x, y = uniform(1, 2, 100 + step), normal(1, step).unsqueeze(-1)
            X, Y = torch.cat([X, x]), torch.cat([Y, y])
            assert model.observe(x, y) is model
        K = dense(frozen_kernel("matern32"))
        expected = dtc(K, model.inducing_points, X, Y.squeeze(-1), LAM, QUERIES)
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

    def test_seed(self):
        one, X, Y = make_model(seed=3)
        other = BKBModel(X, Y, frozen_kernel("matern32"), LAM, 0.6, seed=3)
        third = BKBModel(X, Y, frozen_kernel("matern32"), LAM, 0.6, seed=4)
        assert torch.equal(one.inducing_points, other.inducing_points)
        assert not torch.equal(one.inducing_points, third.inducing_points)

    def test_save_and_load(self, tmp_path):
        model, X, Y = make_model(outcome_transform=Standardize(1))
        torch.save(model.state_dict(), tmp_path / "state.pt")
        state = torch.load(tmp_path / "state.pt", weights_only=True)
        again = BKBModel(
            X[:2],
            Y[:2],
            frozen_kernel("matern32"),
            LAM,
            0.6,
            seed=99,
            outcome_transform=Standardize(1),
        )
        again.load_state_dict(state)
        assert_close(marginals(again, QUERIES), marginals(model, QUERIES))
        for step in range(5):
            x, y = uniform(1, 2, 50 + step), normal(1, step).unsqueeze(-1)
            model.observe(x, y)
            again.observe(x, y)
            assert torch.equal(again.inducing_points, model.inducing_points)
        again.observe(X[:1], Y[:1])  # is still known as a repeat
        assert len(again.state.counts) == len(model.state.counts)

    def test_copies_are_independent(self):
        model, *_ = make_model()
        twin, before = deepcopy(model), marginals(model, QUERIES)
        twin.observe(uniform(3, 2, 1), normal(3, 1).unsqueeze(-1))
        assert_close(marginals(model, QUERIES), before, rtol=0, atol=0)
        assert twin.num_observations == model.num_observations + 3

    def test_factorisations(self, monkeypatch):
        r"""One ``eigh`` where the inducing points changed, one Cholesky factor a step.

        And one more of a matrix as large as the step; none for queries.
        """
        counts = {"eigh": 0, "cholesky_ex": 0}
        for name in counts:
            plain = getattr(torch.linalg, name)

            def counted(*args, name=name, plain=plain, **kwargs):
                counts[name] += 1
                return plain(*args, **kwargs)

            monkeypatch.setattr(torch.linalg, name, counted)
        model, X, Y = make_model(qbar=1e6)  # all points are inducing points
        counts.update(eigh=0, cholesky_ex=0)
        model.observe(X[:1], Y[:1])
        assert counts == {"eigh": 0, "cholesky_ex": 2}
        for _ in range(3):
            marginals(model, QUERIES)
            assert counts == {"eigh": 0, "cholesky_ex": 2}
        model.observe(uniform(1, 2, 5), Y[:1])
        assert counts["eigh"] == 1
        assert counts["cholesky_ex"] <= 5
        model.condition_on_observations(X[:1], Y[:1])
        assert counts["eigh"] == 1

    def test_summed_variances(self):
        model, X, _ = make_model()
        _, variance = marginals(model, X)
        assert model.summed_variance == pytest.approx(float(variance.sum()) / LAM)


class TestLaws:
    @given(st.integers(0, 10**6), st.integers(1, 30), st.floats(0.01, 20.0))
    def test_variance_is_between_zero_and_the_prior(self, seed, n, qbar):
        X, Y = uniform(n, 1, seed), normal(n, seed).unsqueeze(-1)
        X = torch.cat([X, X[:3], X[:3] + 1e-9])
        model = BKBModel(
            X, torch.cat([Y, Y[:3], Y[:3]]), frozen_kernel("rbf"), 1e-6, qbar, seed
        )
        points = torch.cat([X, uniform(10, 1, seed + 1), X + 1e-7])
        mean, variance = marginals(model, points)
        assert bool(variance.gt(0).all())
        assert bool(variance.le(1.0 + REARRANGED).all())
        assert bool(mean.isfinite().all())

    @given(st.integers(0, 10**6), st.floats(0.05, 2.0))
    def test_no_starvation_far_from_the_inducing_points(self, seed, qbar):
        model, *_ = make_model(n=10, seed=seed, qbar=qbar, kernel="rbf")
        far = 50.0 + uniform(5, 2, seed)
        assert_close(marginals(model, far)[1], torch.ones(5).double())

    @given(st.integers(0, 10**6))
    def test_order_of_the_data_does_not_matter_for_given_inducing_points(self, seed):
        model, X, Y = make_model(n=15, seed=seed % 100)
        order = torch.randperm(len(X), generator=generator(seed))
        K, S = dense(frozen_kernel("matern32")), model.inducing_points
        expected = dtc(K, S, X[order], Y[order].squeeze(-1), LAM, QUERIES)
        assert_close(marginals(model, QUERIES), expected, rtol=0, atol=SKETCH)

    @given(st.integers(0, 10**6))
    def test_outcomes_at_inducing_points_never_raise_variances(self, seed):
        model, *_ = make_model(n=15, seed=seed % 100)
        more = model.condition_on_observations(
            model.inducing_points[:3],
            normal(len(model.inducing_points[:3]), seed).unsqueeze(-1),
        )
        before, after = marginals(model, QUERIES)[1], marginals(more, QUERIES)[1]
        assert bool((after <= before + REARRANGED).all())
        assert torch.equal(more.inducing_points, model.inducing_points)


class TestAwkwardData:
    def test_one_inducing_point(self):
        X = torch.tensor([[0.3], [0.3]]).double()
        Y = torch.tensor([[1.0], [3.0]]).double()
        model = BKBModel(X, Y, frozen_kernel("rbf"), LAM, qbar=1e-9)
        assert len(model.inducing_points) == 1
        mean, variance = marginals(model, X[:1])
        assert_close(mean, float64(4.0 / (2.0 + LAM)).reshape(1))
        assert_close(variance, float64(LAM / (2.0 + LAM)).reshape(1))

    def test_never_without_inducing_points(self):
        model, X, Y = make_model(qbar=1e-12)
        for _ in range(5):
            model.observe(X[:1], Y[:1])
            assert len(model.inducing_points) == 1

    def test_collinear_inducing_points(self):
        r"""A linear kernel in two dimensions has rank two, however many points."""
        kernel = LinearKernel().double()
        kernel.variance = float64(1.0)
        X, Y = make_data()
        model = BKBModel(X, Y, kernel, LAM, qbar=1e6)
        exact = KernelRegression(X, Y, kernel, LAM**0.5)
        assert model.state.features.shape[1] == 2
        expected = exact.mean(QUERIES), exact.variance(QUERIES)
        assert_close(marginals(model, QUERIES), expected, rtol=0, atol=POSTERIOR)

    def test_equal_outcomes(self):
        X, _ = make_data()
        model = BKBModel(X, torch.full((len(X), 1), 5.0), frozen_kernel("rbf"), LAM, 0.6)
        assert bool(marginals(model, QUERIES)[0].isfinite().all())
        model = BKBModel(
            X,
            torch.full((len(X), 1), 5.0).double(),
            frozen_kernel("rbf"),
            LAM,
            0.6,
            outcome_transform=Standardize(1),
        )
        mean, _ = marginals(model, QUERIES)
        assert_close(mean, torch.full_like(mean, 5.0))

    def test_zero_and_minus_zero_are_one_input(self):
        X = torch.tensor([[0.0], [-0.0]]).double()
        model = BKBModel(X, X, frozen_kernel("rbf"), LAM)
        assert len(model.state.counts) == 1

    def test_many_observations_in_blocks(self):
        r"""No step draws all of the data with prior variances."""
        X = uniform(3000, 1, 0)
        model = BKBModel(X, torch.sin(9.0 * X), frozen_kernel("rbf"), LAM, 2.0)
        assert len(model.inducing_points) < 60
        mean, _ = marginals(model, uniform(50, 1, 1))
        assert_close(mean, torch.sin(9.0 * uniform(50, 1, 1)).flatten(), rtol=0, atol=0.02)

    @pytest.mark.parametrize(
        ("options", "error", "match"),
        [
            ({"alpha": 0.0}, ValueError, "alpha"),
            ({"alpha": float("nan")}, ValueError, "alpha"),
            ({"qbar": -1.0}, ValueError, "qbar"),
            ({"train_X": torch.rand(3)}, BotorchTensorDimensionError, "train_X"),
            ({"train_Y": torch.rand(4, 1)}, BotorchTensorDimensionError, "train_Y"),
            ({"train_X": torch.full((3, 1), torch.nan)}, InputDataError, "train_X"),
            ({"train_Y": torch.full((3, 1), torch.inf)}, InputDataError, "train_Y"),
            (
                {"train_X": torch.rand(0, 1), "train_Y": torch.rand(0, 1)},
                InputDataError,
                "no observations",
            ),
        ],
    )
    def test_bad_arguments(self, options, error, match):
        good = {
            "train_X": torch.rand(3, 1).double(),
            "train_Y": torch.rand(3, 1).double(),
            "covar_module": frozen_kernel("rbf"),
            "alpha": LAM,
        }
        with pytest.raises(error, match=match):
            BKBModel(**{**good, **options})

    @pytest.mark.parametrize(
        "X", [None, "x", 1.0, *(QUERIES.to(t) for t in (torch.complex128, torch.bool))]
    )
    def test_queries_that_are_no_points(self, X):
        with pytest.raises(
            InputDataError, match=r"X must (be a torch tensor|hold floating)"
        ):
            make_model()[0].posterior(X)
        with pytest.raises(InputDataError, match="X must be a dense tensor"):
            make_model()[0].posterior(QUERIES.to_sparse())

    def test_single_numbers_are_no_observations(self):
        model, _, Y = make_model()
        for add in (model.observe, model.condition_on_observations):
            with pytest.raises(BotorchTensorDimensionError, match="X must be `n x 2`"):
                add(Y[0, 0], Y[:1])

    def test_no_points_have_an_empty_posterior(self):
        assert make_model()[0].posterior(QUERIES[:0]).mean.shape == (0, 1)

    def test_a_kernel_that_cannot_be_copied(self):
        kernel = MaternKernel()
        kernel.derived = 2.0 * kernel.raw_lengthscale
        with pytest.raises(UnsupportedError, match="MaternKernel cannot be copied"):
            BKBModel(*make_data(), kernel, LAM)

    def test_bad_points(self):
        model, X, Y = make_model()
        with pytest.raises(BotorchTensorDimensionError, match="q x 2"):
            model.posterior(X[:, :1])
        with pytest.raises(InputDataError):
            model.posterior(torch.full((1, 2), torch.nan))
        for method in (model.observe, model.condition_on_observations):
            with pytest.raises(BotorchTensorDimensionError, match="n x 2"):
                method(X[:, :1], Y)
            with pytest.raises(UnsupportedError, match="batch"):
                method(X[None], Y[None])
            with pytest.raises(InputDataError):
                method(X[:0], Y[:0])


class TestAllocator:
    def allocator(self, **options):
        return BKBInducingPointAllocator(LAM, **options)

    def test_in_botorch(self):
        X, Y = make_data()
        model = SingleTaskVariationalGP(
            X,
            standardized(Y),
            inducing_points=12,
            inducing_point_allocator=self.allocator(),
            learn_inducing_points=False,
        )
        points = model.model.variational_strategy.inducing_points
        assert points.shape == (12, 2)
        assert bool((points[:, None] == X).all(-1).any(-1).all())
        assert len(points.unique(dim=0)) == 12
        assert model.posterior(QUERIES).mean.shape == (23, 1)

    def test_several_outcomes_and_batches(self):
        X, Y = make_data()
        model = SingleTaskVariationalGP(
            X,
            standardized(torch.cat([Y, Y], -1)),
            num_outputs=2,
            inducing_points=12,
            inducing_point_allocator=self.allocator(),
            learn_inducing_points=False,
        )
        assert model.posterior(QUERIES).mean.shape == (23, 2)
        batches = torch.stack([X, X + 1.0])
        points = self.allocator().allocate_inducing_points(
            batches, frozen_kernel("rbf"), 7, torch.Size([2])
        )
        assert points.shape == (2, 7, 2)

    def test_prefers_lonely_points(self):
        r"""99 inputs side by side and one apart: the lonely one is always drawn."""
        X = torch.cat([1e-3 * uniform(99, 1, 0), torch.tensor([[5.0]]).double()])
        for seed in range(20):
            points = self.allocator(seed=seed).allocate_inducing_points(
                X, frozen_kernel("rbf"), 10, torch.Size()
            )
            assert bool((points == 5.0).any())

    def test_explains_more_than_a_random_subset(self):
        r"""Most inputs in one corner: what 30 points leave of the prior variance."""
        corner, rest = 0.1 * uniform(950, 2, 0), uniform(50, 2, 1)
        X, kernel = torch.cat([corner, rest]), frozen_kernel("matern52")
        left = {"drawn": 0.0, "random": 0.0}
        for seed in range(5):
            order = uniform(1000, 1, seed)[:, 0].argsort()
            points = self.allocator(seed=seed).allocate_inducing_points(
                X, kernel, 30, torch.Size()
            )
            for name, inducing in (("drawn", points), ("random", X[order[:30]])):
                _, residual_variance = nystrom_split(kernel, X, inducing)
                left[name] += float(residual_variance.trace())
        assert left["drawn"] < 0.5 * left["random"]

    @pytest.mark.parametrize("m", [20, 30])
    def test_no_part_is_left_out(self, m):
        r"""Hardly more points than resolved directions, and far more inputs."""
        X, kernel, left = uniform(2000, 1, 7), frozen_kernel("rbf", 0.1), 0.0
        for seed in range(5):
            points = BKBInducingPointAllocator(1e-4, seed).allocate_inducing_points(
                X, kernel, m, torch.Size()
            )
            left += float(nystrom_split(kernel, X, points)[1].trace()) / len(X)
        assert left / 5 < 0.03

    def test_inputs_from_the_same_seed(self):
        r"""The draws have nothing to do with ``torch.manual_seed`` of the same seed."""
        X = torch.rand(4000, 1, generator=torch.Generator().manual_seed(0)).double()
        points = self.allocator(seed=0).allocate_inducing_points(
            X, frozen_kernel("rbf", 0.1), 40, torch.Size()
        )
        for quarter in range(4):
            inside = (points >= quarter / 4) & (points <= (quarter + 1) / 4)
            assert int(inside.sum()) >= 4

    def test_never_more_covariances_at_once_than_a_block(self, monkeypatch):
        sizes, call = [], Prior.covariance

        def counted(self, left, right):
            sizes.append(len(left) * len(right))
            return call(self, left, right)

        monkeypatch.setattr(Prior, "covariance", counted)
        X, rows = uniform(3000, 2, 0), 128
        monkeypatch.setattr(basis, "ROWS", rows)
        points = self.allocator().allocate_inducing_points(
            X, frozen_kernel("matern52"), 64, torch.Size()
        )
        assert points.shape == (64, 2)
        assert max(sizes) <= rows * 64
        assert sum(sizes) <= 6 * len(X) * 64  # 3 for each halving, and 3 at the end

    def test_fewer_distinct_inputs_than_asked(self):
        X = torch.zeros(5, 2)
        points = self.allocator().allocate_inducing_points(
            X, frozen_kernel("rbf"), 3, torch.Size()
        )
        assert points.shape == (1, 2)
        assert points.dtype == torch.float32

    def test_bad_arguments(self):
        with pytest.raises(ValueError, match="alpha"):
            BKBInducingPointAllocator(0.0)
