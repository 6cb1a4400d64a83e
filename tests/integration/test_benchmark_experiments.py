r"""The benchmark of experiments, in small."""

from dataclasses import replace

import pytest
import torch
from scipy.integrate import solve_ivp

pytest.importorskip("joblib", reason="needs the extra `bench`")

from benchmarks.experiments import __main__ as command
from benchmarks.experiments import coverage, dimensions, tables, trials
from benchmarks.experiments.constraints import constrained_problem
from benchmarks.experiments.problems import KnownFunction
from benchmarks.experiments.reaction import Reactor
from benchmarks.runner import largest_value, read_table, rkhs_norm

pytestmark = pytest.mark.slow

WHOLE = command.CONFIGURATION
PROTOCOL = replace(WHOLE.protocol, restarts=1, raw_samples=4, iterations=2)
PLANE = WHOLE.settings["plane_matern52"]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    many = replace(
        WHOLE.dimensions,
        protocol=PROTOCOL,
        settings=(WHOLE.settings["rbf_d4"],),
        seeds=(0,),
        looks=(1, 3),
        evaluations=500,
    )
    few = replace(WHOLE.coverage, arms=5, grid=21, looks=(4,), evaluations=20)
    few = replace(few, sequences=1, wrong_sequences=1, size=1)
    short = {"protocol": PROTOCOL, "seeds": 1, "grid": 11}
    safe = replace(WHOLE.safe, problems=("plane_matern52",), trials=3, **short)
    explored = replace(WHOLE.explored, problems=("ConstrainedGramacy",), trials=6, **short)
    mixed = replace(WHOLE.mixed, trials=6, **short)
    parts = {"dimensions": many, "coverage": few, "safe": safe, "explored": explored}
    parts["mixed"] = mixed
    monkeypatch.setattr(command, "CONFIGURATION", replace(WHOLE, **parts))


@pytest.mark.parametrize(
    ("name", "player", "count"),
    [
        ("dimensions", dimensions, 2),
        ("coverage", coverage, 6),
        ("safe", trials, 3),
        ("explored", trials, 3),
        ("mixed", trials, 3),
    ],
)
def test_commands_write_their_tables_and_keep_their_runs(
    tmp_path, monkeypatch, name, player, count
):
    arguments = [name, "--output", str(tmp_path)]
    command.BENCHMARK.main(arguments)
    path = tmp_path / "results"
    assert len(read_table(path / f"{name}.csv")) == count
    before = (path / f"{name}.md").read_text()
    monkeypatch.setattr(player, "play", None)  # all runs are kept
    command.BENCHMARK.main(arguments)
    assert (path / f"{name}.md").read_text() == before


def test_functions_have_the_norm_that_is_promised_and_no_larger_value():
    function = KnownFunction.draw(PROTOCOL, PLANE, 3)
    norm = rkhs_norm(function.kernel, function.centres, function.weights)
    assert float(norm) == pytest.approx(PLANE.norm)
    values = function(torch.rand(500, 2, dtype=torch.float64))
    assert float(values.max()) <= largest_value(function, function.centres) <= PLANE.norm


def test_a_safe_arm_is_safe_and_the_threshold_leaves_the_given_share():
    task = replace(WHOLE.safe.tasks(WHOLE.settings)[0], grid=41)
    problem = constrained_problem(task)
    assert float(problem.slacks(problem.start[None])) > 0.0
    line = torch.linspace(0.0, 1.0, 41, dtype=torch.float64)
    slacks = problem.slacks(torch.cartesian_prod(line, line))
    assert float((slacks >= 0.0).double().mean()) == pytest.approx(task.share, abs=0.01)


@pytest.mark.parametrize("name", ["ConstrainedGramacy", "ConstrainedHartmann"])
def test_functions_of_botorch_are_maximised(name):
    task = replace(WHOLE.explored.tasks(WHOLE.settings)[0], problem=name)
    problem = constrained_problem(task)
    X = torch.rand(500, len(problem.parameters), dtype=torch.float64)
    feasible = (problem.slacks(X) >= 0.0).all(-1)
    assert bool(feasible.any())
    assert float(problem.objective(X)[feasible].max()) <= problem.optimum + 1e-3


def test_a_reaction_follows_its_rate_laws():
    reactor = Reactor.draw(PROTOCOL, WHOLE.reactions["reaction"], 5)
    for recipe in reactor.grid(2):
        solvent, kelvin = int(recipe[0]), float(recipe[1]) + 273.15
        heat = (1.0 / 333.15 - 1.0 / kelvin) / 8.314e-3
        k = (
            reactor.rates[:, solvent] * (reactor.energies[:, solvent] * heat).exp()
        ).numpy()

        def change(_, y, k=k):
            return [-(k[0] + k[2]) * y[0], k[0] * y[0] - k[1] * y[1]]

        end = solve_ivp(change, (0.0, float(recipe[2])), [1.0, 0.0], rtol=1e-8, atol=1e-10)
        left, product = end.y[:, -1]
        expected = [100.0 * product, 100.0 * (1.0 - left - product)]
        assert reactor.outcomes(recipe[None])[0].tolist() == pytest.approx(
            expected, abs=1e-4
        )


def test_tuning_and_reported_reactions_are_others():
    seeds = [
        {task.seed for task in part.tasks(WHOLE.settings | WHOLE.reactions)}
        for part in (WHOLE.mixed, WHOLE.tuning)
    ]
    assert seeds == [set(range(20)), set(range(100, 104))]


def test_wrong_reports_are_found_out():
    tasks = command.CONFIGURATION.coverage.tasks()
    believed = {
        task.factor: coverage.play(task) for task in tasks if task.case == "context"
    }
    assert not any(believed[1.0].wrong)
    assert any(believed[WHOLE.coverage.wrong].wrong)


def test_a_violation_counts():
    row = {"trials": 2, "violations": 1, "start": "0", "optimum": "2", "seconds": "1"}
    row |= {"problem": "p", "method": "safe", "best_feasible": "1"}
    assert "| p | safe | 1 | 1 | 1.0 | 50% |" in "\n".join(
        tables.safe_table(WHOLE.safe, [row])
    )
