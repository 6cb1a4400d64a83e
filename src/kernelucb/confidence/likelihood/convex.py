r"""The exact likelihood-ratio set as an exponential cone program."""

from typing import Any

import torch
from torch import Tensor

from kernelucb._numerics.conic import LikelihoodBallProgram
from kernelucb.confidence.base import QueryPoints
from kernelucb.confidence.likelihood.ellipsoid import Parabolas
from kernelucb.confidence.likelihood.tangents import TangentSet
from kernelucb.confidence.martingale_mixture.dual import ExactSet
from kernelucb.confidence.martingale_mixture.witness import attaining_weights
from kernelucb.exceptions import SolverError
from kernelucb.regression import Projection

# Accepted difference between the bound and the solver's function, relative to the
# half-width of the norm ball.
_ACCEPTED_GAP = 1e-6
# Directions in which no function of the ball moves a latent value by more than this are
# left out of the program; the bound counts them.
_NEGLIGIBLE = 1e-9
_MOST_STEPS, _CONVERGED = 20, 1e-9


class LikelihoodSet(TangentSet):
    r"""``{f : |f - mean| <= norm, sum_i l_i(f) <= level}`` itself, anytime.

    A cone program finds the function that is largest at a point, up to the solver's
    accuracy. The bound is then that of the tangents of the losses there: it is a bound
    whatever the solver returned, and the maximum where that is the maximiser.

    Source: ours; ``docs/mathematics.md``.

    Args: see ``TangentSet``.
    """

    source = "Exponential cone program (ours)"
    _program: LikelihoodBallProgram | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_program": None}  # compiled layers cannot be pickled

    @torch.no_grad()
    def near_maximisers(self, points: Projection, sign: int) -> tuple[Tensor, Tensor]:
        r"""See ``TangentSet``: the program's solution."""
        accepted = _ACCEPTED_GAP * self.constraints.norm * points.prior_variance.sqrt()
        latent, reached = self._largest(points, sign)
        gap = self._gap(points, sign, latent, reached)
        for row in (~(gap <= accepted)).nonzero().flatten().tolist():
            one = points.rows(slice(row, row + 1))
            latent[row], reached[row] = self._climbed(one, sign)
        gap = self._gap(points, sign, latent, reached)
        if not bool((gap <= accepted).all()):
            raise SolverError(
                f"The conic solution is {float(gap.max()):.2g} below its bound, which is "
                'not exact then. Leave out form="convex": the default form needs no solver.'
            )
        return latent, gap

    def _gap(
        self, points: Projection, sign: int, latent: Tensor, reached: Tensor
    ) -> Tensor:
        r"""How far the bound is from ``b`` values of ``b x u`` functions."""
        tangents = self.tangents(latent, self.observed_features)
        solved = tangents._replace(limit=tangents.limit - tangents.hidden)
        return (self.bound(points, sign, solved) - reached).abs()

    def _largest(self, points: Projection, sign: int) -> tuple[Tensor, Tensor]:
        r"""By the program: functions at the data, ``b x u``, and their ``b`` values."""
        norm, data = self.constraints.norm, self._data
        kept = norm * self.observed_features.abs().amax(0) > _NEGLIGIBLE
        scales = norm * self.observed_features[:, kept]
        if self._program is None:
            weights, centre = data.loss.cone_weights, self.centre.latent
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
