r"""The exact bound as a second-order cone program (CMM)."""

import math
from typing import Any

import torch
from torch import Tensor

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb._numerics.conic import EllipsoidBallProgram
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import RidgePoints, RidgeStateT, Support
from kernelucb.confidence.geometry import Constraints
from kernelucb.confidence.martingale_mixture.dual import ExactSet
from kernelucb.confidence.martingale_mixture.function_set import FunctionSet
from kernelucb.exceptions import SolverError
from kernelucb.regression import RidgeState

# Accepted difference between the conic solution and its dual, relative to the half-width
# of the norm ball; Clarabel runs at 1e-10.
_ACCEPTED_GAP = 1e-6


class ConvexSet(FunctionSet[RidgeStateT]):
    r"""The exact bound through one compiled, differentiable cvxpylayer, anytime.

    Source: Flynn & Reeb (2024), Theorem 4.4. Written in the eigenbasis of the kernel matrix
    (ours), a query point enters the objective alone, so the program is compiled once per
    model. Each solution is checked against the dual, an independent computation of the
    same number; it is returned only if they agree.
    """

    source = "Flynn & Reeb (2024), Theorem 4.4"

    def __init__(
        self,
        regression: RidgeStateT,
        constraints: Constraints,
        assumptions: Assumptions,
        design: RidgeState | None = None,
    ) -> None:
        super().__init__(regression, constraints, assumptions, design)
        self.dual = ExactSet(regression, constraints, assumptions, self.design)
        self._program: EllipsoidBallProgram | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_program": None}  # compiled layers cannot be pickled

    def support(self, points: RidgePoints, sign: int) -> Support:
        r"""Value of the cone program, checked against the dual."""
        if self.design is not self.regression:  # what is pending has no outcomes to fit
            return self.dual.support(points, sign)
        centre = points.centre
        rest = safe_sqrt(centre.residual_variance).unsqueeze(-1)
        objective = torch.cat([centre.features, rest], dim=-1)
        length = safe_sqrt(centre.prior_variance)
        direction = objective / torch.where(length > 0, length, 1.0).unsqueeze(-1)
        solution = self.program.maximizer(sign * direction)
        value = self.constraints.norm * sign * (objective * solution).sum(-1)
        return self._checked(points, sign, value)

    def majorant(self, points: RidgePoints, sign: int) -> Support:
        r"""That of the dual, which needs no search."""
        return self.dual.majorant(points, sign)

    @property
    def program(self) -> EllipsoidBallProgram:
        r"""The compiled program, with both balls scaled to radius one."""
        if self._program is None:
            radius = math.sqrt(self.constraints.radius.squared(self.regression))
            self._program = EllipsoidBallProgram(
                scales=self.regression.singular_values * self.constraints.norm / radius,
                centre=self.regression.targets / radius,
            )
        return self._program

    def _checked(self, points: RidgePoints, sign: int, value: Tensor) -> Support:
        with torch.no_grad():
            dual = self.dual.support(points, sign)
            gap = (value - dual.value).abs()
            scale = self.constraints.norm * safe_sqrt(points.centre.prior_variance)
        if not bool((gap <= _ACCEPTED_GAP * scale).all()):  # NaN is no agreement
            raise SolverError(
                f"The conic solution differs from its dual by up to {float(gap.max()):.2g} "
                'and is not a bound to rely on. Use form="dual".'
            )
        return Support(value, dual.regularizer, gap)
