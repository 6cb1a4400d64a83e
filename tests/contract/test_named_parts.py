r"""The parts that were named for the product: each is there by its public name, and works.

A part may become better, smaller or move; it may not go.
"""

import json
import math
import warnings
from pathlib import Path

import pytest
import torch
from botorch.acquisition import AcquisitionFunction, UpperConfidenceBound
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.models import SingleTaskVariationalGP
from botorch.models.approximate_gp import ApproximateGPyTorchModel
from botorch.optim import optimize_acqf
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.mlls import VariationalELBO

import kernelucb as k
from kernelucb.models import BKBModel, CosineFeatures, DiscreteMetaModel, FeatureMetaModel
from problems import OwnGP, constant_mean, float64, frozen_kernel, make_problem, uniform
from tolerances import CONVEX_GRADIENT, CONVEX_VALUE, SKETCH

ROOT = Path(__file__).parents[2]
PROBLEM = make_problem(n=8, d=2, norm=2.0)
X, Y, MODEL, KERNEL = PROBLEM.X, PROBLEM.Y, PROBLEM.model, frozen_kernel("matern52")
POINTS, BOX = uniform(6, 2, 7), float64([[0.0, 0.0], [1.0, 1.0]])
UNKNOWN = k.UnknownNoise(0.01, 1.0)
GIVEN, NOISE = {"norm_bound": 2.0}, {"noise_std": 0.1}


def holds(acqf, points=POINTS):
    r"""A band with a width, around the function, and what it rests on."""
    lower, upper = acqf.bounds(points)
    assert bool((lower < upper).all())
    if points.shape[-1] == 2:
        truth = PROBLEM.function(points)
        assert bool((lower <= truth).all() & (truth <= upper).all())
    assert acqf.assumptions.source


def forms(form):
    r"""Flynn and Reeb (2024): closed form, minimum over the dual, cone program."""
    acqf = k.MartingaleMixtureUCB(MODEL, form=form, **GIVEN)
    holds(acqf)
    least = k.MartingaleMixtureUCB(MODEL, **GIVEN).bounds(POINTS)[1]
    assert bool((acqf.bounds(POINTS)[1] >= least - CONVEX_VALUE).all())


def cone_program():
    r"""Gradients through cvxpylayers are those of the dual."""
    gradients = []
    for form in ("convex", "dual"):
        points = POINTS[:2].unsqueeze(-2).clone().requires_grad_()
        given = {"form": form, "fit": "martingale", **GIVEN}
        value = k.MartingaleMixtureUCB(MODEL, **given)(points).sum()
        gradients += torch.autograd.grad(value, points)
    tolerance = {"rtol": CONVEX_GRADIENT, "atol": CONVEX_GRADIENT}
    torch.testing.assert_close(*gradients, **tolerance)
    assert float(gradients[0].abs().max()) > 0.1


def search():
    acqf = k.MartingaleMixtureUCB(MODEL, **GIVEN)
    found, value = optimize_acqf(acqf, BOX, q=1, num_restarts=2, raw_samples=32)
    assert float(value) >= float(acqf(POINTS.unsqueeze(-2)).max())
    assert found.shape == (1, 2)


def drop_in():
    r"""Called, built by BoTorch and searched as its own ``UpperConfidenceBound``."""
    own = UpperConfidenceBound(MODEL, beta=4.0)
    for given in ({}, GIVEN):
        acqf = k.MartingaleMixtureUCB(MODEL, **given)
        assert isinstance(acqf, AcquisitionFunction)
        value = acqf(POINTS.unsqueeze(-2))
        assert value.shape == own(POINTS.unsqueeze(-2)).shape
    given = get_acqf_input_constructor(k.MartingaleMixtureUCB)(model=MODEL, **GIVEN)
    built = k.MartingaleMixtureUCB(**given)
    torch.testing.assert_close(built(POINTS.unsqueeze(-2)), value)


def strategy():
    r"""Nystrom variational strategy of BKB: trained, the model's posterior, a bound."""
    likelihood = GaussianLikelihood().double()
    likelihood.noise = float64(0.01)
    gp = OwnGP(X, Y, KERNEL, constant_mean(0.0), likelihood)
    assert isinstance(gp.variational_strategy, k.BKBVariationalStrategy)
    VariationalELBO(likelihood, gp.train(), num_data=8)(gp(X), Y).backward()
    assert float(likelihood.raw_noise.grad.abs()) > 0.0
    model = ApproximateGPyTorchModel(gp, likelihood.requires_grad_(False))
    expected = BKBModel(X, Y[:, None], KERNEL, 0.01).posterior(POINTS).mean
    torch.testing.assert_close(model.posterior(POINTS).mean, expected, rtol=0, atol=SKETCH)
    gp.variational_strategy.observe(POINTS, PROBLEM.function(POINTS))
    holds(k.BKBUCB(model, **GIVEN))
    optimize_acqf(UpperConfidenceBound(model, 4.0), BOX, q=1, num_restarts=1, raw_samples=4)


