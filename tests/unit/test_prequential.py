r"""The prequential radius: identities and bookkeeping."""

import math
import warnings

import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, InputDataWarning
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


def one_step_ahead(problem, c=1.0, noise_std=None):
    r"""Predictions of the fixed kernel scaled by ``c``, one at a time."""
    radius = PrequentialRadius(DELTA)
    for s in range(len(problem.Y)):
        x, y = problem.X[s : s + 1], problem.Y[s]
        mean, variance = torch.zeros(1).double(), problem.kernel(x, diag=True)
        if s > 0:
            past = KernelRegression(
                problem.X[:s], problem.Y[:s], problem.kernel, problem.noise_std
            )
            mean, variance = past.mean(x, 1.0 / c), past.variance(x, 1.0 / c)
        noise = noise_std or problem.noise_std
        radius.observe_predictions(mean, c * variance, y, noise, x)
    return radius


@pytest.mark.parametrize("c", [0.2, 1.0, 4.0])
def test_a_fixed_kernel_gives_the_closed_form(c):
    problem = make_problem(n=20, d=2, kernel="matern52", duplicates=True)
    closed = mixture_radius(problem.state, DELTA, c).squared(problem.state)
    expected = with_energy(closed, 20, DELTA)
    assert one_step_ahead(problem, c).squared == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("predicted", [10.0, 30.0, 300.0])
def test_the_energy_has_a_fifth_of_the_mixture(predicted):
    r"""Shares that add up to more than one would be no e-process."""
    levels = 1.0 / (1.0 + 2.0 ** torch.arange(-3.0, 8.5, 0.5, dtype=torch.float64))
    squared = with_energy(predicted, 20, DELTA)
    members = ((1.0 - levels).log() * 10.0 + 0.5 * levels * squared).exp()
    mixture = 0.8 / DELTA * math.exp(0.5 * (squared - predicted)) + 0.2 * members.mean()
    assert float(mixture) == pytest.approx(1.0 / DELTA, rel=1e-9)


def test_many_predictions_at_once(monkeypatch):
    r"""Marginals of a joint posterior, asked for in parts that stay small."""
    problem, X, sizes = make_problem(n=12, d=2), uniform(600, 2, 1), []
    Y = X.sum(-1)
    by_model, by_numbers = PrequentialRadius(DELTA), PrequentialRadius(DELTA)
    posterior = problem.model.posterior(X)
    by_numbers.observe_predictions(posterior.mean, posterior.variance, Y, 0.1, X)
    plain = type(problem.model).posterior

    def counted(self, part):
        sizes.append(len(part))
        return plain(self, part)

    monkeypatch.setattr(type(problem.model), "posterior", counted)
    by_model.observe(problem.model, X, Y, 0.1)
    assert by_model.num_observations == sum(sizes) == 600
    assert max(sizes) <= 512
    assert by_model.squared == pytest.approx(by_numbers.squared, rel=LINEAR_SOLVE)


@pytest.mark.parametrize("form", [{}, {"form": "grid"}, {"form": "analytic"}])
def test_every_form_takes_it(form):
    problem, options = make_problem(n=15, d=2, kernel="matern52"), {"delta": DELTA}
    radius = one_step_ahead(problem)
    options |= {"norm_bound": NORM}
    ours = MartingaleMixtureUCB(problem.state, fit=radius, **form, **options)
    assert ours.function_constraints.radius.tau_ref == 1.0
    squared = ours.function_constraints.radius.squared(ours.regression)
    assert squared == pytest.approx(radius.squared)
    if not form:
        data = problem.X, problem.Y, problem.kernel, problem.noise_std, problem.X
        closed = SketchedMartingaleMixtureUCB(NystromRegression(*data), **options)
        own, other = ours.bounds(problem.test_X), closed.bounds(problem.test_X)
        assert_close(own, other, rtol=0.0, atol=1e-5)


