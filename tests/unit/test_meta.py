r"""Estimated priors and their bounds: Wang et al. (2018), updates, gaps, statuses."""

import json
import math
from types import SimpleNamespace

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import KernelRegression, MartingaleMixtureUCB, MetaPI, MetaUCB
from kernelucb._numerics.estimates import Estimate
from kernelucb.confidence.assumptions import Status
from kernelucb.models import CosineFeatures, DiscreteMetaModel, FeatureMetaModel
from kernelucb.papers.meta import exploration_factor
from kernelucb.papers.meta_candidates import complete_matrix
from kernelucb.papers.meta_model import TaskMoments
from oracles import meta_many
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


def oracle(values, index, outcomes, features=None):
    r"""Eqs. 3 and 4 of Wang et al. (2018), term by term, or 7 and 8 with features."""
    count, t = len(values), len(index)
    phi = torch.eye(values.shape[1]).double() if features is None else features
    mean, k = phi @ values.mean(0), phi @ torch.cov(values.mT) @ phi.mT
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


def feature_model():
    return FeatureMetaModel(CANDIDATES, VALUES, Polynomials())


def discrete_model(values=VALUES):
    return DiscreteMetaModel(values, CANDIDATES)


MODELS = pytest.mark.parametrize("make", [discrete_model, feature_model])
CLASSES = pytest.mark.parametrize("acqf_class", [MetaUCB, MetaPI])


def evaluated(make, evaluations=2):
    X = CANDIDATES[[3, 10, 6, 1]][:evaluations]
    return make().condition_on_observations(X, torch.sin(9.0 * X))


def moments_of(model, X=CANDIDATES):
    distribution = model.posterior(X).distribution
    return distribution.mean, distribution.covariance_matrix


@given(st.lists(st.integers(0, M - 1), min_size=0, max_size=8, unique=True))
def test_posterior_on_candidates_is_the_papers(index):
    outcomes, model = torch.cos(torch.arange(len(index)).double()), discrete_model()
    for i, y in zip(index, outcomes, strict=True):  # one at a time: by updates
        model = model.condition_on_observations(CANDIDATES[[i]], y.reshape(1, 1))
    mean, covariance = oracle(VALUES, index, outcomes)
    assert_close(moments_of(model), (mean, covariance), **NEAR)
    variance = model.posterior(CANDIDATES).variance.squeeze(-1)
    assert_close(variance, covariance.diagonal(), **NEAR)


def test_posterior_in_features_is_the_papers():
    r"""With the least-squares weights in the given basis."""
    index, y = [1, 6, 10], float64([[0.5], [-1.0], [0.2]])
    phi = Polynomials().double()(CANDIDATES)
    weights = torch.linalg.lstsq(phi, VALUES.mT).solution.mT
    model = feature_model().condition_on_observations(CANDIDATES[index], y)
    expected = oracle(weights, index, y.squeeze(-1), phi)
    assert_close(moments_of(model), expected, **NEAR)


def test_an_arm_observed_twice_is_averaged_and_counts_once():
    X, prior = CANDIDATES[[2, 8, 2]], discrete_model()
    twice = prior.condition_on_observations(X, float64([[1.0], [0.5], [2.0]]))
    once = prior.condition_on_observations(X[:2], float64([[1.5], [0.5]]))
    assert twice.num_evaluations == 2
    assert_close(moments_of(twice), moments_of(once))


def test_rank_deficient():
    model = discrete_model(tasks(count=5).repeat(3, 1))  # 15 of rank 4
    assert model.rank == 4
    y = torch.arange(6.0).double().reshape(6, 1)
    model = model.condition_on_observations(CANDIDATES[[0, 4, 7, 11, 2, 5]], y)
    mean, covariance = moments_of(model)
    assert model.num_evaluations == 4  # the last two were determined
    assert bool(mean.isfinite().all())
    assert float(covariance.abs().max()) == 0.0


def test_constant_columns():
    values = VALUES.index_fill(1, torch.tensor([4]), 1e6 / 3.0)
    model = discrete_model(values)
    posterior = model.posterior(CANDIDATES[[4]])
    assert float(posterior.mean) == pytest.approx(1e6 / 3.0, rel=1e-12)
    assert float(posterior.variance) <= 1e-12 * 1e12
    changed = model.condition_on_observations(CANDIDATES[[1]], float64([[3.0]]))
    assert bool(moments_of(changed)[0].isfinite().all())


