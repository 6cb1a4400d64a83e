r"""Estimated priors: the formulas of Wang et al. (2018), updates, gaps, bad input."""

import json
import math
from types import SimpleNamespace

import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import KernelRegression, MartingaleMixtureUCB
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.models import CosineFeatures, DiscreteMetaModel, FeatureMetaModel
from kernelucb.models.meta import complete_matrix
from kernelucb.models.meta.tasks import TaskMoments, conformal_quantile
from problems import float64, generator
from tolerances import META_COMPLETION, META_POSTERIOR, REARRANGED

N, M = 40, 12
CANDIDATES = torch.linspace(0.0, 1.0, M, dtype=torch.float64).unsqueeze(-1)


def tasks(count=N, length=0.2, noise=0.1, seed=0, at=CANDIDATES):
    r"""Samples of a GP with a squared-exponential kernel and mean ``sin(5 x)``."""
    random = generator(seed)
    covariance = torch.exp(-0.5 * torch.cdist(at, at).square() / length**2)
    covariance = covariance + noise**2 * torch.eye(len(at), dtype=torch.float64)
    normal = torch.randn(count, len(at), generator=random, dtype=torch.float64)
    mean = torch.sin(5.0 * at).squeeze(-1)
    return mean + normal @ torch.linalg.cholesky(covariance).mT


VALUES = tasks()


def oracle(values, index, outcomes):
    r"""Eqs. 3 and 4 of Wang et al. (2018), term by term."""
    count, t = len(values), len(index)
    mean = values.mean(0)
    k = torch.cov(values.mT)
    gain = k[:, index] @ torch.linalg.inv(k[index][:, index])
    return (
        mean + gain @ (outcomes - mean[index]),
        (count - 1) / (count - t - 1) * (k - gain @ k[index]),
    )


class Polynomials(torch.nn.Module):
    r"""``1, x, .., x^(K-1)`` in float32 parameters, as a user may write it."""

    def __init__(self, number=4):
        super().__init__()
        self.powers = torch.nn.Parameter(torch.arange(number).float())

    def forward(self, X):
        return X ** self.powers.to(X)


def feature_model(**options):
    return FeatureMetaModel(CANDIDATES, VALUES, Polynomials(), **options)


class TestDiscretePosterior:
    @given(st.lists(st.integers(0, M - 1), min_size=0, max_size=8, unique=True))
    def test_is_the_papers(self, index):
        outcomes = torch.cos(torch.arange(len(index), dtype=torch.float64))
        model = DiscreteMetaModel(VALUES, CANDIDATES)
        for i, y in zip(index, outcomes, strict=True):  # one at a time: by updates
            model = model.condition_on_observations(CANDIDATES[[i]], y.reshape(1, 1))
        mean, covariance = oracle(VALUES, index, outcomes)
        posterior = model.posterior(CANDIDATES)
        tolerance = {"atol": META_POSTERIOR, "rtol": META_POSTERIOR}
        assert_close(posterior.mean.squeeze(-1), mean, **tolerance)
        assert_close(posterior.distribution.covariance_matrix, covariance, **tolerance)
        assert_close(posterior.variance.squeeze(-1), covariance.diagonal(), **tolerance)

    def test_one_observation_costs_no_factorisation(self, monkeypatch):
        model = DiscreteMetaModel(VALUES, CANDIDATES)
        model = model.condition_on_observations(CANDIDATES[:3], torch.ones(3, 1).double())
        for name in ("cholesky", "eigh", "svd", "inv", "solve", "lstsq", "qr"):
            monkeypatch.setattr(torch.linalg, name, None)
        model.condition_on_observations(CANDIDATES[[7]], torch.ones(1, 1).double())

    def test_batches_and_dtypes(self):
        model = DiscreteMetaModel(VALUES, CANDIDATES)
        model = model.condition_on_observations(CANDIDATES[:1], float64(0.5).reshape(1, 1))
        X = torch.stack([CANDIDATES[[2, 4]], CANDIDATES[[0, 7]], CANDIDATES[[11, 4]]])
        posterior = model.posterior(X)
        mean, covariance = moments_of(model)
        for b, index in enumerate([[2, 4], [0, 7], [11, 4]]):
            assert_close(posterior.mean[b].squeeze(-1), mean[index])
            actual = posterior.distribution.covariance_matrix[b]
            assert_close(actual, covariance[index][:, index])
        single = model.posterior(CANDIDATES.float())
        assert single.mean.dtype == torch.float32
        assert_close(single.mean.double().squeeze(-1), mean, atol=1e-5, rtol=1e-5)


def moments_of(model, X=CANDIDATES):
    distribution = model.posterior(X).distribution
    return distribution.mean, distribution.covariance_matrix