def test_a_model_predicts():
    problem = make_problem(n=12, d=2, kernel="matern52")
    by_model, by_numbers = PrequentialRadius(DELTA), one_step_ahead(problem)
    by_model.observe_predictions(
        0.0, problem.kernel(problem.X[:1], diag=True), problem.Y[0], 0.1, problem.X[0]
    )
    for s in range(1, 12):
        model = frozen_model(problem.X[:s], problem.Y[:s], problem.kernel, 0.1)
        by_model.observe(model, problem.X[s], problem.Y[s], 0.1)
    assert by_model.num_observations == 12
    assert by_model.squared == pytest.approx(by_numbers.squared, rel=LINEAR_SOLVE * 10)


def test_several_at_once_are_the_sum_of_each():
    singles, together = PrequentialRadius(DELTA), PrequentialRadius(DELTA)
    means, variances, outcomes = uniform(4, 3, 0).mT
    noise = 0.1 + uniform(4, 1, 1)[:, 0]
    X = uniform(4, 2, 2)
    for each in zip(means, variances, outcomes, noise, X, strict=True):
        singles.observe_predictions(*each)
    together.observe_predictions(means, variances, outcomes, noise, X)
    assert str(vars(together)) == str(vars(singles))
    assert together.squared == pytest.approx(singles.squared)
    assert torch.equal(together.noise_std, noise)


def test_noise_of_each_observation_is_its_own():
    problem = make_problem(n=5, d=2)
    radius = PrequentialRadius(DELTA)
    noise = torch.linspace(0.1, 0.5, 5).double()
    zeros, ones = torch.zeros(5), torch.ones(5)
    radius.observe_predictions(zeros, ones, problem.Y, noise, problem.X)
    acqf = MartingaleMixtureUCB(problem.model, norm_bound=NORM, delta=DELTA, fit=radius)
    assert_close(acqf.regression.noise_std, noise)
    squared = acqf.function_constraints.radius.squared(acqf.regression)
    assert squared == pytest.approx(radius.squared)


def test_bad_input():
    radius, problem = PrequentialRadius(DELTA), make_problem(n=3)
    x, before = problem.X[0], radius.squared
    for prediction, error, message in (
        ((torch.zeros(2), 1.0, 0.0, 0.1, x), BotorchTensorDimensionError, "2 means"),
        ((0.0, 1.0, math.nan, 0.1, x), InputDataError, "outcome contains NaN"),
        ((0.0, -1.0, 0.0, 0.1, x), ValueError, "variance must not be negative"),
        ((0.0, 1.0, 0.0, 0.0, x), ValueError, "noise_std must be a finite number"),
        ((0.0, 1.0, 0.0, 0.1, problem.X), BotorchTensorDimensionError, "X must be"),
        ((0.0, 1.0, 0.0, 0.1, x * math.nan), InputDataError, "X contains NaN"),
    ):
        with pytest.raises(error, match=message):
            radius.observe_predictions(*prediction)
    for changed, error in (
        ({"Y": problem.Y[:2]}, BotorchTensorDimensionError),
        ({"noise_std": -1.0}, ValueError),
    ):
        given = {"X": problem.X, "Y": problem.Y, "noise_std": 0.1} | changed
        with pytest.raises(error):
            radius.observe(problem.model, **given)
    assert radius.squared == before
    assert radius.num_observations == 0
    given = {"norm_bound": 1.0, "fit": one_step_ahead(problem)}
    for options, message in (
        ({"delta": DELTA, "noise_std": 0.1}, "leave out noise_std"),
        ({"delta": 0.01}, "delta is 0.01, but fit has delta 0.1"),
    ):
        with pytest.raises(ValueError, match=message):
            MartingaleMixtureUCB(problem.state, **given, **options)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_radius_of_other_observations_is_refused(count):
    r"""One noise scale fits any number of observations; the radius does not."""
    problem, radius = make_problem(n=3), PrequentialRadius(DELTA)
    for point in uniform(count, 1, 0):
        radius.observe_predictions(0.0, 1.0, 0.0, 0.1, point)
    options = {"norm_bound": 1.0, "delta": DELTA, "fit": radius}
    with pytest.raises(ValueError, match=f"fit holds {count} observations"):
        MartingaleMixtureUCB(problem.state, **options)
    sketch = NystromRegression(problem.X, problem.Y, problem.kernel, 0.1, problem.X)
    with pytest.raises(ValueError, match=f"fit holds {count} observations"):
        SketchedMartingaleMixtureUCB(sketch, **options)


