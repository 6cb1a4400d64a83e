r"""The exact likelihood-ratio set as an exponential cone program."""

from typing import Any, Self

import torch
from torch import Tensor

from kernelucb._numerics.conic import LikelihoodBallProgram
from kernelucb._numerics.safe_math import safe_sqrt
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import RidgePoints, Support
from kernelucb.confidence.geometry import Constraints
from kernelucb.confidence.martingale_mixture.dual import ExactSet
from kernelucb.confidence.martingale_mixture.function_set import FunctionSet
from kernelucb.exceptions import SolverError
from kernelucb.regression import KernelRegression, Projection, RidgeState
from kernelucb.regression.likelihood.regression import LikelihoodRegression

# Accepted difference between the bound and the solver's function, relative to the
# half-width of the norm ball.
_ACCEPTED_GAP = 1e-5
# Directions in which no function of the ball moves a latent value by more than this are
# left out of the program; the bound counts them.
_NEGLIGIBLE = 1e-9


class LikelihoodSet(FunctionSet[KernelRegression]):
    r"""``{f : |f - mean| <= norm, sum_i l_i(f) <= level}`` itself, anytime.

    A cone program finds the function that is largest at a point, up to the solver's
    accuracy. The bound is then that of the tangents of the losses there: by convexity every
    function of the set satisfies ``sum_i l'_i f_i <= level - sum_i l_i + sum_i l'_i f*_i``,
    and the largest value under this and the norm bound has a closed form. It is a bound
    whatever the solver returned, and the maximum where that is the maximiser.

    Source: ours; ``docs/mathematics.md``.

    Args:
        regression: Pseudo-outcomes whose ellipsoid holds the set.
        constraints: Fit of these, and the norm constraint.
        assumptions: What the set rests on.
        data: The outcomes.
        level: Largest sum of the losses.
        design: The state that gives variances.
    """

    observed_features: Tensor

    source = "Exponential cone program (ours)"

    def __init__(
        self,
        regression: KernelRegression,
        constraints: Constraints,
        assumptions: Assumptions,
        data: LikelihoodRegression,
        level: float,
        design: RidgeState | None = None,
    ) -> None:
        super().__init__(regression, constraints, assumptions, design)
        self.ellipsoid = ExactSet(regression, constraints, assumptions, self.design)
        self.level, self._data = level, data
        centre = regression.project_inputs(data.distinct_inputs)
        self.register_buffer("observed_features", centre.features)
        self._program: LikelihoodBallProgram | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_program": None}  # compiled layers cannot be pickled

    def with_design(self, design: RidgeState) -> Self:
        r"""The set with variances of another state."""
        own = self.regression, self.constraints, self.assumptions, self._data, self.level
        return type(self)(*own, design)

    def support(self, points: RidgePoints, sign: int) -> Support:
        r"""The bound by the tangents at the program's solution."""
        found = self.ellipsoid.support(points, sign)
        if self.design is not self.regression:  # what is pending has no outcomes to fit
            return found
        centre, norm = points.centre, self.constraints.norm
        length = safe_sqrt(centre.prior_variance)
        with torch.no_grad():
            whole = torch.cat(
                [centre.features, centre.residual_variance.sqrt().unsqueeze(-1)], -1
            )
            direction = sign * whole / length.clamp_min(1e-300).unsqueeze(-1)
            solution = self._maximizer(direction)
            reached = norm * sign * (whole * solution).sum(-1)
            slopes, rest = self._tangents(norm * solution[:, :-1])
            multiple = self._multiplier(centre, sign, slopes, rest)
        left = sign * centre.features - multiple.unsqueeze(-1) * slopes
        squared = left.square().sum(-1) + centre.residual_variance
        value = torch.minimum(norm * safe_sqrt(squared) + multiple * rest, found.value)
        gap = (value.detach() - reached).abs()
        if not bool((gap <= _ACCEPTED_GAP * norm * length).all()):
            raise SolverError(
                f"The conic solution is {float(gap.max()):.2g} below its bound, which is "
                'not exact then. Leave out form="convex": the default form needs no solver.'
            )
        return Support(value, found.regularizer, gap)

    def majorant(self, points: RidgePoints, sign: int) -> Support:
        r"""That of the ellipsoid, which needs no solver."""
        return self.ellipsoid.majorant(points, sign)

    def _maximizer(self, direction: Tensor) -> Tensor:
        r"""Coordinates over the norm of the functions that are largest, ``b x (r + 1)``."""
        norm, kept = self.constraints.norm, self._kept
        if self._program is None:
            loss = self._data.loss
            weights = loss.cone_weights
            scales = norm * self.observed_features[:, kept]
            self._program = LikelihoodBallProgram(
                scales, self._data.mean, *weights, level=self.level
            )
        whole = torch.cat([kept, kept.new_ones(1)])
        solution = torch.zeros_like(direction)
        solution[:, whole] = self._program.maximizer(direction[:, whole])
        return solution

    @property
    def _kept(self) -> Tensor:
        reach = self.constraints.norm * self.observed_features.abs().amax(0)
        return reach > _NEGLIGIBLE

    def _tangents(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        r"""``(b x r)`` slopes and ``b`` limits of the sums of tangents at ``b`` functions.

        Every function of the set has coordinates ``w`` with ``slopes @ w <= limit``.
        """
        deviation = weights @ self.observed_features.mT
        latent, loss = self._data.mean + deviation, self._data.loss
        slope = loss.slope(latent)
        limit = self.level - loss.value(latent).sum(-1) + (slope * deviation).sum(-1)
        return slope @ self.observed_features, limit

    def _multiplier(
        self, points: Projection, sign: int, slopes: Tensor, limit: Tensor
    ) -> Tensor:
        r"""``argmin_l norm |sign k(x, .) - l slopes| + l limit`` over ``l >= 0``, ``b``."""
        squared_norm = self.constraints.norm**2
        square = slopes.square().sum(-1).clamp_min(1e-300)
        along = sign * (points.features * slopes).sum(-1) / square
        across = (points.prior_variance - along.square() * square).clamp_min(0.0)
        room = squared_norm * square - limit.square()
        shift = limit * (across / (square * room.clamp_min(1e-300))).sqrt()
        shift = torch.where(room > 0.0, shift, torch.where(limit > 0.0, torch.inf, 0.0))
        return (along - shift).clamp_min(0.0)