class TestDegenerate:
    def test_an_arm_observed_twice_is_averaged_and_counts_once(self):
        X, prior = CANDIDATES[[2, 8, 2]], DiscreteMetaModel(VALUES, CANDIDATES)
        y = float64([[1.0], [0.5], [2.0]])
        twice = prior.condition_on_observations(X, y)
        once = prior.condition_on_observations(X[:2], float64([[1.5], [0.5]]))
        assert twice.num_evaluations == 2
        assert_close(moments_of(twice), moments_of(once))

    def test_rank_deficient(self):
        values = tasks(count=5)  # rank 4 of 12
        values = torch.cat([values, values, values])  # 15 tasks, still rank 4
        model = DiscreteMetaModel(values, CANDIDATES)
        assert model.rank == 4
        evaluated = model.condition_on_observations(
            CANDIDATES[[0, 4, 7, 11, 2, 5]], torch.arange(6.0).double().reshape(6, 1)
        )
        mean, covariance = moments_of(evaluated)
        assert evaluated.num_evaluations == 4  # the last two were determined
        assert bool(mean.isfinite().all())
        assert float(covariance.abs().max()) == 0.0

    def test_constant_columns(self):
        values = VALUES.clone()
        values[:, 4] = 1e6 / 3.0
        model = DiscreteMetaModel(values, CANDIDATES)
        posterior = model.posterior(CANDIDATES[[4]])
        assert float(posterior.mean) == pytest.approx(1e6 / 3.0, rel=1e-12)
        assert float(posterior.variance) <= 1e-12 * 1e12
        changed = model.condition_on_observations(CANDIDATES[[1]], float64(3.0).view(1, 1))
        assert bool(moments_of(changed)[0].isfinite().all())


class TestMissing:
    def low_rank(self, seed=1, count=60, rank=2):
        random = generator(seed)
        left = torch.randn(count, rank, generator=random, dtype=torch.float64)
        right = torch.randn(rank, 20, generator=random, dtype=torch.float64)
        return left @ right + torch.arange(20.0).double(), random

    @pytest.mark.parametrize("share", [0.1, 0.3])
    def test_low_rank_is_recovered(self, share):
        values, random = self.low_rank()
        gone = torch.rand(values.shape, generator=random) < share
        completion = complete_matrix(values.masked_fill(gone, torch.nan))
        assert torch.equal(completion.values[~gone], values[~gone])
        error = (completion.values - values)[gone].norm() / (values - values.mean(0)).norm()
        assert float(error) < META_COMPLETION
        assert completion.rank == 2
        assert completion.share_missing == pytest.approx(float(gone.double().mean()))
        assert completion.error_ratio < 0.01

    def test_tasks_at_candidates_of_their_own(self):
        values, random = self.low_rank()
        X = torch.arange(20.0).double().unsqueeze(-1)
        kept = [torch.randperm(20, generator=random)[:14] for _ in values]
        inputs = [X[torch.cat([k, k[:1]])] for k in kept]  # the first of them twice
        outcomes = [
            torch.cat([row[k], row[k[:1]] + 2.0])
            for row, k in zip(values, kept, strict=True)
        ]
        model = DiscreteMetaModel.from_observations(inputs, outcomes, X)
        matrix = torch.full_like(values, torch.nan)
        for row, full, k in zip(matrix, values, kept, strict=True):
            row[k] = full[k]
            row[k[0]] += 1.0
        expected = DiscreteMetaModel(matrix, X)
        assert_close(model.completion.values, expected.completion.values)


