r"""The bound of tangents of the losses, which lie below them."""

from typing import NamedTuple, Self

import torch
from torch import Tensor

from kernelucb._numerics.arrays import Array, as_array, library_of
from kernelucb._numerics.quasiconvex import minimize_quasiconvex
from kernelucb._numerics.safe_math import safe_sqrt
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import QueryPoints, RidgePoints, Support
from kernelucb.confidence.geometry import Constraints
from kernelucb.confidence.martingale_mixture.dual import ExactSet
from kernelucb.confidence.martingale_mixture.function_set import FunctionSet
from kernelucb.regression import KernelRegression, Projection, RidgeState
from kernelucb.regression.likelihood.regression import LikelihoodRegression, Mode

_TINY = 1e-50  # the square of its inverse is still a number
# What the data tell little of, beside the regulariser, is left out where a function is only
# searched for: more narrows the band by less than 1e-3.
_LEAST_SHARE, _MOST_TOLD = 0.03, 40
_STEPS = 2  # a third narrows the band by less than 3 % at norm bounds up to 7
# Accuracy of the edge: what is left of the loss times the step, over that from the centre.
_RELATIVE_TOLERANCE = 1e-13


class Tangents(NamedTuple):
    r"""Sums of tangents, one for each point: functions ``w`` have ``slopes @ w <= limit``.

    Attributes:
        slopes: ``b x r``, in coordinates of functions.
        limit: ``b`` values.
        hidden: What directions that round-off hides may add to them, ``b`` values.
    """

    slopes: Tensor
    limit: Tensor
    hidden: Tensor


