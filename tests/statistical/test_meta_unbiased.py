r"""Estimated posteriors over many training sets: bias, factor, coverage.

Each test compares means of independent replications with the truth. By the central limit
theorem each standardised difference is close to standard normal; with ``k`` comparisons the
threshold is the normal quantile at ``FALSE_ALARM / k``, so a correct estimator fails a test
for at most one seed in a million (and the seed is fixed). The threshold is widened by a
tenth for the tails of Wishart variables, which are heavier at this number of replications.
"""

import warnings

import pytest
import torch
from scipy.stats import binom, norm

from kernelucb import MartingaleMixtureUCB, MetaUCB
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.models import DiscreteMetaModel, FeatureMetaModel
from kernelucb.models.meta.moments import TaskMoments, conformal_quantile
from problems import generator
from tolerances import COVERAGE_FALSE_ALARM as FALSE_ALARM
from tolerances import ORDER

N, M, NOISE = 12, 6, 0.3
X = torch.linspace(0.0, 1.0, M, dtype=torch.float64).unsqueeze(-1)
MEAN = torch.cos(4.0 * X).squeeze(-1)
K = torch.exp(-0.5 * torch.cdist(X, X).square() / 0.3**2)
TOTAL = K + NOISE**2 * torch.eye(M, dtype=torch.float64)
REPLICATIONS = 1000


def training_sets(replications, count, covariance, seed=0):
    root = torch.linalg.cholesky(covariance)
    size = (replications, count, len(covariance))
    normal = torch.randn(size, generator=generator(seed), dtype=torch.float64)
    return normal @ root.mT


def assert_unbiased(samples, truth):
    r"""``replications x ...`` samples have this expectation."""
    error = samples.std(0) / len(samples) ** 0.5
    score = ((samples.mean(0) - truth) / error)[error > 1e-12]
    threshold = 1.1 * norm.isf(FALSE_ALARM / (2 * score.numel()))
    assert float(score.abs().max()) < threshold
    exact = error <= 1e-12
    assert torch.allclose(samples.mean(0)[exact], truth[exact], atol=1e-9)


@pytest.mark.parametrize("index", [[], [2], [1, 4, 5, 2]])
def test_the_discrete_posterior_is_unbiased(index):
    r"""Lemma 1: ``E mu_t = mu_t`` and ``E k_t = k_t + sigma^2 I``, the factor applied once.

    Evaluations are made one at a time, so a factor that compounds over steps would show:
    for four of them it is off by 11/10 * 11/9 * 11/8 = 1.85.
    """
    y = torch.sin(torch.arange(len(index), dtype=torch.float64))
    means, covariances = [], []
    for values in MEAN + training_sets(REPLICATIONS, N, TOTAL):
        model = DiscreteMetaModel(values, X)
        for i, outcome in zip(index, y, strict=True):
            model = model.condition_on_observations(X[[i]], outcome.reshape(1, 1))
        distribution = model.posterior(X).distribution
        means.append(distribution.mean)
        covariances.append(distribution.covariance_matrix)
    gain = TOTAL[:, index] @ torch.linalg.inv(TOTAL[index][:, index])
    assert_unbiased(torch.stack(means), MEAN + gain @ (y - MEAN[index]))
    assert_unbiased(torch.stack(covariances), TOTAL - gain @ TOTAL[index])


class Line(torch.nn.Module):
    def forward(self, inputs):
        return torch.cat([torch.ones_like(inputs), inputs, inputs.square()], -1)