def low_rank():
    left, right = normal(120, 1).reshape(60, 2), normal(40, 2).reshape(2, 20)
    return left @ right + torch.arange(20.0).double()


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_low_rank_is_recovered(share):
    values = low_rank()
    gone = torch.rand(values.shape, generator=generator(3)) < share
    completion = complete_matrix(values.masked_fill(gone, torch.nan))
    assert torch.equal(completion.values[~gone], values[~gone])
    error = (completion.values - values)[gone].norm() / (values - values.mean(0)).norm()
    assert float(error) < META_COMPLETION
    assert completion.rank == 2
    assert completion.share_missing == pytest.approx(float(gone.double().mean()))
    assert completion.error_ratio < 0.01


def test_tasks_at_candidates_of_their_own():
    r"""The first of each task is observed twice; the mean of both counts."""
    values, X = low_rank(), torch.arange(20.0).double().unsqueeze(-1)
    order = torch.stack([torch.randperm(20, generator=generator(i)) for i in range(60)])
    index = torch.cat([order[:, :14], order[:, :1]], -1)
    outcomes = values.gather(1, index)
    outcomes[:, -1] += 2.0
    shifted = values.scatter_add(1, order[:, :1], torch.ones(60, 1).double())
    matrix = shifted.scatter(1, order[:, 14:], torch.nan)
    model = DiscreteMetaModel.from_observations([*X[index]], [*outcomes], X)
    assert_close(model.completion.values, DiscreteMetaModel(matrix, X).completion.values)


def test_tasks_with_inputs_of_their_own():
    inputs, phi = [uniform(n, 1, n) for n in (9, 14, 20, 11, 30)], Polynomials().double()
    weights = normal(20, 3).reshape(5, 4)
    values = [phi(x) @ w for x, w in zip(inputs, weights, strict=True)]
    model, grid = FeatureMetaModel(inputs, values, Polynomials()), phi(CANDIDATES)
    expected = grid @ weights.mean(0), grid @ torch.cov(weights.mT) @ grid.mT
    assert_close(moments_of(model), expected)


# Trains three times: half a second.
def test_training_is_seeded_and_learns():
    r"""The tasks are smooth: what learnt anything predicts the truth's shape."""
    X = torch.linspace(0.0, 1.0, 40, dtype=torch.float64).unsqueeze(-1)
    given = {"num_features": 12, "progress": False}
    given |= {"task_inputs": X, "task_values": tasks(count=30, at=X)}
    models = [FeatureMetaModel(**given, seed=seed) for seed in (0, 0, 1)]
    first, again, other = [model.features.frequencies for model in models]
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    sampled = tasks(count=400, at=X, seed=9)
    mean, covariance = moments_of(models[0], X)
    assert float((mean - sampled.mean(0)).abs().max()) < 1.0
    assert float((covariance - torch.cov(sampled.mT)).abs().mean()) < 0.3


def test_norm_is_that_of_the_kernel_matrix():
    other = tasks(count=3, seed=5)
    deviation = other - VALUES.mean(0)
    squared = (deviation @ torch.linalg.inv(torch.cov(VALUES.mT)) * deviation).sum(-1)
    norms = discrete_model().task_norms(other)
    assert_close(norms, squared.sqrt(), rtol=1e-8, atol=0.0)


@pytest.mark.parametrize("count", [15, 40])
def test_leave_one_out(count):
    values = tasks(count=count)
    expected = [
        TaskMoments.of(torch.cat([values[:i], values[i + 1 :]])).norms(values[[i]])
        for i in range(count)
    ]
    found = TaskMoments.of(values).leave_one_out_norms()
    assert_close(found, torch.cat(expected), rtol=1e-7, atol=0.0)


def test_norms_are_infinite_where_no_other_task_reaches():
    values = tasks(count=8)  # on 12 candidates
    assert bool(TaskMoments.of(values).leave_one_out_norms().isinf().all())
    model = discrete_model(values)
    assert bool(model.task_norms(tasks(count=2, seed=3)).isinf().all())


def test_norms_of_tasks_in_features():
    r"""Twice the deviation has twice the norm."""
    model, centre = feature_model(), VALUES.mean(0, keepdim=True)
    values = torch.cat([VALUES[:2], 2.0 * VALUES[:1] - centre])
    norms = model.task_norms(CANDIDATES, values)
    assert_close(norms, torch.cat([model.task_norms(CANDIDATES, v[None]) for v in values]))
    assert_close(norms[2], 2.0 * norms[0])


