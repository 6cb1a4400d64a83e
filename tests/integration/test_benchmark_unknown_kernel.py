r"""The benchmark of kernels that are not known, in small."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

pytest.importorskip("joblib", reason="needs the extra `bench`")

from benchmarks.runner import fixed_kernel
from benchmarks.unknown_kernel.__main__ import STUDY
from benchmarks.unknown_kernel.balancing import LengthscaleBalancing
from benchmarks.unknown_kernel.learners import Family
from benchmarks.unknown_kernel.problems import Problem, squared_section_norm
from kernelucb import KernelFamilyUCB, KernelRegression, lengthscale_family
from tolerances import REARRANGED


def task(setting: str = "matern_d1_between", **changes) -> SimpleNamespace:
    r"""A run of three rounds, with three members from 0.1 to 0.4."""
    runs = STUDY.tables["regret"].runs
    run = next(each for each in runs if each["setting"] == setting)
    small = {"arms": 20, "starts": 2, "rounds": 3, "select": "widest"}
    lengths = {"shortest": 0.1, "longest": 0.4, "ratio": 2.0}
    return SimpleNamespace(**run | small | lengths | changes)


BETWEEN, SPIKE = task(lengthscale=0.15), task("spike_rbf_d2")


# Two hills that share a length scale overlap, so that their inner product counts.
WIDE = task("spike_rbf_d2", lengthscale=0.8, longest=0.8)


@pytest.mark.parametrize("small", [BETWEEN, SPIKE, WIDE], ids=["random", "spike", "wide"])
def test_functions_have_the_norm_that_is_promised(small):
    problem = Problem.draw(SimpleNamespace(**vars(small) | {"arms": 400}), 3)
    gram = problem.kernel(problem.arms).to_dense()
    gram.diagonal().add_(1e-8)
    interpolant = (problem.values @ torch.linalg.solve(gram, problem.values)).sqrt()
    # At most the norm of the function, of which hills partly outside the cube hide some.
    assert 0.9 * small.norm < interpolant < small.norm


def test_the_norm_of_a_section_under_a_shorter_scale_is_the_closed_form():
    d, short, long = 2, SPIKE.lengthscale, 0.8
    closed = (long**2 / (short * math.sqrt(2 * long**2 - short**2))) ** d
    assert squared_section_norm(SPIKE, long) == pytest.approx(closed, rel=1e-6)
    # Of a Matern kernel's section under its own scale: 1, the variance.
    assert squared_section_norm(task(lengthscale=0.2), 0.2) == pytest.approx(1.0, rel=1e-6)


def test_the_family_is_the_librarys():
    problem = Problem.draw(BETWEEN, 0)
    learner, draws = Family(problem), np.random.default_rng(0)
    for _ in range(12):
        arm = int(draws.integers(BETWEEN.arms))
        learner.observe(arm, float(problem.values[arm]) + 0.1 * draws.standard_normal())
    outcomes = torch.tensor(learner.outcomes, dtype=torch.float64)
    data = problem.arms[learner.played], outcomes
    state = KernelRegression(*data, problem.kernel, BETWEEN.noise_std)
    kernels = lengthscale_family(fixed_kernel("matern52", 0.4), 0.1, 0.4, 2.0)
    given = {"norm_bound": problem.norm_bound, "delta": BETWEEN.delta}
    bound = KernelFamilyUCB(state, kernels, **given)
    ours, theirs = (learner.lower(), learner.upper()), bound.bounds(problem.arms)
    torch.testing.assert_close(ours, theirs, rtol=REARRANGED, atol=REARRANGED)
    left = set(learner.survivors())
    assert [i in left for i in range(3)] == list(bound.consistent)


def test_a_gaussian_process_of_the_rivals_is_the_librarys():
    problem = Problem.draw(BETWEEN, 0)
    learner = LengthscaleBalancing(problem)
    for arm in (3, 7, 11):
        learner.observe(arm, float(problem.values[arm]))
    data = problem.arms[learner.played], problem.values[learner.played]
    state = KernelRegression(*data, fixed_kernel("matern52", 0.2), BETWEEN.noise_std)
    found = learner.posterior(0.2)
    torch.testing.assert_close(found.mean, state.mean(problem.arms))
    torch.testing.assert_close(found.deviation.square(), state.variance(problem.arms))
    gain = 0.5 * float(torch.log1p(state.eigenvalues).sum())
    assert found.information == pytest.approx(gain)


def test_balancing_drops_a_candidate_that_is_clearly_worse():
    learner = LengthscaleBalancing(Problem.draw(BETWEEN, 0))
    first, second, *others = learner.left
    learner._dropped += others
    for base, outcome in ((first, 0.0), (second, 10.0)):
        base.outcomes += [outcome] * 50
        base.widths += [0.1] * 50
    learner._drop()
    assert learner.left == [second]