def allocator():
    allocator = k.BKBInducingPointAllocator(alpha=0.01)
    scaled = (Y - Y.mean()) / Y.std()
    given = {"inducing_points": 4, "inducing_point_allocator": allocator}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of BoTorch, about its own defaults
        model = SingleTaskVariationalGP(X, scaled[:, None], **given)
    assert len(model.model.variational_strategy.inducing_points) == 4


def sampled():
    r"""The band of a sample of the GP, which the function here is not."""
    lower, upper = k.SrinivasUCB(MODEL).bounds(POINTS)
    assert bool((lower < upper).all())


def played(bandit):
    for _ in range(6):
        arm = X[bandit.select(X)]
        bandit.observe(arm, float(PROBLEM.function(arm[None])))
    lower, upper = bandit.bounds(X)
    assert bool((lower <= PROBLEM.function(X)).all())
    assert bool((PROBLEM.function(X) <= upper).all())


def batches():
    bandit = k.BKBBandit(X, KERNEL, **GIVEN, **NOISE)
    arms = bandit.batch_select(3)
    bandit.observe(arms, PROBLEM.function(X)[arms])
    lower, upper = bandit.bounds()
    assert bool((lower < upper).all())


def tracker():
    noise = k.StreamingNoiseTracker(2.0, UNKNOWN)
    noise.observe(PROBLEM.state)
    holds(k.StreamingKernelUCB(MODEL, tracker=noise, noise_std=UNKNOWN))


def thompson():
    sampler = k.KernelThompsonSampling(MODEL, **GIVEN)
    torch.manual_seed(0)
    assert len(sampler(POINTS, 3)) == 3


TASKS = uniform(40, 8, 3)  # earlier tasks at the same eight inputs


def meta(model):
    r"""Wang, Kim and Kaelbling (2018)."""
    model = model.condition_on_observations(X[:2], Y[:2, None])
    for acqf in (k.MetaUCB(model, delta=0.9), k.MetaPI(model, target=9.0)):
        assert bool(acqf(X[:, None]).isfinite().all())


def ax():
    r"""A trial of an experiment; importing Ax takes longer than all the rest."""
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig

    from kernelucb.ax import generation_strategy

    prior = {"kernel": "matern52", "lengthscale": 0.4}
    options = {**prior, **GIVEN, **NOISE}
    client = Client(random_seed=0)
    x = RangeParameterConfig(name="x", parameter_type="float", bounds=(0.0, 1.0))
    client.configure_experiment(parameters=[x])
    client.configure_optimization(objective="y")
    client.set_generation_strategy(
        generation_strategy(k.MartingaleMixtureUCB, options=options, num_initial=1)
    )
    for _ in range(2):
        ((index, parameters),) = client.get_next_trials(max_trials=1).items()
        client.complete_trial(trial_index=index, raw_data={"y": math.sin(parameters["x"])})
    assert "MartingaleMixtureUCB" in str(client._generation_strategy)


def notebooks():
    r"""Those of the index, with outputs; whether they run is a test of its own."""
    listed = (ROOT / "docs" / "tutorials" / "index.md").read_text()
    paths = sorted((ROOT / "tutorials").glob("*.ipynb"))
    assert len(paths) >= 12
    for path in paths:
        cells = json.loads(path.read_text())["cells"]
        assert path.name in listed
        assert any(cell.get("outputs") for cell in cells)
    assert "BKBVariationalStrategy" in (ROOT / "tutorials/10_many_rounds.ipynb").read_text()


PARTS = {
    **{f"form {name}": (forms, name) for name in ("analytic", "dual", "convex")},
    "differentiable cone program": (cone_program,),
    "optimize_acqf": (search,),
    "drop-in for UpperConfidenceBound": (drop_in,),
    "BKB's variational strategy": (strategy,),
    "BKB's points for BoTorch's models": (allocator,),
    "Ax": (ax,),
    "notebooks": (notebooks,),
    "Flynn and Reeb: UCB on arms": (
        lambda: played(k.KernelBandit(KERNEL, **GIVEN, **NOISE)),
    ),
    "Srinivas: GP-UCB": (sampled,),
    "Chowdhury and Gopalan: IGP-UCB": (lambda: holds(k.IGPUCB(MODEL, **GIVEN)),),
    "Abbasi-Yadkori": (lambda: holds(k.AbbasiYadkoriUCB(MODEL, **GIVEN)),),
    "Durand: KernelUCB, noise unknown": (
        lambda: holds(k.StreamingKernelUCB(MODEL, noise_std=UNKNOWN, **GIVEN)),
    ),
    "Durand: streaming noise": (tracker,),
    "Durand: kernel Thompson sampling": (thompson,),
    "BKB": (lambda: holds(k.BKBUCB(BKBModel(X, Y[:, None], KERNEL, 0.01), **GIVEN)),),
    "BBKB": (batches,),
    "meta BO on arms": (lambda: meta(DiscreteMetaModel(TASKS, X)),),
    "meta BO on a box": (
        lambda: meta(FeatureMetaModel(X, TASKS, CosineFeatures(X[:2], torch.zeros(2)))),
    ),
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_what_was_named_is_there_and_works(part):
    use, *arguments = PARTS[part]
    use(*arguments)
