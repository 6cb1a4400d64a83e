r"""The GP-UCB benchmark: pooled observations, BoTorch's rules, priors, gains."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from botorch import settings
from botorch.acquisition import analytic
from botorch.models import SingleTaskGP
from gpytorch.kernels import RBFKernel
from torch import Tensor

from kernelucb import KernelRegression, MartingaleMixtureUCB
from tolerances import LINEAR_SOLVE, LOG_TAIL, PERMUTATION

pytest.importorskip("joblib", reason="the benchmark needs kernelucb[bench]")

from benchmarks.papers.srinivas_2010.__main__ import METHODS, average_regret
from benchmarks.papers.srinivas_2010.learners import make_learner
from benchmarks.papers.srinivas_2010.priors import TabulatedKernel, TabulatedMean, prior_of

TEST_ROWS = 8  # of ``small_data``
SYNTHETIC = ("squared_exponential", 0.025, 40)
DELTA = 0.1


def observations(prior, count: int = 30) -> tuple[list[int], Tensor]:
    r"""Noisy outcomes at few points, each of them several times."""
    generator = torch.Generator().manual_seed(0)
    points = torch.randint(0, prior.size, (7,), generator=generator)
    arms = points[torch.randint(0, 7, (count,), generator=generator)]
    noise = torch.randn(count, dtype=torch.float64, generator=generator)
    truth = prior.features @ torch.ones(prior.features.shape[1], dtype=torch.float64)
    return arms.tolist(), prior.mean[arms] + truth[arms] + prior.noise_std * noise


def unpooled(prior, arms: list[int], outcomes: Tensor) -> KernelRegression:
    inputs = torch.tensor(arms, dtype=torch.float64)[:, None]
    kernel, mean = TabulatedKernel(prior.covariance), TabulatedMean(prior.mean)
    return KernelRegression(inputs, outcomes, kernel, prior.noise_std, mean)


def problem(name: str):
    r"""The synthetic prior with a mean that is not zero, its outcomes, who saw them."""
    prior = prior_of(*SYNTHETIC)
    prior = replace(prior, mean=torch.linspace(-1.0, 1.0, prior.size).double())
    arms, outcomes = observations(prior)
    learner = make_learner(prior, METHODS[name], DELTA)
    for arm, outcome in zip(arms, outcomes.tolist(), strict=True):
        learner.observe(arm, outcome)
    return prior, arms, outcomes, learner


@pytest.mark.parametrize("name", ["ei", "ei_observed", "mpi_margin", "mean", "variance"])
def test_botorch_s_rules_see_the_posterior_of_an_exact_gp(name):
    r"""Against ``SingleTaskGP`` on all observations."""
    prior, arms, outcomes, ours = problem(name)
    X = torch.tensor(arms, dtype=torch.float64)[:, None]
    with settings.validate_input_scaling(False):
        model = SingleTaskGP(
            X,
            outcomes[:, None],
            train_Yvar=torch.full_like(X, prior.noise_variance),
            covar_module=TabulatedKernel(prior.covariance),
            mean_module=TabulatedMean(prior.mean),
            outcome_transform=None,
        ).eval()
    best = outcomes.max() if "observed" in name else model.posterior(X).mean.max()
    best = best + (0.1 if "margin" in name else 0.0)  # the prior variance is one
    kind, *arguments = {
        "ei": ("LogExpectedImprovement", best),
        "mpi": ("LogProbabilityOfImprovement", best),
        "mean": ("PosteriorMean",),
        "variance": ("PosteriorStandardDeviation",),
    }[name.split("_")[0]]
    acquisition = getattr(analytic, kind)(model, *arguments)
    with torch.no_grad():
        expected = acquisition(ours.candidates)
        actual = ours.acquisition()(ours.candidates)
    assert int(expected.argmax()) == ours.select()
    torch.testing.assert_close(actual, expected, rtol=LOG_TAIL, atol=LOG_TAIL)


def test_synthetic_prior_is_the_kernel_and_its_functions_have_the_norm_of_their_weights():
    prior = prior_of(*SYNTHETIC)
    kernel = RBFKernel().double()
    kernel.lengthscale = torch.tensor(0.2, dtype=torch.float64)
    grid = torch.linspace(0.0, 1.0, 40, dtype=torch.float64)[:, None]
    torch.testing.assert_close(prior.covariance, kernel(grid).to_dense().detach())
    assert prior.noise_variance == pytest.approx(0.025)
    torch.testing.assert_close(prior.features @ prior.features.mT, prior.covariance)
    function = prior.mean + prior.features[:, -4:] @ torch.arange(1.0, 5.0).double()
    assert prior.norm(function) == pytest.approx(math.sqrt(30.0), rel=LINEAR_SOLVE)


@pytest.mark.usefixtures("small_data")
def test_trials_of_one_row_or_its_neighbours_are_one_block():
    task = {"source": "intel_temperature", "functions": "rows", "rounds": 2}
    trials = range(2 * TEST_ROWS)
    runs = [task | {"trial": t, "regret": [float(t), 0.0]} for t in trials]
    # Rows 0 to 3 are trials 0 to 3 and 8 to 11.
    curves = average_regret(pd.DataFrame(runs), 4)
    np.testing.assert_allclose(curves, [[5.5, 2.75], [9.5, 4.75]])


def test_pooled_observations_have_the_posterior_and_the_set_of_all_of_them():
    r"""Pooling shifts radius and misfit by the same spread within the points."""
    prior, arms, outcomes, pooled = problem("mixture")
    whole = unpooled(prior, arms, outcomes)
    state, X = pooled.pooled(), pooled.candidates[:, 0]
    assert state.num_observations == len(set(arms)) < len(arms)
    torch.testing.assert_close(state.mean(X), whole.mean(X), rtol=0, atol=LINEAR_SOLVE)
    variances = state.variance(X), whole.variance(X)
    torch.testing.assert_close(*variances, rtol=0, atol=LINEAR_SOLVE)
    norm = prior.norm_quantile(0.95)
    options = {"norm_bound": norm, "delta": DELTA / 2, "fit": "martingale"}
    expected = MartingaleMixtureUCB(whole, **options)(pooled.candidates)
    actual = pooled.acquisition()(pooled.candidates)
    torch.testing.assert_close(actual, expected, rtol=0, atol=norm * PERMUTATION)
