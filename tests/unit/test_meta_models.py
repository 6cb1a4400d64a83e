r"""Estimated priors: the formulas of Wang et al. (2018), updates, gaps."""

import json
import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import KernelRegression, MartingaleMixtureUCB
from kernelucb._numerics.estimates import Estimate
from kernelucb.models import CosineFeatures, DiscreteMetaModel, FeatureMetaModel
from kernelucb.models.meta import TaskMoments, complete_matrix
from problems import float64, generator, normal, uniform
from tolerances import META_COMPLETION, META_POSTERIOR, REARRANGED

N, M = 40, 12
NEAR = {"atol": META_POSTERIOR, "rtol": META_POSTERIOR}
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


def moments_of(model, X=CANDIDATES):
    distribution = model.posterior(X).distribution
    return distribution.mean, distribution.covariance_matrix


@given(st.lists(st.integers(0, M - 1), min_size=0, max_size=8, unique=True))
def test_posterior_on_candidates_is_the_papers(index):
    outcomes = torch.cos(torch.arange(len(index), dtype=torch.float64))
    model = DiscreteMetaModel(VALUES, CANDIDATES)
    for i, y in zip(index, outcomes, strict=True):  # one at a time: by updates
        model = model.condition_on_observations(CANDIDATES[[i]], y.reshape(1, 1))
    mean, covariance = oracle(VALUES, index, outcomes)
    assert_close(moments_of(model), (mean, covariance), **NEAR)
    variance = model.posterior(CANDIDATES).variance.squeeze(-1)
    assert_close(variance, covariance.diagonal(), **NEAR)


def test_batches_and_dtypes():
    model = DiscreteMetaModel(VALUES, CANDIDATES)
    model = model.condition_on_observations(CANDIDATES[:1], float64([[0.5]]))
    index = torch.tensor([[2, 4], [0, 7], [11, 4]])
    mean, covariance = moments_of(model)
    expected = mean[index], covariance[index.unsqueeze(-1), index.unsqueeze(-2)]
    assert_close(moments_of(model, CANDIDATES[index]), expected)
    single = model.posterior(CANDIDATES.float())
    assert single.mean.dtype == torch.float32
    assert_close(single.mean.double().squeeze(-1), mean, atol=1e-5, rtol=1e-5)


def test_an_arm_observed_twice_is_averaged_and_counts_once():
    X, prior = CANDIDATES[[2, 8, 2]], DiscreteMetaModel(VALUES, CANDIDATES)
    twice = prior.condition_on_observations(X, float64([[1.0], [0.5], [2.0]]))
    once = prior.condition_on_observations(X[:2], float64([[1.5], [0.5]]))
    assert twice.num_evaluations == 2
    assert_close(moments_of(twice), moments_of(once))


def test_rank_deficient():
    model = DiscreteMetaModel(tasks(count=5).repeat(3, 1), CANDIDATES)  # 15 of rank 4
    assert model.rank == 4
    y = torch.arange(6.0).double().reshape(6, 1)
    model = model.condition_on_observations(CANDIDATES[[0, 4, 7, 11, 2, 5]], y)
    mean, covariance = moments_of(model)
    assert model.num_evaluations == 4  # the last two were determined
    assert bool(mean.isfinite().all())
    assert float(covariance.abs().max()) == 0.0


def test_constant_columns():
    values = VALUES.index_fill(1, torch.tensor([4]), 1e6 / 3.0)
    model = DiscreteMetaModel(values, CANDIDATES)
    posterior = model.posterior(CANDIDATES[[4]])
    assert float(posterior.mean) == pytest.approx(1e6 / 3.0, rel=1e-12)
    assert float(posterior.variance) <= 1e-12 * 1e12
    changed = model.condition_on_observations(CANDIDATES[[1]], float64([[3.0]]))
    assert bool(moments_of(changed)[0].isfinite().all())


def low_rank():
    random = generator(1)
    left, right = (
        torch.randn(size, generator=random, dtype=torch.float64)
        for size in ((60, 2), (2, 20))
    )
    return left @ right + torch.arange(20.0).double(), random


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_low_rank_is_recovered(share):
    values, random = low_rank()
    gone = torch.rand(values.shape, generator=random) < share
    completion = complete_matrix(values.masked_fill(gone, torch.nan))
    assert torch.equal(completion.values[~gone], values[~gone])
    error = (completion.values - values)[gone].norm() / (values - values.mean(0)).norm()
    assert float(error) < META_COMPLETION
    assert completion.rank == 2
    assert completion.share_missing == pytest.approx(float(gone.double().mean()))
    assert completion.error_ratio < 0.01


def test_tasks_at_candidates_of_their_own():
    values, random = low_rank()
    X, matrix = (
        torch.arange(20.0).double().unsqueeze(-1),
        torch.full_like(values, torch.nan),
    )
    kept = [torch.randperm(20, generator=random)[:14] for _ in values]
    inputs, outcomes = [], []
    for row, full, k in zip(matrix, values, kept, strict=True):
        inputs.append(X[torch.cat([k, k[:1]])])  # the first of them twice
        outcomes.append(torch.cat([full[k], full[k[:1]] + 2.0]))
        row[k] = full[k]
        row[k[0]] += 1.0
    model = DiscreteMetaModel.from_observations(inputs, outcomes, X)
    expected = DiscreteMetaModel(matrix, X)
    assert_close(model.completion.values, expected.completion.values)


def test_posterior_in_features_is_the_papers():
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
    assert_close(moments_of(model), (mean, phi @ left @ phi.mT), **NEAR)


