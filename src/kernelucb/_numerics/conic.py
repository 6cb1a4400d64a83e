r"""Linear objectives over fixed convex sets; the one file that imports cvxpylayers.

It is imported when the first program is compiled: cvxpy takes half as long to import as
torch, and only ``form="convex"`` needs it.
"""

from typing import Any

import torch
from torch import Tensor

from kernelucb.exceptions import SolverError

# Both balls have radius one: absolute and relative accuracy are alike.
_SOLVER_ARGUMENTS = {
    "solve_method": "Clarabel",
    "tol_gap_abs": 1e-10,
    "tol_gap_rel": 1e-10,
    "tol_feas": 1e-10,
}


class EllipsoidBallProgram:
    r"""``max c^T u  s.t.  || diag(scales) u - centre || <= 1,  || u || <= 1``.

    Compiled once for all query points, which differ in ``c`` alone; differentiable in it.
    ``scales`` and ``centre`` hold ``p`` values; ``u`` has ``p + 1`` entries, the last one
    unconstrained by the first ball.

    Source: Flynn & Reeb (2024), Theorem 4.4 and Eq. (10), in the eigenbasis.
    """

    def __init__(self, scales: Tensor, centre: Tensor) -> None:
        import cvxpy as cp
        from cvxpylayers.torch.cvxpylayer import CvxpyLayer

        count = len(scales)
        variable, objective = cp.Variable(count + 1), cp.Parameter(count + 1)
        fitted = cp.multiply(scales.cpu().numpy(), variable[:count])
        residual = fitted - centre.cpu().numpy()
        problem = cp.Problem(
            cp.Maximize(objective @ variable),
            [cp.norm(residual, 2) <= 1, cp.norm(variable, 2) <= 1],
        )
        # cvxpylayers hands on what cvxpy and Clarabel raise, which share no class.
        self._solver_errors = (cp.SolverError, ValueError, RuntimeError)
        self._layer: Any = CvxpyLayer(problem, parameters=[objective], variables=[variable])

    def maximizer(self, objective: Tensor) -> Tensor:
        r"""Maximisers for ``b x (p + 1)`` objectives, differentiable.

        Raises:
            SolverError: If the solver fails or returns numbers that are not finite.
        """
        try:
            # Clarabel runs on the CPU and in double precision.
            costs = objective.cpu().double()
            (solution,) = self._layer(costs, solver_args=_SOLVER_ARGUMENTS)
        except self._solver_errors as error:
            raise SolverError(
                'The conic solver failed; leave out form="convex": the default form needs '
                f"no solver. Its message: {error}"
            ) from error
        if not bool(torch.isfinite(solution).all()):
            raise SolverError(
                "The conic solver returned numbers that are not finite; leave out "
                'form="convex": the default form needs no solver.'
            )
        return solution.to(objective)