def test_conformal_position():
    norms = torch.arange(1.0, 20.0).double()
    assert discrete_model().norm_bound(0.9, norms) == 18.0
    assert discrete_model().norm_bound(0.95, norms) == 19.0


@MODELS
def test_every_bound_reads_the_prior(make):
    model, X, y = make(), CANDIDATES[[2, 7, 2]], float64([[0.5], [-0.5], [0.7]])
    gp, norm_bound = model.to_gp(X, y, noise_std=0.1), model.norm_bound(0.9)
    acqf = MartingaleMixtureUCB(gp, norm_bound=norm_bound)
    state = KernelRegression(X, y, model.covar_module, 0.1, model.mean_module)
    direct = MartingaleMixtureUCB(state, norm_bound=norm_bound)
    found, other = acqf.bounds(CANDIDATES), direct.bounds(CANDIDATES)
    assert_close(found, other, atol=REARRANGED, rtol=REARRANGED)
    posterior = gp.posterior(CANDIDATES).mean.squeeze(-1)
    assert_close(acqf.band.data.mean(CANDIDATES), posterior, atol=1e-6, rtol=1e-6)


def test_leave_one_out_norms_are_an_estimate_and_so_is_a_guessed_noise():
    model, X, y = discrete_model(), CANDIDATES[[2, 7]], float64([[0.5], [-0.5]])
    for noise_std, norm_bound, summary in (
        (0.1, model.norm_bound(0.9), "heuristic: norm estimated"),
        (0.1, 9.0, "certified"),
        (0.1 * Estimate(1.0), 9.0, "heuristic: noise estimated"),
    ):
        gp = model.to_gp(X, y, noise_std=noise_std)
        acqf = MartingaleMixtureUCB(gp, norm_bound=norm_bound)
        assert acqf.assumptions.summary.startswith(summary)


@pytest.mark.parametrize("count", [1, 3])
def test_candidates_of_two_columns_are_asked_for_alone(count):
    r"""Mixtures of their columns are no candidates, and the prior refuses these."""
    candidates = uniform(8, 2, 3)
    model = DiscreteMetaModel(normal(20 * 8, 4).reshape(20, 8), candidates)
    gp = model.to_gp(candidates[:count], normal(count, 5).unsqueeze(-1), noise_std=0.1)
    lower, upper = MartingaleMixtureUCB(gp, norm_bound=9.0).bounds(candidates)
    mean = gp.posterior(candidates).mean.squeeze(-1)
    assert bool(((lower < mean) & (mean < upper)).all())


def test_cosine_features():
    features = CosineFeatures(torch.tensor([[1.0, 2.0]]), torch.tensor([0.0, 1.0]))
    expected = torch.tensor([[math.cos(3.0), math.cos(7.0)]])
    assert_close(features(torch.tensor([[3.0]])), expected)


def test_zeta_is_the_papers():
    for count, t, delta in ((1799, 1, 0.01), (40, 12, 0.1)):
        expected = meta_many.zeta(count, t, delta)
        assert exploration_factor(count, t, delta) == pytest.approx(expected, rel=1e-14)


@given(st.integers(1, 30), st.floats(1e-6, 0.9), st.floats(0.1, 0.99))
def test_laws_of_zeta(t, delta, factor):
    r"""The smallest number that the error names is enough, and no larger than needed."""
    limit = t + 4.0 * math.log(6.0 / (factor * delta))
    with pytest.raises(ValueError, match="training functions") as caught:
        exploration_factor(math.floor(limit), t, factor * delta)
    count = int(str(caught.value).split("at least ")[1].split()[0])
    assert count - 1 <= limit
    zeta = exploration_factor(count, t, delta)
    assert math.sqrt(2.0 * math.log(3.0 / delta)) < zeta < math.inf
    assert exploration_factor(count + 1, t, delta) < zeta
    assert zeta < exploration_factor(count, t, factor * delta) < math.inf


def deviations(model):
    return model.posterior(CANDIDATES).variance.sqrt().squeeze(-1)


