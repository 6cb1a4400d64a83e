r"""The benchmark of kernels that are not known, in small."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("joblib", reason="needs the extra `bench`")

from benchmarks.runner import fixed_kernel, read_table, rkhs_norm
from benchmarks.unknown_kernel import __main__ as command
from benchmarks.unknown_kernel import (
    boxes,
    conjunction,
    coverage,
    play,
    published,
    stops,
    stops_table,
)
from benchmarks.unknown_kernel.balancing import LengthscaleBalancing
from benchmarks.unknown_kernel.learners import Family
from benchmarks.unknown_kernel.problems import Problem, squared_section_norm
from benchmarks.unknown_kernel.settings import Family as FamilyOfLengths
from benchmarks.unknown_kernel.settings import Task
from kernelucb import KernelFamilyUCB, KernelRegression, lengthscale_family
from tolerances import REARRANGED

pytestmark = pytest.mark.slow

WHOLE = command.CONFIGURATION
LENGTHS = FamilyOfLengths(0.1, 0.4, 2.0)
SETTING = replace(WHOLE.settings["matern_d1_between"], lengthscale=0.15, family=LENGTHS)
SPIKE = replace(WHOLE.settings["spike_rbf_d2"], family=LENGTHS)
PROTOCOL = replace(WHOLE.protocol, arms=20, starts=2, rounds=3, check_every=2)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    experiment = replace(
        WHOLE.experiments["regret"],
        protocol=PROTOCOL,
        settings={"one": SETTING, "two": SPIKE},
        further_settings=("two",),
        seeds=(0,),
    )
    few = replace(PROTOCOL, arms=8, starts=1, rounds=2)
    settings = {"one": SETTING, "two": SPIKE}
    small = replace(
        WHOLE,
        settings=settings,
        experiments={"regret": experiment},
        coverage=replace(
            WHOLE.coverage, protocol=few, sequences=2, wrong_sequences=2, size=2
        ),
        published=replace(WHOLE.published, points=21, rounds=2, seeds=2),
        conjunction=replace(
            WHOLE.conjunction,
            pairs=WHOLE.conjunction.pairs[:1],
            candidates=30,
            observations=(3, 5),
            seeds=1,
            sequences=2,
            arms=10,
            rounds=2,
            size=2,
        ),
        boxes=replace(
            WHOLE.boxes, settings=("one",), seeds=1, rounds=1, raw_samples=4, iterations=1
        ),
    )
    monkeypatch.setattr(command, "CONFIGURATION", small)
    monkeypatch.setattr(stops_table, "ROUNDS", 4)
    monkeypatch.setattr(stops_table, "SEEDS", 1)


@pytest.mark.parametrize(
    ("name", "table", "count", "player"),
    [
        ("regret", "regret_runs", 14, play),
        ("coverage", "coverage", 4, coverage),
        ("published", "published", 6, published),
        ("boxes", "boxes", 5, boxes),
        ("conjunction", "conjunction", 2, conjunction),
        ("stops", "stops", 7, stops),
        ("stops_ax", "stops_ax", 2, stops),
    ],
)
def test_commands_write_their_tables_and_keep_their_runs(
    tmp_path, monkeypatch, name, table, count, player
):
    arguments = [name, "--output", str(tmp_path)]
    if name == "stops_ax":
        pytest.importorskip("ax", reason="needs the extra `ax`")
    command.BENCHMARK.main(arguments)
    path = tmp_path / "results"
    assert len(read_table(path / f"{table}.csv")) == count
    before = (path / f"{name}.md").read_text()
    monkeypatch.setattr(player, "play", None)  # all runs are kept
    command.BENCHMARK.main(arguments)
    assert (path / f"{name}.md").read_text() == before


@pytest.mark.parametrize("setting", [SETTING, SPIKE], ids=lambda setting: setting.name)
def test_functions_have_the_norm_that_is_promised(setting):
    protocol = replace(PROTOCOL, arms=400)
    problem = Problem.draw(protocol, setting, 3)
    gram = problem.kernel(problem.arms).to_dense()
    gram.diagonal().add_(1e-8)
    interpolant = (problem.values @ torch.linalg.solve(gram, problem.values)).sqrt()
    # At most the norm of the function, of which hills partly outside the cube hide some.
    assert 0.9 * setting.norm < interpolant < setting.norm


def test_the_norm_of_a_section_under_a_shorter_scale_is_the_closed_form():
    d, short, long = 2, SPIKE.lengthscale, 0.8
    closed = (long**2 / (short * math.sqrt(2 * long**2 - short**2))) ** d
    assert squared_section_norm(SPIKE, long) == pytest.approx(closed, rel=1e-6)
    same = replace(SETTING, lengthscale=0.2)
    kernel = fixed_kernel("matern52", 0.2)
    own = rkhs_norm(kernel, torch.zeros(1, 1).double(), torch.ones(1).double()) ** 2
    assert squared_section_norm(same, 0.2) == pytest.approx(float(own), rel=1e-6)


def test_the_family_is_the_librarys():
    problem = Problem.draw(PROTOCOL, SETTING, 0)
    learner = Family(problem, "widest")
    draws = np.random.default_rng(0)
    for _ in range(12):
        arm = int(draws.integers(PROTOCOL.arms))
        learner.observe(arm, float(problem.values[arm]) + 0.1 * draws.standard_normal())
    state = KernelRegression(
        problem.arms[learner.played],
        torch.tensor(learner.outcomes, dtype=torch.float64),
        problem.kernel,
        problem.noise_std,
    )
    kernels = lengthscale_family(fixed_kernel("matern52", 0.4), 0.1, 0.4, 2.0)
    bound = KernelFamilyUCB(
        state, kernels, norm_bound=problem.norm_bound, delta=problem.delta
    )
    lower, upper = bound.bounds(problem.arms)
    torch.testing.assert_close(learner.lower(), lower, rtol=REARRANGED, atol=REARRANGED)
    torch.testing.assert_close(learner.upper(), upper, rtol=REARRANGED, atol=REARRANGED)
    left = set(learner.survivors())
    assert [i in left for i in range(3)] == list(bound.consistent)


def test_a_run_repeats_and_alternating_plays_both_ways():
    method = next(m for m in WHOLE.experiments["regret"].methods if m.name == "alternate")
    task = Task(PROTOCOL, SETTING, method, 5)
    run = play.play(task)
    assert run.regret == play.play(task).regret
    assert len(run.regret) == 3
    assert len(run.eliminated) == 3


def test_a_gaussian_process_of_the_rivals_is_the_librarys():
    problem = Problem.draw(PROTOCOL, SETTING, 0)
    learner = LengthscaleBalancing(problem)
    for arm in (3, 7, 11):
        learner.observe(arm, float(problem.values[arm]))
    kernel = fixed_kernel("matern52", 0.2)
    state = KernelRegression(
        problem.arms[learner.played],
        problem.values[learner.played],
        kernel,
        problem.noise_std,
    )
    found = learner.posterior(0.2)
    torch.testing.assert_close(found.mean, state.mean(problem.arms))
    torch.testing.assert_close(found.deviation.square(), state.variance(problem.arms))
    gain = 0.5 * float(torch.log1p(state.eigenvalues).sum())
    assert found.information == pytest.approx(gain)


def test_balancing_drops_a_candidate_that_is_clearly_worse():
    problem = Problem.draw(PROTOCOL, SETTING, 0)
    learner = LengthscaleBalancing(problem)
    first, second, *others = learner.left
    for base in others:
        learner._dropped.append(base)
    for base, outcome in ((first, 0.0), (second, 10.0)):
        base.outcomes += [outcome] * 50
        base.widths += [0.1] * 50
    learner._drop()
    assert learner.left == [second]


def test_a_family_stops_later_than_the_known_kernel_and_not_falsely():
    run = stops.play(stops.Task("rbf", "logei+widest", 12, 3))
    assert 3 <= run.known < run.family
    assert not run.false_stop("family")
    assert replace(run, family_regret=1.1).false_stop("family")
    assert run == stops.play(stops.Task("rbf", "logei+widest", 12, 3))
