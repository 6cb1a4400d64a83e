r"""The benchmark of experiments, in small."""

from types import SimpleNamespace

import pytest
import torch
from scipy.integrate import solve_ivp

pytest.importorskip("joblib", reason="needs the extra `bench`")

from benchmarks.experiments import __main__ as experiments
from benchmarks.experiments import reaction
from benchmarks.experiments.coverage import play_coverage
from benchmarks.experiments.problems import constrained_problem


def _task(runs, **own):
    return SimpleNamespace(**runs[0] | own)


def test_a_safe_arm_is_safe_and_the_threshold_leaves_the_given_share():
    task = _task(experiments.SAFE, grid=41)
    problem = constrained_problem(task)
    assert float(problem.slacks(problem.start[None])) > 0.0
    line = torch.linspace(0.0, 1.0, 41, dtype=torch.float64)
    slacks = problem.slacks(torch.cartesian_prod(line, line))
    assert float((slacks >= 0.0).double().mean()) == pytest.approx(task.share, abs=0.01)


@pytest.mark.parametrize("run", experiments.EXPLORED[6:12:3], ids=lambda r: r["problem"])
def test_functions_of_botorch_are_maximised(run):
    problem = constrained_problem(SimpleNamespace(**run))
    X = torch.rand(500, len(problem.parameters), dtype=torch.float64)
    feasible = (problem.slacks(X) >= 0.0).all(-1)
    assert bool(feasible.any())
    assert float(problem.objective(X)[feasible].max()) <= problem.optimum + 1e-3


def test_a_reaction_follows_its_rate_laws():
    reactor = reaction.Reactor.draw(experiments.PROTOCOL["stream"], 5)
    for recipe in reaction.grid(2):
        solvent, kelvin = int(recipe[0]), float(recipe[1]) + 273.15
        heat = (1.0 / 333.15 - 1.0 / kelvin) / 8.314e-3
        rates, energies = reactor.rates[:, solvent], reactor.energies[:, solvent]
        k = (rates * (energies * heat).exp()).numpy()

        def change(_, y, k=k):
            return [-(k[0] + k[2]) * y[0], k[0] * y[0] - k[1] * y[1]]

        end = solve_ivp(change, (0.0, float(recipe[2])), [1.0, 0.0], rtol=1e-8, atol=1e-10)
        left, product = end.y[:, -1]
        expected = [100.0 * product, 100.0 * (1.0 - left - product)]
        found = reactor.outcomes(recipe[None])[0].tolist()
        assert found == pytest.approx(expected, abs=1e-4)


def test_beliefs_hold_on_reported_reactions():
    reported = {run["seed"] for run in experiments.MIXED}
    bounds = [belief["norm_bound"] for belief in reaction.BELIEFS.values()]
    for seed in reported:
        norms = reaction.Reactor.draw(experiments.PROTOCOL["stream"], seed).norms(9)
        assert all(norm < bound for norm, bound in zip(norms, bounds, strict=True))


def test_wrong_reports_are_found_out():
    small = {"arms": 5, "grid": 21, "looks": [4], "evaluations": 20, "size": 1}
    runs = [run for run in experiments.COVERAGE if run["case"] == "context"]
    found = {run["factor"]: run for run in runs if run["block"] == 0}
    wrong = {f: play_coverage(run | small)["wrong"][0] for f, run in found.items()}
    assert not wrong[1.0]
    assert wrong[0.25]
