r"""BKBModel: the formulas, GPyTorch's own SGPR, draws, costs, edge cases, saved states."""

from copy import deepcopy

import pytest
import torch
from botorch.exceptions import (
    UnsupportedError,
)
from botorch.models.transforms import Log, Normalize, Standardize
from gpytorch.means import ConstantMean
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from hypothesis import given
from hypothesis import strategies as st
from linear_operator import to_linear_operator
from linear_operator.operators import RootLinearOperator
from torch.testing import assert_close

from kernelucb import KernelRegression
from kernelucb.exceptions import StateError
from kernelucb.models import BKBModel
from kernelucb.regression.lowrank.sketch import draw, inclusion_probabilities
from oracles.sketch import collapsed_bound, dtc
from problems import float64, frozen_kernel, normal, polynomial_kernels, uniform
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


def constant(value):
    mean = ConstantMean().double()
    mean.constant = float64(value)
    return mean


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

    def test_evidence_lower_bound_is_the_collapsed_one(self):
        r"""So the variational distribution is the optimal one."""
        model, X, Y = make_model()
        likelihood = model.likelihood.expected_log_prob(
            Y.squeeze(-1), model.posterior(X).distribution
        ).sum()
        bound = float(likelihood - model.model.variational_strategy.kl_divergence())
        expected = collapsed_bound(
            dense(KERNEL), model.inducing_points, X, Y.squeeze(-1), LAM
        )
        assert bound == pytest.approx(expected, rel=SKETCH)

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
        model, exact = (
            BKBModel(X, Y, own, LAM, qbar=1e6),
            KernelRegression(X, Y, own, LAM**0.5),
        )
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
            "mean_module": constant(3.0),
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
        model = BKBModel(X, Y.exp(), KERNEL, LAM, outcome_transform=Log())
        with pytest.raises(UnsupportedError, match="transform the outcomes yourself"):
            model.regression()


class TestStrategy:
    r"""GPyTorch's contract: the strategy marginalises whatever distribution it is given."""

    def parts(self):
        r"""Our strategy and GPyTorch's, and what maps our whitened values to its own."""
        model, *_ = make_model()
        strategy, basis = model.model.variational_strategy, model.state.basis
        theirs = VariationalStrategy(
            model.model,
            basis.inducing,
            CholeskyVariationalDistribution(len(basis.inducing)).double(),
            learn_inducing_locations=False,
            jitter_val=0.0,
        )
        covariance = dense(KERNEL)(basis.inducing, basis.inducing)
        values = covariance @ basis.matrix  # of u = f(points), given our weights
        change = torch.linalg.solve(torch.linalg.cholesky(covariance), values)
        return strategy.eval(), theirs.eval(), change

    @pytest.mark.parametrize("kind", ["root", "matrix", "known"])
    def test_any_distribution(self, kind):
        r"""Without a covariance the inducing values are known, as in GPyTorch."""
        strategy, theirs, change = self.parts()
        rank, points = change.shape[1], strategy.inducing_points
        mean, factor = normal(rank, 4), normal(rank * rank, 5).reshape(rank, rank)
        square = factor @ factor.mT
        own, covariance = None, None
        if kind != "known":
            covariance = to_linear_operator(change @ square @ change.mT)
            own = RootLinearOperator(factor)
            own = own if kind == "root" else to_linear_operator(square)
        with torch.no_grad():
            expected = theirs.forward(QUERIES, points, change @ mean, covariance)
            joint = strategy.forward(QUERIES, points, mean, own)
        slack = {"rtol": 0, "atol": SKETCH}
        assert_close(joint.mean, expected.mean, **slack)
        assert_close(joint.covariance_matrix, expected.covariance_matrix, **slack)
        if kind != "known":  # GPyTorch's own variances at inducing points are negative
            with torch.no_grad():
                single = strategy.forward(QUERIES.unsqueeze(-2), points, mean, own)
            assert_close(single.mean.flatten(), expected.mean, **slack)
            assert_close(single.variance.flatten(), expected.variance, **slack)


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

    def test_factorisations(self, monkeypatch):
        r"""One Cholesky factor a step, one ``eigh`` where the inducing points changed.

        Beside it a factor as large as the step, which spares a pass over all features;
        none for queries.
        """
        sizes = {"eigh": [], "cholesky_ex": []}
        for name in sizes:
            plain = getattr(torch.linalg, name)

            def counted(matrix, name=name, plain=plain):
                sizes[name].append(len(matrix))
                return plain(matrix)

            monkeypatch.setattr(torch.linalg, name, counted)

        def told():
            found = {name: [size for size in sizes[name] if size] for name in sizes}
            sizes.update(eigh=[], cholesky_ex=[])
            return found

        model, X, Y = make_model(qbar=1e6)  # all points are inducing points
        told()
        model.observe(X[:1], Y[:1])
        assert told() == {"eigh": [], "cholesky_ex": [1, 40]}
        marginals(model, QUERIES)
        assert told() == {"eigh": [], "cholesky_ex": []}
        model.observe(uniform(1, 2, 5), Y[:1])
        assert told() == {"eigh": [41], "cholesky_ex": [41]}
        model.condition_on_observations(X[:1], Y[:1])
        assert told() == {"eigh": [], "cholesky_ex": [1, 41]}

    def test_no_step_draws_all_of_the_data_with_prior_variances(self):
        X = uniform(3000, 1, 0)
        model = BKBModel(X, torch.sin(9.0 * X), frozen_kernel("rbf"), LAM, 2.0)
        assert len(model.inducing_points) < 60
        mean, _ = marginals(model, uniform(50, 1, 1))
        assert_close(mean, torch.sin(9.0 * uniform(50, 1, 1)).flatten(), rtol=0, atol=0.02)