@MODELS
@pytest.mark.parametrize("evaluations", [0, 1, 3])
def test_ucb(make, evaluations):
    model = evaluated(make, evaluations)
    acqf, mean = MetaUCB(model, delta=0.1), moments_of(model)[0]
    zeta = exploration_factor(N, evaluations + 1, 0.1)
    assert acqf.band.constants["zeta"] == zeta
    half = zeta * deviations(model)
    assert_close(acqf.bounds(CANDIDATES), (mean - half, mean + half))


@MODELS
@pytest.mark.parametrize("target", [None, 14.0])
def test_pi(make, target):
    model = evaluated(make)
    acqf, mean, sd = MetaPI(model, target=target), moments_of(model)[0], deviations(model)
    assert acqf.target == (float(VALUES.max()) if target is None else target)
    value, fresh = acqf(CANDIDATES.unsqueeze(1)), sd > 1e-6
    assert_close(value[fresh], ((mean - acqf.target) / sd)[fresh])
    # At the evaluated points nothing is left to learn: worst of all, best mean first.
    assert float(value[~fresh].max()) < float(value[fresh].min())
    assert torch.equal(value[~fresh].argsort(), mean[~fresh].argsort())


def test_pi_once_the_target_is_exceeded():
    r"""As good as 99 is no improvement; with few training functions as well."""
    model = discrete_model(tasks(18))
    model = model.condition_on_observations(CANDIDATES[[2, 9]], float64([[99.0], [-50.0]]))
    assert (MetaPI(model).target, MetaPI(model, maximize=False).target) == (99.0, -50.0)
    assert int(MetaPI(model)(CANDIDATES.unsqueeze(1)).argmin()) in (2, 9)
    sure = MetaPI(model, target=50.0)(CANDIDATES.unsqueeze(1))
    assert int(sure.argmax()) == 2
    assert bool(sure.isfinite().all())


@CLASSES
def test_minimising_is_maximising_minus_f(acqf_class):
    model, flipped, X = discrete_model(), discrete_model(-VALUES), CANDIDATES.unsqueeze(1)
    transform = ScalarizedPosteriorTransform(float64([-2.0]), 3.0)
    expected = acqf_class(flipped)(X)
    assert_close(acqf_class(model, maximize=False)(X), expected)
    scaled = acqf_class(model, posterior_transform=transform)(X)
    assert_close((scaled - 3.0) / 2.0 if acqf_class is MetaUCB else scaled, expected)


@MODELS
def test_pending_points_are_conditioned_on(make):
    model, pending = evaluated(make, 1), CANDIDATES[[7, 8]]
    plain, waiting = MetaUCB(model), MetaUCB(model, X_pending=pending)
    assert all(map(torch.equal, plain.bounds(CANDIDATES), waiting.bounds(CANDIDATES)))
    means = moments_of(model)[0]
    fantasy = model.condition_on_observations(pending, means[[7, 8]].unsqueeze(-1))
    expected = means + plain.band.constants["zeta"] * deviations(fantasy)
    assert_close(waiting(CANDIDATES.unsqueeze(1)), expected, atol=1e-7, rtol=1e-7)


@CLASSES
def test_gradients_are_finite_at_an_evaluation(acqf_class):
    X = CANDIDATES[[3]].unsqueeze(0).requires_grad_()
    acqf_class(evaluated(feature_model))(X).sum().backward()
    assert bool(X.grad.isfinite().all())


def test_what_is_given_and_what_is_not():
    fresh, later = (MetaUCB(evaluated(discrete_model, n)).assumptions for n in (0, 1))
    assert fresh.certified
    assert not fresh.anytime
    assert later["inputs"].status is Status.ESTIMATED
    assert "40 training functions" in str(later)


def test_a_stored_prior_says_what_was_estimated():
    gaps = VALUES.masked_fill(torch.eye(N, M).bool(), torch.nan)
    features = FeatureMetaModel(CANDIDATES, VALUES, num_features=4, progress=False)
    for name, model in {"values": discrete_model(gaps), "features": features}.items():
        options = json.loads(json.dumps(model.constructor_options(), allow_nan=False))
        data = SimpleNamespace(X=CANDIDATES[:2], Y=VALUES[:1, :2].mT)
        stored = type(model)(**type(model).construct_inputs(data, **options))
        model = model.condition_on_observations(data.X, data.Y)
        assert stored.estimated == model.estimated == {name}
        assert MetaUCB(stored).assumptions[name].status is Status.ESTIMATED
        assert all(map(torch.equal, moments_of(model), moments_of(stored)))
