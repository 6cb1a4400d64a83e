r"""Bounds over a likelihood-ratio set by tangents of the losses.

The losses are convex, so tangents lie below them and give a valid bound wherever they
touch. They touch at functions near the maximisers, which are searched for each point, or
once for 256 points.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from kernelucb._numerics.arrays import (
    Array,
    as_array,
    minimize_quasiconvex,
    safe_sqrt,
)
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.dual import ExactSet, FunctionSet
from kernelucb.confidence.mixture import Constraints
from kernelucb.confidence.sets import QueryPoints, Support
from kernelucb.regression import KernelRegression, Projection
from kernelucb.regression.likelihood.regression import LikelihoodRegression, Mode

LikelihoodForm = Literal["ellipsoid", "tangent"]
SOURCES: dict[LikelihoodForm, str] = {
    "ellipsoid": f"{ExactSet.source}; ellipsoid of secant curvatures (ours); "
    "tangents of the losses (ours)",
    "tangent": "Tangents of the losses (ours)",
}
_TINY = 1e-50  # the square of its inverse is still a number
# Least eigenvalue, over the regulariser, of a direction that is searched in, and how many:
# with all of them bands of rates are up to 2 % narrower.
_LEAST_SHARE, _MOST_INFORMED = 0.03, 40
_STEPS = 2  # one more narrows bands of log rates by up to 3 % at a norm bound of 7
_LEAST_PULL = 1e-9  # over that of the norm alone; keeps systems of equations regular
# Accuracy of the edge: what is left of the loss times the step, over that from the centre.
_RELATIVE_TOLERANCE = 1e-10
# In two dimensions bands of rates are up to 9 % wider than the set; with 64 points a fifth.
_CUTS = 256
# A bound that is larger by so small a share, seen from the centre, has a weight that is
# smaller by a factor e. With weights of 0 and 1 the gradient jumps, and a search for the
# largest bound evaluates it more often.
SHARE = 0.01


class Tangents(NamedTuple):
    r"""Sums of tangents, one for each point: ``slopes @ w <= limit`` for all functions."""

    slopes: Tensor  # `b x r`, in coordinates of functions
    limit: Tensor  # `b` values, with a part for directions which round-off hides


class TangentSet(FunctionSet):
    r"""``{f : |f - mean| <= norm, sum_i l_i(f) <= level}`` by tangents of the losses.

    By convexity every function of the set satisfies ``sum_i l'_i f_i <= level - sum_i l_i
    + sum_i l'_i g_i`` with losses and slopes at any values ``g``, and the largest value
    under this inequality and the norm bound has a closed form. The bound is the maximum
    over the set if ``g`` attains the maximum. No bound is above the ellipsoid's bound.

    For a point ``g`` is found by a few steps of Newton's method. The first function lies
    from the centre in the direction of the posterior covariance with the point, where the
    losses add up to ``level``. A step solves the stationarity of the Lagrangian,
    ``multiple * sum_i l'_i k(x_i, .) + pull * (f - mean) = sign k(x, .)``, linearised at
    the function and with the multipliers of the tangents there, and moves towards the
    centre or away from it until the losses add up to ``level`` again. Steps are in the
    informed directions only, of which the data tell something (as in the
    likelihood-informed subspaces of Cui et al. 2014); the bound is in all.

    With ``form="tangent"`` the search is made for each point. With ``"ellipsoid"`` it is
    made once, for largest and smallest values at 256 points that are spread as the inputs
    are. A weighted mean of tangents gives a valid inequality too: at a query point the
    tangents with the lowest bounds get nearly all of the weight, and weights and bounds
    change smoothly from point to point. For a difference of values a search is always made.

    Source: ours; ``docs/mathematics.md``.

    Args:
        regression: Pseudo-outcomes whose ellipsoid holds the set.
        constraints: Fit of the pseudo-outcomes, and the norm constraint.
        assumptions: The assumptions of the set.
        data: The outcomes and the prior.
        level: Largest sum of the losses.
        centre: A function of the set.
        form: ``"ellipsoid"`` or ``"tangent"``: where the tangents touch, see above.
    """

    centre_weights: Tensor
    slopes: Tensor
    limits: Tensor
    squares: Tensor

    def __init__(
        self,
        regression: KernelRegression,
        constraints: Constraints,
        assumptions: Assumptions,
        data: LikelihoodRegression,
        level: float,
        centre: Mode,
        form: LikelihoodForm,
    ) -> None:
        super().__init__(regression, constraints, assumptions.by(SOURCES[form]))
        self.ellipsoid = ExactSet(regression, constraints, assumptions)
        self.data, self.level, self.centre, self.form = data, level, centre, form
        rows = torch.arange(len(centre.latent), device=centre.latent.device)
        self.observed_features = regression.observed_features(rows)
        self.hidden = constraints.norm * regression.distinct_sections.lost
        self.register_buffer("centre_weights", self.observed_features.mT @ centre.weights)
        self.room = max(level - centre.loss, 0.0)
        scale = 2.0 * self.room / constraints.norm**2
        self.regularizer = max(scale, regression.eigenvalue_cutoff)
        found = regression.eigenvalues > _LEAST_SHARE * self.regularizer
        self.informed = found.nonzero().squeeze(-1)[-_MOST_INFORMED:]
        self.informed_features = some = self.observed_features[:, self.informed]
        self.informed_centre = self.centre_weights[self.informed]
        # Sums of outer products, one for each query, are one matrix product with these.
        self.products = (some.unsqueeze(-1) * some.unsqueeze(-2)).flatten(1)
        if form == "ellipsoid":
            slopes, limits = self._searched_cuts()
            self.register_buffer("slopes", slopes)  # `2 x k x r`, largest values first
            self.register_buffer("limits", limits)
            self.register_buffer("squares", slopes.square().sum(-1))

    def support(self, points: QueryPoints, sign: int) -> Support:
        r"""The bound by the tangents, or by the ellipsoid where it is smaller."""
        own = points.centre
        touching = self.lowest_cut if self.form == "ellipsoid" else self.searched
        found = self._bounded(own, sign, touching(own, sign))
        return self._with_pending(points, sign, found)

    def majorant(self, points: QueryPoints, sign: int) -> Support:
        r"""The bound by the ellipsoid; with ``form="ellipsoid"`` the support itself."""
        if self.form == "ellipsoid":
            return self.support(points, sign)
        own = QueryPoints(points.centre, points.centre)
        return self._with_pending(points, sign, self.ellipsoid.majorant(own, sign))

    def _support_of_difference(self, change: Projection, sign: int, cheap: bool) -> Support:
        r"""See ``FunctionSet``; none is cheap, since the ellipsoid's is not near."""
        return self._bounded(change, sign, self.searched(change, sign))

    def _bounded(self, points: Projection, sign: int, tangents: Tangents) -> Support:
        r"""The smaller one of the bounds by the tangents and by the ellipsoid, nearly."""
        found = self.ellipsoid.support(QueryPoints(points, points), sign)
        value = self.bound(points, sign, tangents)
        gain = torch.where(value < found.value, found.value - value, 0.0)
        if self.form == "ellipsoid":
            above = found.value - self.centred(points, sign)
            gain = gain * -torch.expm1(-gain / (SHARE * above.clamp_min(_TINY)))
        value = found.value - gain
        return found._replace(value=value, gap=torch.full_like(value, torch.nan).detach())

    def _with_pending(self, points: QueryPoints, sign: int, found: Support) -> Support:
        r"""Values nearer to the centre, as pending points lower standard deviations."""
        own, pending = points
        if pending is own:
            return found
        one = torch.ones_like(own.baseline).unsqueeze(-1)
        before = self.regression.variance_at(own, one)
        ratio = safe_sqrt(self.design.variance_at(pending, one) / before.clamp_min(_TINY))
        centre = self.centred(own, sign)
        return found._replace(value=centre + ratio * (found.value - centre))

    def centred(self, points: Projection, sign: int) -> Tensor:
        r"""Values of the centre function above the prior mean, ``b``."""
        return sign * (points.features @ self.centre_weights)

    def tangents(self, latent: Tensor, features: Tensor) -> Tangents:
        r"""At ``b x u`` values at the data, in the directions of ``u x r`` features."""
        deviation, loss = latent - self.data.mean, self.data.loss
        slope = loss.slope(latent)
        limit = self.level - loss.value(latent).sum(-1) + (slope * deviation).sum(-1)
        return Tangents(slope @ features, limit + slope.abs() @ self.hidden)

    def bound(self, points: Projection, sign: int, tangents: Tangents) -> Tensor:
        r"""Largest values under the norm and tangents, ``b``, above the prior mean."""
        with torch.no_grad():  # the gradient is that at the minimising multiple
            multiple = self._multiple(points, sign, tangents)
        left = sign * points.features - multiple.unsqueeze(-1) * tangents.slopes
        length = safe_sqrt(left.square().sum(-1) + points.residual_variance)
        return self.constraints.norm * length + multiple * tangents.limit

    def _multiple(self, points: Projection, sign: int, tangents: Tangents) -> Tensor:
        r"""``argmin_l norm |sign k(x, .) - l slopes| + l limit`` over ``l >= 0``, ``b``."""
        slopes, limit = tangents
        product = sign * (points.features * slopes).sum(-1)
        square, variance = slopes.square().sum(-1), points.prior_variance
        return self._multiple_of(product, square, limit, variance)

    def _multiple_of(
        self, product: Tensor, square: Tensor, limit: Tensor, variance: Tensor
    ) -> Tensor:
        r"""The same by products of sections and slopes, and the squares of either."""
        square = square.clamp_min(_TINY)
        along = product / square
        across = (variance - along.square() * square).clamp_min(0.0)
        room = self.constraints.norm**2 * square - limit.square()
        bounded = room > 0.0
        room = torch.where(bounded, square * room, 1.0)
        shift = limit * safe_sqrt(across / room)
        shift = torch.where(bounded, shift, torch.where(limit > 0.0, torch.inf, 0.0))
        return (along - shift).clamp_min(0.0)

    def lowest_cut(self, points: Projection, sign: int) -> Tangents:
        r"""The mean of the tangents found beforehand that are the lowest at each point."""
        side = 0 if sign > 0 else 1
        slopes, limit, square = self.slopes[side], self.limits[side], self.squares[side]
        product = sign * (points.features @ slopes.mT)
        variance = points.prior_variance.unsqueeze(-1)
        with torch.no_grad():  # the gradient is that at the minimising multiple
            multiple = self._multiple_of(product, square, limit, variance)
        length = variance - multiple * (2.0 * product - multiple * square)
        values = self.constraints.norm * safe_sqrt(length) + multiple * limit
        above = values - self.centred(points, sign).unsqueeze(-1)
        weights = torch.softmax(-above.clamp_min(_TINY).log() / SHARE, -1)
        return Tangents(weights @ slopes, weights @ limit)

    @torch.no_grad()
    def _searched_cuts(self) -> Tangents:
        points = points_among(self.data.distinct_inputs, _CUTS)
        seen = self.regression.project_inputs(points)
        sides = [self.searched(seen, sign) for sign in (1, -1)]
        return Tangents(*map(torch.stack, zip(*sides, strict=True)))

    def searched(self, points: Projection, sign: int) -> Tangents:
        r"""Tangents at functions that attain the maxima, nearly."""
        return self.tangents(self.near_maximisers(points, sign), self.observed_features)

    def near_maximisers(self, points: Projection, sign: int) -> Tensor:
        r"""Values at the data of functions that attain the maxima, nearly; ``b x u``."""
        lam = self.regression.eigenvalues[self.informed]
        features = points.features[:, self.informed]
        rest = (points.prior_variance - features.square().sum(-1)).clamp_min(0.0)
        points = points._replace(features=features, residual_variance=rest)
        direction = sign * features / (lam + self.regularizer)
        spread = (lam * direction.detach().square()).sum(-1, keepdim=True)
        direction = direction * (2.0 * self.room / spread.clamp_min(_TINY)).sqrt()
        for _ in range(_STEPS):
            weights, latent = self._to_the_edge(direction)
            direction = self._newton(points, sign, weights, latent) - self.informed_centre
        return self._to_the_edge(direction)[1]

    def _newton(
        self, points: Projection, sign: int, weights: Tensor, latent: Tensor
    ) -> Tensor:
        r"""Newton's method for maximisers, ``b x k``, with the multipliers of tangents."""
        count = weights.shape[-1]
        tangents = self.tangents(latent, self.informed_features)
        multiple = self._multiple(points, sign, tangents).unsqueeze(-1)
        pulled = sign * points.features - multiple * tangents.slopes
        length = safe_sqrt(pulled.square().sum(-1) + points.residual_variance)
        least = _LEAST_PULL * points.prior_variance.sqrt().clamp_min(_TINY)
        pull = (torch.maximum(length, least) / self.constraints.norm).unsqueeze(-1)
        bend = (self.data.loss.curvature(latent) @ self.products).unflatten(-1, [count] * 2)
        system = multiple.unsqueeze(-1) * bend + torch.diag_embed(pull.expand_as(weights))
        step = torch.linalg.solve(system, (pulled - pull * weights).unsqueeze(-1))
        return weights + step.squeeze(-1)

    def _to_the_edge(self, direction: Tensor) -> tuple[Tensor, Tensor]:
        r"""From the centre in ``b x k`` directions to where the losses add up to the level.

        No farther than the diameter of the norm ball; looked for first at the length of the
        directions. ``b x k`` coordinates, and ``b x u`` values at the data; differentiable
        in the directions.
        """
        length = direction.norm(dim=-1, keepdim=True).clamp_min(_TINY)
        longest = direction * (2.0 * self.constraints.norm / length)
        change = longest @ self.informed_features.mT
        centre, loss = self.centre.latent, self.data.loss

        def excess(share: Tensor) -> Tensor:
            return loss.value(centre + share * change).sum(-1, keepdim=True) - self.level

        def slope(share: Tensor) -> Tensor:
            return (loss.slope(centre + share * change) * change).sum(-1, keepdim=True)

        def both(share: Array) -> tuple[Array, Array]:
            at = torch.as_tensor(share).unsqueeze(-1)
            first, second = excess(at), slope(at)
            number = torch.isfinite(first + second)  # elsewhere the loss overflows
            first = torch.where(number, first, torch.inf).squeeze(-1)
            second = torch.where(number, second, torch.nan).squeeze(-1)
            return as_array(first), as_array(second)

        with torch.no_grad():
            start = (0.5 * length / self.constraints.norm).clamp_max(1.0).squeeze(-1)
            whole = torch.ones_like(start)
            inside = excess(whole.unsqueeze(-1)).squeeze(-1) <= 0.0
            found = minimize_quasiconvex(
                both,
                lower=as_array(torch.where(inside, 1.0, torch.zeros_like(start))),
                upper=as_array(whole),
                start=as_array(torch.where(inside, 1.0, start)),
                tolerance=as_array(_RELATIVE_TOLERANCE * self.room * whole),
            )
            share = torch.as_tensor(found.argument).unsqueeze(-1)
            steepness = slope(share)
            free = (share < 1.0) & (steepness > _TINY)
        # One more step of Newton's method, for its gradient.
        step = excess(share) / torch.where(free, steepness, 1.0)
        share = share - torch.where(free, step, 0.0)
        return self.informed_centre + share * longest, centre + share * change


def points_among(inputs: Tensor, count: int) -> Tensor:
    r"""At most ``count`` distinct points that are spread as ``n x d`` inputs are.

    Each coordinate has the distribution of the inputs' own, interpolated; they are combined
    by a Sobol sequence.
    """
    engine = SobolEngine(inputs.shape[-1])
    engine.fast_forward(1)  # its first point is zero
    ranks = engine.draw(count, dtype=torch.float64).to(inputs) * (len(inputs) - 1)
    below, above = ranks.floor().long(), ranks.ceil().long()
    ordered = inputs.sort(0).values
    low, high = ordered.gather(0, below), ordered.gather(0, above)
    return torch.lerp(low, high, ranks - below).unique(dim=0)
