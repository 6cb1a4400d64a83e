r"""The minimiser, the eigendecomposition, a failed conic program."""

import pytest
import torch
from torch.testing import assert_close

from kernelucb import MartingaleMixtureUCB
from kernelucb._numerics.arrays import minimize_quasiconvex
from kernelucb._numerics.conic import EllipsoidBallProgram
from kernelucb._numerics.spectral import kernel_spectrum
from kernelucb.exceptions import SolverError
from problems import make_problem, uniform

MINIMA = torch.linspace(-3.0, 3.0, 7, dtype=torch.float64)


def bells(t, minima):
    r"""``-exp(-(t - m)^2)``: the second derivative is negative far from the minimum."""
    bell = torch.exp(-((t - minima) ** 2))
    return 2 * (t - minima) * bell, (2 - 4 * (t - minima) ** 2) * bell


def steep(t, minima):
    return torch.sinh(t - minima), torch.cosh(t - minima)


@pytest.mark.parametrize("slopes", [bells, steep])
def test_quasi_convex_functions_that_do_not_wait_for_nor_move_each_other(slopes):
    def minimize(minima):
        lower, start = torch.full_like(minima, -5.0), torch.zeros_like(minima)
        given = lower, -lower, start, torch.full_like(minima, 1e-13)
        return minimize_quasiconvex(lambda t: slopes(t, minima), *given)

    assert_close(minimize(MINIMA), MINIMA, rtol=0.0, atol=1e-6)
    alone = torch.cat([minimize(each) for each in MINIMA.split(1)])
    assert_close(minimize(MINIMA), alone, rtol=0.0, atol=1e-12)


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
    r"""A solver that stops early gives no bound."""
    original, problem = EllipsoidBallProgram.maximizer, make_problem()
    wrong = lambda self, objective: factor * original(self, objective)  # noqa: E731
    monkeypatch.setattr(EllipsoidBallProgram, "maximizer", wrong)
    acqf = MartingaleMixtureUCB(problem.model, norm_bound=3.0, form="convex")
    with pytest.raises(SolverError, match="differs from its dual"):
        acqf.bounds(problem.test_X)