class TestFeatures:
    def test_posterior_is_the_papers(self):
        r"""Eqs. 7 and 8, with the least-squares weights in the given basis."""
        index, y = [1, 6, 10], torch.tensor([[0.5], [-1.0], [0.2]]).double()
        phi = Polynomials().double()(CANDIDATES)
        W = torch.linalg.lstsq(phi, VALUES.mT).solution.mT
        u, sigma = W.mean(0), torch.cov(W.mT)
        at = phi[index]
        gain = sigma @ at.mT @ torch.linalg.inv(at @ sigma @ at.mT)
        mean = phi @ (u + gain @ (y.squeeze(-1) - at @ u))
        left = (N - 1) / (N - 4) * (sigma - gain @ at @ sigma)
        model = feature_model().condition_on_observations(CANDIDATES[index], y)
        actual = moments_of(model)
        tolerance = {"atol": META_POSTERIOR, "rtol": META_POSTERIOR}
        assert_close(actual[0], mean, **tolerance)
        assert_close(actual[1], phi @ left @ phi.mT, **tolerance)

    def test_tasks_with_inputs_of_their_own(self):
        random = generator(3)
        inputs = [torch.rand(n, 1, generator=random).double() for n in [9, 14, 20, 11, 30]]
        weights = torch.randn(5, 4, generator=random).double()
        phi = Polynomials().double()
        values = [phi(x) @ w for x, w in zip(inputs, weights, strict=True)]
        model = FeatureMetaModel(inputs, values, Polynomials())
        grid = phi(CANDIDATES)
        mean, covariance = moments_of(model)
        assert_close(mean, grid @ weights.mean(0))
        assert_close(covariance, grid @ torch.cov(weights.mT) @ grid.mT)

    def test_the_prior_is_a_gpytorch_mean_and_kernel(self):
        model = feature_model()
        mean, covariance = moments_of(model)
        assert_close(model.mean_module(CANDIDATES), mean)
        assert_close(model.covar_module(CANDIDATES).to_dense(), covariance)
        assert_close(model.covar_module(CANDIDATES, diag=True), covariance.diagonal())

    def test_training_is_seeded_and_stops(self):
        X = torch.linspace(0.0, 1.0, 40, dtype=torch.float64).unsqueeze(-1)
        values = tasks(count=30, at=X)
        options = {"num_features": 12, "progress": False}
        models = [FeatureMetaModel(X, values, seed=s, **options) for s in (0, 0, 1)]
        first, again, other = [model.features.frequencies for model in models]
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
        assert "features" in models[0].estimated
        # The tasks are smooth: a network that learnt anything predicts the truth's shape.
        sampled = tasks(count=400, at=X, seed=9)
        error = (models[0].posterior(X).mean.squeeze(-1) - sampled.mean(0)).abs().max()
        assert float(error) < 1.0
        correlation = models[0].covar_module(X).to_dense()
        assert float((correlation - torch.cov(sampled.mT)).abs().mean()) < 0.3


class TestNorms:
    def test_norm_is_that_of_the_kernel_matrix(self):
        model = DiscreteMetaModel(VALUES, CANDIDATES)
        other = tasks(count=3, seed=5)
        deviation = other - VALUES.mean(0)
        squared = (deviation @ torch.linalg.inv(torch.cov(VALUES.mT)) * deviation).sum(-1)
        assert_close(model.task_norms(other), squared.sqrt(), rtol=1e-8, atol=0.0)

    @pytest.mark.parametrize("count", [15, 40])
    def test_leave_one_out(self, count):
        values = tasks(count=count)
        expected = [
            TaskMoments.of(torch.cat([values[:i], values[i + 1 :]])).norms(values[[i]])
            for i in range(count)
        ]
        actual = TaskMoments.of(values).leave_one_out_norms()
        assert_close(actual, torch.cat(expected), rtol=1e-7, atol=0.0)

    def test_norms_are_infinite_where_no_other_task_reaches(self):
        model = DiscreteMetaModel(tasks(count=8), CANDIDATES)  # 8 tasks on 12 candidates
        assert bool(TaskMoments.of(tasks(count=8)).leave_one_out_norms().isinf().all())
        assert bool(model.task_norms(tasks(count=2, seed=3)).isinf().all())
        with pytest.raises(InputDataError, match="100% of the tasks are not in the span"):
            model.norm_bound(0.5)

    def test_conformal_position(self):
        norms = torch.arange(1.0, 20.0).double()  # 19 of them
        assert conformal_quantile(norms, 0.9) == 18.0
        assert conformal_quantile(norms, 0.95) == 19.0
        with pytest.raises(InputDataError, match="needs at least 99 tasks, got 19"):
            conformal_quantile(norms, 0.99)


class TestUnderTheCore:
    @pytest.mark.parametrize(
        "make", [lambda: DiscreteMetaModel(VALUES, CANDIDATES), feature_model]
    )
    def test_every_bound_reads_the_prior(self, make):
        model, X = make(), CANDIDATES[[2, 7, 2]]
        y = torch.tensor([[0.5], [-0.5], [0.7]]).double()
        gp = model.to_gp(X, y, noise_std=0.1)
        acqf = MartingaleMixtureUCB(gp, norm_bound=model.norm_bound(0.9), delta=0.05)
        # Leave-one-out norms are an estimate; a number of one's own is not.
        assert acqf.assumptions.summary == "heuristic: norm estimated"
        stated = MartingaleMixtureUCB(gp, norm_bound=float(model.norm_bound(0.9)))
        assert stated.assumptions.certified
        noise = 0.1 * EstimatedNumber(1.0)
        guessed = MartingaleMixtureUCB(model.to_gp(X, y, noise_std=noise), norm_bound=9.0)
        assert guessed.assumptions.summary == "heuristic: noise estimated"
        state = KernelRegression(X, y, model.covar_module, 0.1, model.mean_module)
        direct = MartingaleMixtureUCB(state, norm_bound=model.norm_bound(0.9), delta=0.05)
        own, other = acqf.bounds(CANDIDATES), direct.bounds(CANDIDATES)
        assert_close(own, other, atol=REARRANGED, rtol=REARRANGED)
        posterior = gp.posterior(CANDIDATES).mean.squeeze(-1)
        assert_close(acqf.regression.mean(CANDIDATES), posterior, atol=1e-6, rtol=1e-6)