@pytest.mark.filterwarnings("ignore:.*(not standardized|not contained|Sparse invariant)")
def test_a_model_of_several_tasks_predicts_without_the_task_column():
    problem, radius = make_problem(n=4, d=2), PrequentialRadius(DELTA)
    tasks = torch.arange(4).double().remainder(2).unsqueeze(-1)
    model = MultiTaskGP(
        torch.cat([problem.X, tasks], -1), problem.Y.unsqueeze(-1), 2, output_tasks=[0]
    )
    radius.observe(model.eval(), problem.X, problem.Y, 0.1)
    assert radius.num_observations == 4


def test_predictions_ahead_of_the_outcomes_are_an_assumption():
    problem = make_problem(n=3)
    given = {"norm_bound": 9.0, "delta": DELTA, "fit": one_step_ahead(problem)}
    sketch = NystromRegression(problem.X, problem.Y, problem.kernel, 0.1, problem.X)
    for acqf in (
        MartingaleMixtureUCB(problem.state, **given),
        SketchedMartingaleMixtureUCB(sketch, **given),
    ):
        assert "before their outcomes" in acqf.assumptions["predictions"].statement
        assert acqf.assumptions.certified
    with pytest.raises(KeyError):
        MartingaleMixtureUCB(problem.state, norm_bound=9.0).assumptions["predictions"]


class TestInputs:
    r"""The radius is of outcomes at inputs: the same at others say another function."""

    problem = make_problem(n=12, d=2, duplicates=True)
    columns = torch.tensor([[0.0, -3.0], [2.0, 5.0]], dtype=torch.float64)

    def radius(self, X):
        radius = PrequentialRadius(DELTA)
        radius.observe(self.problem.model, X, self.problem.Y, self.problem.noise_std)
        return radius

    @pytest.mark.parametrize("sketched", [False, True])
    def test_others_are_refused(self, sketched):
        X, Y, noise = self.problem.X, self.problem.Y, self.problem.noise_std
        radius = self.radius(X)
        swapped = X.clone()
        swapped[[2, 7]] = X[[7, 2]]
        moved = [(each, Y) for each in (X.flip(0), swapped, X + 0.01, X[:, :1])]
        for inputs, outcomes in [*moved, (X, Y + 0.01)]:
            kernel = self.problem.kernel
            state = KernelRegression(inputs, outcomes, kernel, noise)
            bound = MartingaleMixtureUCB
            if sketched:
                state = NystromRegression(inputs, outcomes, kernel, noise, inputs[:5])
                bound = SketchedMartingaleMixtureUCB
            with pytest.raises(ValueError, match="hold different inputs or outcomes"):
                bound(state, norm_bound=9.0, delta=DELTA, fit=radius)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_they_are_raw_ones(self, dtype):
        X, Y = self.columns[0] + self.problem.X * self.columns[1], self.problem.Y
        X, Y = X.to(dtype), Y.to(dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputDataWarning)
            transform = ChainedInputTransform(first=Normalize(2), second=Warp(2, [0, 1]))
            model = SingleTaskGP(
                X, Y.unsqueeze(-1), input_transform=transform, outcome_transform=None
            )
        radius = PrequentialRadius(DELTA)
        radius.observe(model, X, Y, 0.1)
        options = {"norm_bound": 99.0, "delta": DELTA, "fit": radius}
        MartingaleMixtureUCB(model, **options)
        state = NystromRegression.from_model(model, X[:5], 0.1)
        SketchedMartingaleMixtureUCB(state, **options)
