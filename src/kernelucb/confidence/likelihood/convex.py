r"""The exact likelihood-ratio set as an exponential cone program."""

from typing import Any, Self

import torch
from torch import Tensor

from kernelucb._numerics.conic import LikelihoodBallProgram
from kernelucb._numerics.safe_math import safe_sqrt
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import QueryPoints, RidgePoints, Support
from kernelucb.confidence.geometry import Constraints
from kernelucb.confidence.likelihood.ellipsoid import Parabolas
from kernelucb.confidence.martingale_mixture.dual import ExactSet
from kernelucb.confidence.martingale_mixture.function_set import FunctionSet
from kernelucb.confidence.martingale_mixture.witness import attaining_weights
from kernelucb.exceptions import SolverError
from kernelucb.regression import KernelRegression, Projection, RidgeState
from kernelucb.regression.likelihood.regression import LikelihoodRegression

# Accepted difference between the bound and the solver's function, relative to the
# half-width of the norm ball.
_ACCEPTED_GAP = 1e-6
# Directions in which no function of the ball moves a latent value by more than this are
# left out of the program; the bound counts them.
_NEGLIGIBLE = 1e-9
_MOST_STEPS, _CONVERGED = 20, 1e-9


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
        centre = points.centre
        length = safe_sqrt(centre.prior_variance)
        accepted = _ACCEPTED_GAP * self.constraints.norm * length.detach()
        with torch.no_grad():
            latent, reached = self._largest(centre, sign)
            gap = (self._tangent_bound(centre, sign, latent) - reached).abs()
            for row in (~(gap <= accepted)).nonzero().flatten().tolist():
                one = centre.rows(slice(row, row + 1))
                latent[row], reached[row] = self._climbed(one, sign)
        value = self._tangent_bound(centre, sign, latent)
        gap = (value.detach() - reached).abs()
        if not bool((gap <= accepted).all()):
            raise SolverError(
                f"The conic solution is {float(gap.max()):.2g} below its bound, which is "
                'not exact then. Leave out form="convex": the default form needs no solver.'
            )
        return Support(torch.minimum(value, found.value), found.regularizer, gap)

    def majorant(self, points: RidgePoints, sign: int) -> Support:
        r"""That of the ellipsoid, which needs no solver."""
        return self.ellipsoid.majorant(points, sign)

    def _largest(self, points: Projection, sign: int) -> tuple[Tensor, Tensor]:
        r"""By the program: functions at the data, ``b x u``, and their ``b`` values."""
        norm, data = self.constraints.norm, self._data
        kept = norm * self.observed_features.abs().amax(0) > _NEGLIGIBLE
        scales = norm * self.observed_features[:, kept]
        if self._program is None:
            weights, centre = data.loss.cone_weights, data.mode(1.0).latent
            self._program = LikelihoodBallProgram(
                scales, data.mean, *weights, centre=centre, level=self.level
            )
        left = points.residual_variance + points.features[:, ~kept].square().sum(-1)
        whole = torch.cat([points.features[:, kept], left.sqrt().unsqueeze(-1)], -1)
        length = points.prior_variance.sqrt().clamp_min(1e-300).unsqueeze(-1)
        solution = self._program.maximizer(sign * whole / length)
        latent = data.mean + solution[:, :-1] @ scales.mT
        return latent, norm * sign * (whole * solution).sum(-1)

    def _climbed(self, point: Projection, sign: int) -> tuple[Tensor, Tensor]:
        r"""The same for one point, where the solver stalled: parabolas instead of losses.

        Each step maximises over those that touch at the function of the step before, with
        its curvatures, so it converges as Newton's method does.
        """
        data, band = self._data, self.ellipsoid
        latent, reached = data.mean, point.prior_mean
        for _ in range(_MOST_STEPS):
            state = band.regression
            seen = state.project_inputs(torch.cat([data.distinct_inputs, point.inputs]))
            own = seen.rows(slice(len(data.mean), None))
            pair = QueryPoints(own, own)
            weights, rest = attaining_weights(band, pair, sign)
            found = data.mean + (seen.features[:-1] @ weights[0])
            moved, latent = float((found - latent).abs().max()), found
            reached = sign * (
                (own.features * weights).sum(-1) + rest * own.residual_variance.sqrt()
            )
            if moved <= _CONVERGED:
                break
            curvature = data.loss.curvature(latent)
            curvature = curvature.clamp_min(1e-12 * float(curvature.max()))
            fit = Parabolas(latent, curvature, 0.0).fit(data, self.level)
            limits = self.constraints._replace(radius=fit.radius)
            band = ExactSet(fit.regression, limits, self.assumptions)
        return latent, reached

    def _tangent_bound(self, points: Projection, sign: int, latent: Tensor) -> Tensor:
        r"""Largest value under the norm and the tangents at ``b x u`` functions, ``b``."""
        slopes, limit = self._tangents(latent)
        multiple = self._multiplier(points.detach(), sign, slopes, limit)
        left = sign * points.features - multiple.unsqueeze(-1) * slopes
        squared = left.square().sum(-1) + points.residual_variance
        return self.constraints.norm * safe_sqrt(squared) + multiple * limit

    def _tangents(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        r"""``b x r`` slopes and ``b`` limits of the sums of tangents at ``b`` functions.

        Every function of the set has coordinates ``w`` with ``slopes @ w <= limit``.
        """
        deviation, loss = latent - self._data.mean, self._data.loss
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