def test_cosine_features():
    features = CosineFeatures(torch.tensor([[1.0, 2.0]]), torch.tensor([0.0, 1.0]))
    expected = torch.tensor([[math.cos(3.0), math.cos(7.0)]])
    assert_close(features(torch.tensor([[3.0]])), expected)


def stored_again(model):
    options = json.loads(json.dumps(model.constructor_options(), allow_nan=False))
    data = SimpleNamespace(X=CANDIDATES[:2], Y=VALUES[:1, :2].mT)
    stored = type(model)(**type(model).construct_inputs(data, **options))
    return model.condition_on_observations(data.X, data.Y), stored


def test_a_stored_prior_says_what_was_estimated():
    gaps = VALUES.clone()
    gaps[::7, ::5] = torch.nan
    features = FeatureMetaModel(CANDIDATES, VALUES, num_features=4, progress=False)
    models = {"values": DiscreteMetaModel(gaps, CANDIDATES, seed=3), "features": features}
    for name, model in models.items():
        model, stored = stored_again(model)
        assert stored.estimated == model.estimated == {name}
        assert all(map(torch.equal, moments_of(model), moments_of(stored)))
    assert not DiscreteMetaModel(VALUES, CANDIDATES).estimated


SHAPES, DATA = BotorchTensorDimensionError, InputDataError
GAPS = VALUES.masked_fill(torch.rand(N, M, generator=generator(4)) < 0.8, torch.nan)
THREE = [VALUES[0], VALUES[1, :3]], [CANDIDATES, CANDIDATES[:3]]


def discrete(values=VALUES, candidates=CANDIDATES):
    return DiscreteMetaModel(values, candidates)


def of_features(values=VALUES, inputs=CANDIDATES, features=None):
    return FeatureMetaModel(inputs, values, features or Polynomials())


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda: discrete(VALUES[:1]), DATA, "at least 2 training tasks, got 1"),
        (lambda: discrete(candidates=CANDIDATES[:, 0]), SHAPES, "candidates must be `M x"),
        (lambda: discrete(candidates=0.0 * CANDIDATES), DATA, "equal rows"),
        (lambda: discrete(GAPS), DATA, r"too much to complete|have fewer than"),
        (lambda: discrete().posterior(CANDIDATES[:1] + 0.01), DATA, "not one of the"),
        (lambda: of_features(VALUES * torch.nan), DATA, "task_values contains NaN"),
        (lambda: of_features(*THREE), DATA, "3 inputs for 4 independent basis"),
        (
            lambda: MartingaleMixtureUCB(discrete(), norm_bound=1.0),
            UnsupportedError,
            "not an exact single-task GP",
        ),
    ],
)
def test_refused(use, error, message):
    with pytest.raises(error, match=message):
        use()


@pytest.mark.parametrize("make", [discrete, of_features])
def test_queries_and_observations_that_are_refused(make):
    model, y = make(), torch.ones(2, 1).double()
    with pytest.raises(SHAPES, match="X must be"):
        model.posterior(torch.zeros(3, 2).double())
    with pytest.raises(SHAPES, match="Y must be `n x 1`"):
        model.condition_on_observations(CANDIDATES[:2], y.squeeze(-1))
    with pytest.raises(DATA, match="Y contains NaN"):
        model.condition_on_observations(CANDIDATES[:2], y * torch.nan)
    few = make(VALUES[:5])
    few.condition_on_observations(CANDIDATES[:3], y[:1].repeat(3, 1))
    with pytest.raises(DATA, match=r"at most 3 evaluations; .* needs 6"):
        few.condition_on_observations(CANDIDATES[:4], y.repeat(2, 1))


def test_norms_of_other_tasks():
    model = feature_model()
    norms = model.task_norms(CANDIDATES, VALUES)
    singly = torch.cat([model.task_norms(CANDIDATES, v[None]) for v in VALUES[:3]])
    assert_close(norms[:3], singly)
    centre = VALUES.mean(0, keepdim=True)
    twice = model.task_norms(CANDIDATES, torch.cat([centre + 2.0, centre + 4.0]))
    base = model.task_norms(CANDIDATES, centre)
    assert bool((twice > base).all())
    assert_close(twice[1], 2.0 * twice[0])
    assert model.batch_shape == discrete().batch_shape == torch.Size()