class TestLaws:
    @given(st.integers(0, 10**6), st.integers(1, 30), st.floats(0.01, 20.0))
    def test_variance_is_between_zero_and_the_prior(self, seed, n, qbar):
        X, Y = uniform(n, 1, seed), normal(n, seed).unsqueeze(-1)
        X = torch.cat([X, X[:3], X[:3] + 1e-9])
        Y = torch.cat([Y, Y[:3], Y[:3]])
        model = BKBModel(X, Y, frozen_kernel("rbf"), 1e-6, qbar, seed)
        points = torch.cat([X, uniform(10, 1, seed + 1), X + 1e-7])
        mean, variance = marginals(model, points)
        assert bool(variance.gt(0).all())
        assert bool(variance.le(1.0 + REARRANGED).all())
        assert bool(mean.isfinite().all())
        _, far = marginals(model, 50.0 + points)  # no starvation
        assert_close(far, torch.ones_like(far))

    @given(st.integers(0, 10**6))
    def test_outcomes_at_inducing_points_never_raise_variances(self, seed):
        model, *_ = make_model(n=15, seed=seed % 100)
        points = model.inducing_points[:3]
        more = model.condition_on_observations(points, normal(len(points), seed)[:, None])
        before, after = marginals(model, QUERIES)[1], marginals(more, QUERIES)[1]
        assert bool((after <= before + REARRANGED).all())
        assert torch.equal(more.inducing_points, model.inducing_points)


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

    @pytest.mark.parametrize("kernel", POLYNOMIALS)
    @pytest.mark.parametrize("scale", [1e-6, 1e3])
    def test_inputs_of_any_size(self, kernel, scale):
        X = scale * (2.0 * uniform(20, 2, 1) - 1.0)
        own, zero = POLYNOMIALS[kernel], torch.zeros(2, 2).double()
        model = BKBModel(X, X[:, :1] / scale, own, 1e-4, qbar=10.0)
        model.observe(zero, zero[:, :1])
        assert bool(model.posterior(X).mean.isfinite().all())


SCALED = {"input_transform": Normalize(2), "outcome_transform": Standardize(1)}
WIDE = Normalize(2, bounds=torch.tensor([[0.0] * 2, [3.0] * 2]))


def saved_model(n=12, seed=0, **options):
    return make_model(n, seed=seed, **{**deepcopy(SCALED), **options})[0]


class TestState:
    def test_a_loaded_model_goes_on_alike(self, tmp_path):
        model, again = saved_model(), saved_model(5, seed=3)
        torch.save(model.state_dict(), tmp_path / "state.pt")
        again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        assert_close(marginals(again, QUERIES), marginals(model, QUERIES))
        for step in range(5):
            data = uniform(1, 2, 50 + step), normal(1, step).unsqueeze(-1)
            for each in (model, again):
                each.observe(*data)
            assert torch.equal(again.inducing_points, model.inducing_points)
        again.observe(make_data(12)[0][:1], data[1])  # still known as a repeat
        assert len(again.state.counts) == len(model.state.counts)
        assert not torch.equal(saved_model(seed=3).inducing_points, model.inducing_points)

    @pytest.mark.parametrize(
        "options",
        [
            {"kernel": "matern52"},
            {"qbar": 0.5},
            {"mean_module": constant(1.0)},
            {"input_transform": None},
            {"outcome_transform": None},
            {"input_transform": WIDE},
        ],
    )
    def test_another_construction(self, options):
        with pytest.raises(StateError):
            saved_model(5, **options).load_state_dict(saved_model().state_dict())

    def test_within_another_module_and_apart_from_what_was_saved(self):
        models = torch.nn.ModuleList([saved_model(), saved_model(7, seed=1)])
        others = torch.nn.ModuleList([saved_model(4, seed=2), saved_model(9, seed=5)])
        state = models.state_dict()
        others.load_state_dict(state)
        expected = [marginals(model, QUERIES) for model in models]
        for name, value in state.items():
            parts = value.values() if name.endswith("_extra_state") else [value]
            for part in filter(torch.is_tensor, parts):
                part.zero_()
        for model, known in zip(others, expected, strict=True):
            twin = deepcopy(model)
            twin.observe(uniform(3, 2, 6), normal(3, 1).unsqueeze(-1))
            assert twin.num_observations == model.num_observations + 3
            assert_close(marginals(model, QUERIES), known)