def test_the_feature_posterior_is_unbiased():
    r"""Lemma 3: ``E mu_t = mu_t``, ``E k_t = k_t + phi^T sigma^2 (Phi Phi^T)^-1 phi``."""
    phi, index = Line()(X), [1, 4]
    y = torch.tensor([[0.4], [1.0]], dtype=torch.float64)
    sigma = torch.tensor([[1.0, 0.3, 0.0], [0.3, 0.5, 0.1], [0.0, 0.1, 0.8]]).double()
    total = sigma + NOISE**2 * torch.linalg.inv(phi.mT @ phi)
    weights = training_sets(REPLICATIONS, N, sigma, seed=1)
    noise = NOISE * training_sets(REPLICATIONS, N, torch.eye(M).double(), seed=2)
    means, covariances = [], []
    for task_values in weights @ phi.mT + noise:
        model = FeatureMetaModel(X, task_values, Line())
        distribution = (
            model.condition_on_observations(X[index], y).posterior(X).distribution
        )
        means.append(distribution.mean)
        covariances.append(distribution.covariance_matrix)
    at = phi[index]
    gain = total @ at.mT @ torch.linalg.inv(at @ total @ at.mT)
    assert_unbiased(torch.stack(means), phi @ gain @ y.squeeze(-1))
    assert_unbiased(torch.stack(covariances), phi @ (total - gain @ at @ total) @ phi.mT)


def test_the_band_holds_at_a_point_fixed_in_advance():
    r"""Lemma 11 with Corollary 6: misses of either side are rarer than ``delta``.

    Binomial: among the replications, at most as many misses as a band that just holds
    would exceed with probability ``FALSE_ALARM``.
    """
    delta, count, index, at = 0.2, 30, [0, 3], 5
    root = torch.linalg.cholesky(K + 1e-10 * torch.eye(M, dtype=torch.float64))
    random, misses, replications = generator(7), 0, 500
    for values in MEAN + training_sets(replications, count, TOTAL, seed=8):
        f = MEAN + root @ torch.randn(M, generator=random, dtype=torch.float64)
        y = f[index] + NOISE * torch.randn(2, generator=random, dtype=torch.float64)
        model = DiscreteMetaModel(values, X)
        model = model.condition_on_observations(X[index], y.unsqueeze(-1))
        lower, upper = MetaUCB(model, delta=delta).bounds(X[[at]])
        misses += not bool(lower <= f[at] <= upper)
    assert misses <= int(binom.isf(FALSE_ALARM, replications, delta))


def test_the_conformal_norm_bound_covers_whatever_the_law():
    r"""Held-out norms bound a new task's norm as often as promised, for heavy tails too."""
    probability, held_out, replications = 0.8, 19, 1000
    random, misses = generator(3), 0
    for _ in range(replications):
        size = (20 + held_out + 1, 4)
        cauchy = torch.randn(size, generator=random) / torch.randn(size, generator=random)
        values = cauchy.double()
        moments = TaskMoments.of(values[:20])
        bound = conformal_quantile(moments.norms(values[20:-1]), probability)
        misses += bool(moments.norms(values[-1:]) > bound)
    assert misses <= int(binom.isf(FALSE_ALARM, replications, 1.0 - probability))


def test_a_learnt_norm_bound_keeps_the_martingale_mixture_band_honest():
    r"""``delta + 1 - probability`` bounds the rate at which the whole band misses.

    The tasks are no Gaussian process: half of them are three times as large.
    """
    delta, probability, replications = 0.1, 0.8, 150
    random, misses = generator(5), 0
    for replication in range(replications):
        directions = training_sets(1, 4, TOTAL, seed=replication)[0]
        scale = torch.where(torch.rand(31, 1, generator=random) < 0.5, 3.0, 1.0)
        tasks = (scale * torch.randn(31, 4, generator=random)).double() @ directions
        prior, f = DiscreteMetaModel(tasks[:12], X), tasks[30]
        bound = prior.norm_bound(probability, norms=prior.task_norms(tasks[12:30]))
        index = torch.randint(M, (5,), generator=random)
        y = f[index] + NOISE * torch.randn(5, generator=random).double()
        gp = prior.to_gp(X[index], y.unsqueeze(-1), NOISE)
        with warnings.catch_warnings():  # the norm bound may be too small, as promised
            warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
            band = MartingaleMixtureUCB(gp, norm_bound=bound, delta=delta)
        lower, upper = band.bounds(X)
        slack = ORDER * bound
        misses += bool(((f < lower - slack) | (f > upper + slack)).any())
    allowed = binom.isf(FALSE_ALARM, replications, delta + 1.0 - probability)
    assert misses <= int(allowed)
