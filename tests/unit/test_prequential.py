r"""The prequential radius: identities and bookkeeping."""

import math
import warnings

import pytest
import torch
from botorch.exceptions import InputDataWarning
from botorch.models import MultiTaskGP, SingleTaskGP
from botorch.models.transforms.input import ChainedInputTransform, Normalize, Warp
from torch.testing import assert_close

from kernelucb import (
    KernelRegression,
    MartingaleMixtureUCB,
    NystromRegression,
    PrequentialRadius,
    SketchedMartingaleMixtureUCB,
)
from kernelucb.confidence.radius import mixture_radius, with_energy
from problems import frozen_model, make_problem, uniform
from tolerances import LINEAR_SOLVE

DELTA, NORM = 0.1, 3.0


def one_step_ahead(problem, c=1.0, by_model=False):
    r"""Predictions of the fixed kernel scaled by ``c``, one at a time."""
    radius, noise = PrequentialRadius(DELTA), problem.noise_std
    for s in range(len(problem.Y)):
        x, y = problem.X[s : s + 1], problem.Y[s]
        past = problem.X[:s], problem.Y[:s], problem.kernel, noise
        if by_model and s > 0:
            radius.observe(frozen_model(*past), x[0], y, noise)
            continue
        mean, variance = torch.zeros(1).double(), problem.kernel(x, diag=True)
        if s > 0:
            state = KernelRegression(*past)
            mean, variance = state.mean(x, 1.0 / c), state.variance(x, 1.0 / c)
        radius.observe_predictions(mean, c * variance, y, noise, x)
    return radius


@pytest.mark.parametrize(("c", "by_model"), [(0.2, False), (4.0, False), (1.0, True)])
def test_a_fixed_kernel_gives_the_closed_form(c, by_model):
    problem = make_problem(n=20, d=2, kernel="matern52")
    closed = mixture_radius(problem.state, DELTA, c).squared(problem.state)
    expected = with_energy(closed, 20, DELTA)
    found = one_step_ahead(problem, c, by_model)
    assert found.squared == pytest.approx(expected, rel=LINEAR_SOLVE * 10)


@pytest.mark.parametrize("predicted", [10.0, 30.0, 300.0])
def test_the_energy_has_a_fifth_of_the_mixture(predicted):
    r"""Shares that add up to more than one would be no e-process."""
    levels = 1.0 / (1.0 + 2.0 ** torch.arange(-3.0, 8.5, 0.5, dtype=torch.float64))
    squared = with_energy(predicted, 20, DELTA)
    members = ((1.0 - levels).log() * 10.0 + 0.5 * levels * squared).exp()
    mixture = 0.8 / DELTA * math.exp(0.5 * (squared - predicted)) + 0.2 * members.mean()
    assert float(mixture) == pytest.approx(1.0 / DELTA, rel=1e-9)


def test_many_predictions_at_once():
    r"""Marginals of a joint posterior, asked for in parts."""
    problem, X = make_problem(n=12, d=2), uniform(600, 2, 1)
    by_model, by_numbers = PrequentialRadius(DELTA), PrequentialRadius(DELTA)
    posterior, Y = problem.model.posterior(X), X.sum(-1)
    by_numbers.observe_predictions(posterior.mean, posterior.variance, Y, 0.1, X)
    by_model.observe(problem.model, X, Y, 0.1)
    assert by_model.num_observations == 600
    assert by_model.squared == pytest.approx(by_numbers.squared, rel=LINEAR_SOLVE)


@pytest.mark.parametrize("form", ["dual", "grid", "analytic"])
def test_every_form_takes_it(form):
    problem = make_problem(n=15, d=2, kernel="matern52")
    radius = one_step_ahead(problem)
    options = {"delta": DELTA, "norm_bound": NORM, "fit": radius, "form": form}
    ours = MartingaleMixtureUCB(problem.state, **options)
    squared = ours.band.function_constraints.radius.squared(ours.band.data)
    assert squared == pytest.approx(radius.squared)


def test_a_sketch_of_all_inputs_has_the_same_band():
    problem = make_problem(n=15, d=2, kernel="matern52")
    options = {"delta": DELTA, "norm_bound": NORM, "fit": one_step_ahead(problem)}
    data = problem.X, problem.Y, problem.kernel, problem.noise_std, problem.X
    sketched = SketchedMartingaleMixtureUCB(NystromRegression(*data), **options)
    exact = MartingaleMixtureUCB(problem.state, **options)
    sides = (each.bounds(problem.test_X) for each in (exact, sketched))
    assert_close(*sides, rtol=0.0, atol=1e-5)
    for each in exact, sketched:
        assert "before their outcomes" in each.assumptions["predictions"].statement
        assert each.assumptions.certified


def test_several_at_once_are_the_sum_of_each():
    singles, together = PrequentialRadius(DELTA), PrequentialRadius(DELTA)
    means, variances, outcomes = uniform(4, 3, 0).mT
    noise, X = 0.1 + uniform(4, 1, 1)[:, 0], uniform(4, 2, 2)
    for each in zip(means, variances, outcomes, noise, X, strict=True):
        singles.observe_predictions(*each)
    together.observe_predictions(means, variances, outcomes, noise, X)
    assert together.squared == pytest.approx(singles.squared)
    # The band takes the noise of each observation from there.
    state = KernelRegression(X, outcomes, make_problem().kernel, 0.7)
    acqf = MartingaleMixtureUCB(state, norm_bound=NORM, delta=DELTA, fit=together)
    assert_close(acqf.band.data.noise_std, noise)


def test_what_is_refused_changes_nothing():
    radius, problem = PrequentialRadius(DELTA), make_problem(n=3)
    with pytest.raises(ValueError, match="noise_std"):
        radius.observe(problem.model, problem.X, problem.Y, noise_std=-1.0)
    assert radius.num_observations == 0


@pytest.mark.filterwarnings("ignore:.*(not standardized|not contained|Sparse invariant)")
def test_a_model_of_several_tasks_predicts_without_the_task_column():
    problem, radius = make_problem(n=4, d=2), PrequentialRadius(DELTA)
    tasks = torch.arange(4).double().remainder(2).unsqueeze(-1)
    inputs = torch.cat([problem.X, tasks], -1)
    model = MultiTaskGP(inputs, problem.Y.unsqueeze(-1), 2, output_tasks=[0])
    radius.observe(model.eval(), problem.X, problem.Y, 0.1)
    assert radius.num_observations == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_inputs_are_raw_ones(dtype):
    problem, radius = make_problem(n=12, d=2, duplicates=True), PrequentialRadius(DELTA)
    X = (problem.X * torch.tensor([2.0, 5.0]) + torch.tensor([0.0, -3.0])).to(dtype)
    Y = problem.Y.to(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputDataWarning)
        transform = ChainedInputTransform(first=Normalize(2), second=Warp(2, [0, 1]))
        options = {"input_transform": transform, "outcome_transform": None}
        model = SingleTaskGP(X, Y.unsqueeze(-1), **options)
    radius.observe(model, X, Y, 0.1)
    options = {"norm_bound": 99.0, "delta": DELTA, "fit": radius}
    MartingaleMixtureUCB(model, **options)
    SketchedMartingaleMixtureUCB(NystromRegression.from_model(model, X[:5], 0.1), **options)