def test_tasks_with_inputs_of_their_own():
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


def test_the_prior_is_a_gpytorch_mean_and_kernel():
    model = feature_model()
    mean, covariance = moments_of(model)
    assert_close(model.mean_module(CANDIDATES), mean)
    assert_close(model.covar_module(CANDIDATES).to_dense(), covariance)
    assert_close(model.covar_module(CANDIDATES, diag=True), covariance.diagonal())


def test_training_is_seeded_and_learns():
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


def test_norm_is_that_of_the_kernel_matrix():
    model = DiscreteMetaModel(VALUES, CANDIDATES)
    other = tasks(count=3, seed=5)
    deviation = other - VALUES.mean(0)
    squared = (deviation @ torch.linalg.inv(torch.cov(VALUES.mT)) * deviation).sum(-1)
    assert_close(model.task_norms(other), squared.sqrt(), rtol=1e-8, atol=0.0)


@pytest.mark.parametrize("count", [15, 40])
def test_leave_one_out(count):
    values = tasks(count=count)
    expected = [
        TaskMoments.of(torch.cat([values[:i], values[i + 1 :]])).norms(values[[i]])
        for i in range(count)
    ]
    actual = TaskMoments.of(values).leave_one_out_norms()
    assert_close(actual, torch.cat(expected), rtol=1e-7, atol=0.0)


def test_norms_are_infinite_where_no_other_task_reaches():
    values = tasks(count=8)  # on 12 candidates
    assert bool(TaskMoments.of(values).leave_one_out_norms().isinf().all())
    model = DiscreteMetaModel(values, CANDIDATES)
    assert bool(model.task_norms(tasks(count=2, seed=3)).isinf().all())


def test_conformal_position():
    norms, model = torch.arange(1.0, 20.0).double(), DiscreteMetaModel(VALUES, CANDIDATES)
    assert model.norm_bound(0.9, norms) == 18.0
    assert model.norm_bound(0.95, norms) == 19.0


@pytest.mark.parametrize(
    "make", [lambda: DiscreteMetaModel(VALUES, CANDIDATES), feature_model]
)
def test_every_bound_reads_the_prior(make):
    model, X = make(), CANDIDATES[[2, 7, 2]]
    y = torch.tensor([[0.5], [-0.5], [0.7]]).double()
    gp = model.to_gp(X, y, noise_std=0.1)
    acqf = MartingaleMixtureUCB(gp, norm_bound=model.norm_bound(0.9), delta=0.05)
    # Leave-one-out norms are an estimate; a number of one's own is not.
    assert acqf.assumptions.summary == "heuristic: norm estimated"
    stated = MartingaleMixtureUCB(gp, norm_bound=float(model.norm_bound(0.9)))
    assert stated.assumptions.certified
    noise = 0.1 * Estimate(1.0)
    guessed = MartingaleMixtureUCB(model.to_gp(X, y, noise_std=noise), norm_bound=9.0)
    assert guessed.assumptions.summary == "heuristic: noise estimated"
    state = KernelRegression(X, y, model.covar_module, 0.1, model.mean_module)
    direct = MartingaleMixtureUCB(state, norm_bound=model.norm_bound(0.9), delta=0.05)
    found, other = acqf.bounds(CANDIDATES), direct.bounds(CANDIDATES)
    assert_close(found, other, atol=REARRANGED, rtol=REARRANGED)
    posterior = gp.posterior(CANDIDATES).mean.squeeze(-1)
    assert_close(acqf.band.data.mean(CANDIDATES), posterior, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("count", [1, 3])
def test_candidates_of_two_columns_are_asked_for_alone(count):
    r"""Mixtures of their columns are no candidates, and the prior refuses these."""
    candidates = uniform(8, 2, 3)
    model = DiscreteMetaModel(normal(20 * 8, 4).reshape(20, 8), candidates)
    gp = model.to_gp(candidates[:count], normal(count, 5).unsqueeze(-1), noise_std=0.1)
    acqf = MartingaleMixtureUCB(gp, norm_bound=9.0)
    lower, upper = acqf.bounds(candidates)
    mean = gp.posterior(candidates).mean.squeeze(-1)
    assert bool(((lower < mean) & (mean < upper)).all())


def test_cosine_features():
    features = CosineFeatures(torch.tensor([[1.0, 2.0]]), torch.tensor([0.0, 1.0]))
    expected = torch.tensor([[math.cos(3.0), math.cos(7.0)]])
    assert_close(features(torch.tensor([[3.0]])), expected)


def test_a_stored_prior_says_what_was_estimated():
    gaps = VALUES.clone()
    gaps[::7, ::5] = torch.nan
    features = FeatureMetaModel(CANDIDATES, VALUES, num_features=4, progress=False)
    models = {"values": DiscreteMetaModel(gaps, CANDIDATES, seed=3), "features": features}
    for name, model in models.items():
        options = json.loads(json.dumps(model.constructor_options(), allow_nan=False))
        data = SimpleNamespace(X=CANDIDATES[:2], Y=VALUES[:1, :2].mT)
        stored = type(model)(**type(model).construct_inputs(data, **options))
        model = model.condition_on_observations(data.X, data.Y)
        assert stored.estimated == model.estimated == {name}
        assert all(map(torch.equal, moments_of(model), moments_of(stored)))
    assert not DiscreteMetaModel(VALUES, CANDIDATES).estimated


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
    assert model.batch_shape == torch.Size()