class TangentSet(FunctionSet[KernelRegression]):
    r"""``{f : |f - mean| <= norm, sum_i l_i(f) <= level}`` by tangents of the losses.

    By convexity every function of the set satisfies ``sum_i l'_i f_i <= level - sum_i l_i
    + sum_i l'_i g_i`` with losses and slopes at any function ``g``, and the largest value
    under this and the norm bound has a closed form. Here ``g`` is chosen for each point in
    two steps: from the centre in the direction of the posterior covariance with the point,
    to where the losses add up to ``level``; and from there to the maximiser under the
    tangents, corrected by the curvature of the ellipsoid, again to the level. No bound is
    above that of the ellipsoid.

    Source: ours; ``docs/mathematics.md``.

    Args:
        regression: Pseudo-outcomes whose ellipsoid holds the set.
        constraints: Fit of these, and the norm constraint.
        assumptions: What the set rests on.
        data: The outcomes.
        level: Largest sum of the losses.
        centre: A function of the set.
        design: The state that gives variances.
    """

    observed_features: Tensor
    hidden: Tensor
    centre_weights: Tensor
    told: Tensor
    told_features: Tensor
    told_centre: Tensor
    products: Tensor
    entries: Tensor
    source = "Tangents of the losses (ours)"

    def __init__(
        self,
        regression: KernelRegression,
        constraints: Constraints,
        assumptions: Assumptions,
        data: LikelihoodRegression,
        level: float,
        centre: Mode,
        design: RidgeState | None = None,
    ) -> None:
        super().__init__(regression, constraints, assumptions, design)
        self.ellipsoid = ExactSet(regression, constraints, assumptions)
        self.level, self.centre, self._data = level, centre, data
        rows = torch.arange(len(centre.latent), device=centre.latent.device)
        features = regression.observed_features(rows)
        lost = regression.distinct_sections.lost
        self.register_buffer("observed_features", features)
        self.register_buffer("hidden", constraints.norm * lost)
        self.register_buffer("centre_weights", features.mT @ centre.weights)
        self.room = max(level - centre.loss, 0.0)
        scale = 2.0 * self.room / constraints.norm**2
        self.regularizer = max(scale, regression.eigenvalue_cutoff)
        told = regression.eigenvalues > _LEAST_SHARE * self.regularizer
        self.register_buffer("told", told.nonzero().squeeze(-1)[-_MOST_TOLD:])
        self.register_buffer("told_features", features[:, self.told])
        self.register_buffer("told_centre", self.centre_weights[self.told])
        first, second = torch.triu_indices(*2 * self.told.shape)
        products = self.told_features[:, first] * self.told_features[:, second]
        self.register_buffer("products", products)
        entries = torch.zeros(*2 * self.told.shape, dtype=torch.long)
        entries[first, second] = entries[second, first] = torch.arange(len(first))
        self.register_buffer("entries", entries.to(products.device))

    def with_design(self, design: RidgeState) -> Self:
        r"""The set with variances of another state."""
        own = self.regression, self.constraints, self.assumptions, self._data, self.level
        return type(self)(*own, self.centre, design)

    def support(self, points: RidgePoints, sign: int) -> Support:
        r"""The bound by the tangents, or that of the ellipsoid where it is smaller."""
        own = points.centre
        found = self.ellipsoid.support(QueryPoints(own, own), sign)
        value, gap = self._by_tangents(own, sign)
        found = found._replace(value=torch.where(value < found.value, value, found.value))
        return self._with_pending(points, sign, found._replace(gap=gap))

    def majorant(self, points: RidgePoints, sign: int) -> Support:
        r"""That of the ellipsoid."""
        own = QueryPoints(points.centre, points.centre)
        return self._with_pending(points, sign, self.ellipsoid.majorant(own, sign))

    def _with_pending(self, points: RidgePoints, sign: int, found: Support) -> Support:
        r"""Values nearer to the centre, as pending points lower standard deviations."""
        own, pending = points
        if pending is own:
            return found
        one = torch.ones_like(own.prior_mean).unsqueeze(-1)
        before = self.regression.variance_at(own, one)
        ratio = safe_sqrt(self.design.variance_at(pending, one) / before.clamp_min(_TINY))
        centre = sign * (own.features @ self.centre_weights)
        return found._replace(value=centre + ratio * (found.value - centre))

    def _by_tangents(self, points: Projection, sign: int) -> tuple[Tensor, Tensor]:
        r"""``b`` bounds, and estimates of how far they are above the maxima."""
        latent = self._near_maximisers(points, sign)
        value = self.bound(points, sign, self.tangents(latent, self.observed_features))
        return value, torch.full_like(value, torch.nan).detach()

    def tangents(self, latent: Tensor, features: Tensor) -> Tangents:
        r"""At ``b x u`` values at the data, in the directions of ``u x r`` features."""
        deviation, loss = latent - self._data.mean, self._data.loss
        slope = loss.slope(latent)
        limit = self.level - loss.value(latent).sum(-1) + (slope * deviation).sum(-1)
        return Tangents(slope @ features, limit, slope.abs() @ self.hidden)

    def bound(self, points: Projection, sign: int, tangents: Tangents) -> Tensor:
        r"""Largest values under the norm and tangents, ``b``, above the prior mean."""
        with torch.no_grad():  # the gradient is that at the minimising multiple
            multiple = self.multiple(points, sign, tangents)
        left = sign * points.features - multiple.unsqueeze(-1) * tangents.slopes
        length = safe_sqrt(left.square().sum(-1) + points.residual_variance)
        limit = tangents.limit + tangents.hidden
        return self.constraints.norm * length + multiple * limit

    def multiple(self, points: Projection, sign: int, tangents: Tangents) -> Tensor:
        r"""``argmin_l norm |sign k(x, .) - l slopes| + l limit`` over ``l >= 0``, ``b``."""
        slopes, limit = tangents.slopes, tangents.limit
        squared_norm = self.constraints.norm**2
        square = slopes.square().sum(-1).clamp_min(_TINY)
        along = sign * (points.features * slopes).sum(-1) / square
        across = (points.prior_variance - along.square() * square).clamp_min(0.0)
        room = squared_norm * square - limit.square()
        bounded = room > 0.0
        room = torch.where(bounded, square * room, 1.0)
        shift = limit * safe_sqrt(across / room)
        shift = torch.where(bounded, shift, torch.where(limit > 0.0, torch.inf, 0.0))
        return (along - shift).clamp_min(0.0)

    def _near_maximisers(self, points: Projection, sign: int) -> Tensor:
        r"""``b x u`` values at the data, near those of functions that attain the maxima."""
        lam, features = (
            self.regression.eigenvalues[self.told],
            points.features[:, self.told],
        )
        rest = (points.prior_variance - features.square().sum(-1)).clamp_min(0.0)
        points = points._replace(features=features, residual_variance=rest)
        direction = sign * features / (lam + self.regularizer)
        for _ in range(_STEPS):
            weights, latent = self._to_the_edge(direction)
            direction = self._newton(points, sign, weights, latent) - self.told_centre
        return self._to_the_edge(direction)[1]

    def _newton(
        self, points: Projection, sign: int, weights: Tensor, latent: Tensor
    ) -> Tensor:
        r"""Newton's method for maximisers, ``b x k``, with the multipliers of tangents."""
        tangents, features = (
            self.tangents(latent, self.told_features),
            sign * points.features,
        )
        multiple = self.multiple(points, sign, tangents).unsqueeze(-1)
        pulled = features - multiple * tangents.slopes
        length = safe_sqrt(pulled.square().sum(-1) + points.residual_variance)
        pull = (length / self.constraints.norm).clamp_min(_TINY).unsqueeze(-1)
        bend = (self._data.loss.curvature(latent) @ self.products)[:, self.entries]
        system = multiple.unsqueeze(-1) * bend + torch.diag_embed(pull.expand_as(weights))
        step = torch.linalg.solve(system, (pulled - pull * weights).unsqueeze(-1))
        return weights + step.squeeze(-1)

    def _to_the_edge(self, direction: Tensor) -> tuple[Tensor, Tensor]:
        r"""From the centre in ``b x k`` directions to where the losses add up to the level.

        No farther than the diameter of the norm ball. ``b x k`` coordinates, and ``b x u``
        values at the data; differentiable in the directions.
        """
        length = direction.norm(dim=-1, keepdim=True).clamp_min(_TINY)
        longest = direction * (2.0 * self.constraints.norm / length)
        change = longest @ self.told_features.mT
        centre, loss = self.centre.latent, self._data.loss
        with torch.no_grad():
            share = self._share(change).unsqueeze(-1)
            slope = (loss.slope(centre + share * change) * change).sum(-1, keepdim=True)
            free = (share < 1.0) & (slope > _TINY)
        # One more step of Newton's method, for its gradient.
        excess = loss.value(centre + share * change).sum(-1, keepdim=True) - self.level
        share = share - torch.where(free, excess / torch.where(free, slope, 1.0), 0.0)
        return self.told_centre + share * longest, centre + share * change

    def _share(self, change: Tensor) -> Tensor:
        r"""Shares in [0, 1] of ``b x u`` changes that take the losses to the level."""
        centre, loss, data = self.centre.latent, self._data.loss, change

        def slopes(share: Array) -> tuple[Array, Array]:
            latent = centre + torch.as_tensor(share).unsqueeze(-1) * data
            excess = loss.value(latent).sum(-1) - self.level
            slope = (loss.slope(latent) * data).sum(-1)
            number = torch.isfinite(excess + slope)  # elsewhere the loss overflows
            excess = torch.where(number, excess, torch.inf)
            return as_array(excess), as_array(torch.where(number, slope, torch.nan))

        xp = library_of(as_array(centre))
        whole = xp.ones_like(as_array(change[:, 0]))
        inside = slopes(whole)[0] <= 0.0
        bend = (loss.curvature(centre) * change.square()).sum(-1)
        start = (2.0 * self.room / bend.clamp_min(_TINY)).sqrt()
        found = minimize_quasiconvex(
            slopes,
            lower=xp.where(inside, whole, 0.0),
            upper=whole,
            start=xp.where(inside, whole, as_array(start.clamp_max(1.0))),
            tolerance=whole * (_RELATIVE_TOLERANCE * self.room),
        )
        return torch.as_tensor(found.argument)
