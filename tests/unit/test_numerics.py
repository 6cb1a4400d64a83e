r"""The minimiser, the eigendecomposition, a failed conic program."""

import pytest
import torch
from torch.testing import assert_close

from kernelucb import MartingaleMixtureUCB
from kernelucb._numerics import conic
from kernelucb._numerics.arrays import minimize_quasiconvex
from kernelucb._numerics.conic import EllipsoidBallProgram
from kernelucb._numerics.spectral import kernel_spectrum
from kernelucb.exceptions import SolverError
from problems import make_problem, uniform


def minimize(slopes, count, tolerance=1e-13, start=None):
    lower = torch.full((count,), -5.0, dtype=torch.float64)
    start = torch.zeros_like(lower) if start is None else start
    return minimize_quasiconvex(
        slopes, lower, -lower, start, torch.full_like(lower, tolerance)
    )


def test_quasi_convex_but_not_convex():
    r"""``-exp(-(t - m)^2)``: the second derivative is negative far from the minimum."""
    minima = torch.linspace(-3.0, 3.0, 7, dtype=torch.float64)

    def slopes(t):
        bell = torch.exp(-((t - minima) ** 2))
        return 2 * (t - minima) * bell, (2 - 4 * (t - minima) ** 2) * bell

    result = minimize(slopes, 7)
    assert bool(result.converged.all())
    assert_close(result.argument, minima, rtol=0.0, atol=1e-6)


def test_derivatives_that_are_nan_do_not_pass_as_converged():
    result = minimize(lambda t: (t * torch.nan, t * torch.nan), 3)
    assert not bool(result.converged.any())


def test_one_problem_does_not_wait_for_nor_move_another():
    targets = torch.tensor([0.0, 4.0], dtype=torch.float64)
    both = minimize(lambda t: (torch.sinh(t - targets), torch.cosh(t - targets)), 2)
    for i in range(2):
        alone = minimize(
            lambda t, i=i: (torch.sinh(t - targets[i]), torch.cosh(t - targets[i])), 1
        )
        assert_close(both.argument[i], alone.argument[0], rtol=0.0, atol=1e-12)


def test_round_off_eigenvalues_are_not_negative():
    column = uniform(20, 1, seed=2)
    assert bool((kernel_spectrum(column @ column.mT)[0] >= 0).all())


def test_a_solver_that_fails_is_a_solver_error(monkeypatch):
    scales = torch.full((3,), 1e-3, dtype=torch.float64)
    program = EllipsoidBallProgram(scales, torch.zeros(3, dtype=torch.float64))

    def fail(objective, solver_args):
        raise ValueError("infeasible")

    monkeypatch.setattr(program, "_layer", fail)
    with pytest.raises(SolverError, match=r"needs no solver\. Its message: infeasible"):
        program.maximizer(uniform(1, 4, seed=5))


@pytest.mark.parametrize("factor", [0.99, torch.nan])
def test_a_conic_solution_away_from_its_dual_is_not_returned(monkeypatch, factor):
    problem = make_problem()
    original = conic.EllipsoidBallProgram.maximizer
    monkeypatch.setattr(
        conic.EllipsoidBallProgram,
        "maximizer",
        lambda self, objective: factor * original(self, objective),
    )
    acqf = MartingaleMixtureUCB(problem.model, norm_bound=3.0, form="convex")
    with pytest.raises(SolverError, match="differs from its dual"):
        acqf.bounds(problem.test_X)
