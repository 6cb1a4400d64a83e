r"""The bound of tangents of the losses, which lie below them."""

from abc import abstractmethod
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from kernelucb._numerics.safe_math import safe_sqrt
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import QueryPoints, RidgePoints, Support
from kernelucb.confidence.geometry import Constraints
from kernelucb.confidence.martingale_mixture.dual import ExactSet
from kernelucb.confidence.martingale_mixture.function_set import FunctionSet
from kernelucb.regression import KernelRegression, Projection, RidgeState
from kernelucb.regression.likelihood.regression import LikelihoodRegression, Mode

TINY = 1e-50  # the square of its inverse is still a number


class Tangents(NamedTuple):
    r"""Sums of tangents, one for each point: functions ``w`` have ``slopes @ w <= limit``.

    Attributes:
        slopes: ``b x r``, in coordinates of functions.
        limit: ``b`` values.
        hidden: The part of the limit that is for directions which round-off hides, ``b``.
    """

    slopes: Tensor
    limit: Tensor
    hidden: Tensor


class TangentSet(FunctionSet[KernelRegression]):
    r"""``{f : |f - mean| <= norm, sum_i l_i(f) <= level}`` by tangents of the losses.

    By convexity every function of the set satisfies ``sum_i l'_i f_i <= level - sum_i l_i
    + sum_i l'_i g_i`` with losses and slopes at any values ``g``, and the largest value
    under this and the norm bound has a closed form. It is the maximum over the set where
    ``g`` attains that; a subclass says how ``g`` is found for each point. No bound is above
    that of the ellipsoid.

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

    def with_design(self, design: RidgeState, **known: Any) -> Self:
        r"""The set with variances of another state; ``known`` parts are not made again."""
        own = self.regression, self.constraints, self.assumptions, self._data, self.level
        return type(self)(*own, self.centre, design, **known)

    def support(self, points: RidgePoints, sign: int) -> Support:
        r"""The bound by the tangents, or that of the ellipsoid where it is smaller."""
        own = points.centre
        found = self.bounded(own, sign, *self.touching(own, sign))
        return self._with_pending(points, sign, found)

    def bounded(
        self, points: Projection, sign: int, tangents: Tangents, gap: Tensor
    ) -> Support:
        r"""The smaller one, where the bound by tangents is ``gap`` above the maximum."""
        found = self.ellipsoid.support(QueryPoints(points, points), sign)
        value = self.bound(points, sign, tangents)
        value = torch.where(value < found.value, value, found.value)
        return found._replace(value=value, gap=gap)

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
        ratio = safe_sqrt(self.design.variance_at(pending, one) / before.clamp_min(TINY))
        centre = self.centred(own, sign)
        return found._replace(value=centre + ratio * (found.value - centre))

    def centred(self, points: Projection, sign: int) -> Tensor:
        r"""Values of the centre function above the prior mean, ``b``."""
        return sign * (points.features @ self.centre_weights)

    def touching(self, points: Projection, sign: int) -> tuple[Tangents, Tensor]:
        r"""Tangents for each point, and how far ``b`` bounds are above the maxima."""
        return self.searched(points, sign)

    def searched(self, points: Projection, sign: int) -> tuple[Tangents, Tensor]:
        r"""Those at functions that attain the maxima, or are near to that."""
        latent, gap = self.near_maximisers(points, sign)
        return self.tangents(latent, self.observed_features), gap

    @abstractmethod
    def near_maximisers(self, points: Projection, sign: int) -> tuple[Tensor, Tensor]:
        r"""``b x u`` values at the data, and how far ``b`` bounds are above the maxima.

        The values are those of functions that attain the maxima, or are near to that.
        """

    def tangents(self, latent: Tensor, features: Tensor) -> Tangents:
        r"""At ``b x u`` values at the data, in the directions of ``u x r`` features."""
        deviation, loss = latent - self._data.mean, self._data.loss
        slope = loss.slope(latent)
        limit = self.level - loss.value(latent).sum(-1) + (slope * deviation).sum(-1)
        hidden = slope.abs() @ self.hidden
        return Tangents(slope @ features, limit + hidden, hidden)

    def bound(self, points: Projection, sign: int, tangents: Tangents) -> Tensor:
        r"""Largest values under the norm and tangents, ``b``, above the prior mean."""
        with torch.no_grad():  # the gradient is that at the minimising multiple
            multiple = self.multiple(points, sign, tangents)
        left = sign * points.features - multiple.unsqueeze(-1) * tangents.slopes
        length = safe_sqrt(left.square().sum(-1) + points.residual_variance)
        return self.constraints.norm * length + multiple * tangents.limit

    def multiple(self, points: Projection, sign: int, tangents: Tangents) -> Tensor:
        r"""``argmin_l norm |sign k(x, .) - l slopes| + l limit`` over ``l >= 0``, ``b``."""
        slopes, limit = tangents.slopes, tangents.limit
        product = sign * (points.features * slopes).sum(-1)
        return self.multiple_of(
            product, slopes.square().sum(-1), limit, points.prior_variance
        )

    def multiple_of(
        self, product: Tensor, square: Tensor, limit: Tensor, variance: Tensor
    ) -> Tensor:
        r"""The same by products of sections and slopes, and the squares of either."""
        square = square.clamp_min(TINY)
        along = product / square
        across = (variance - along.square() * square).clamp_min(0.0)
        room = self.constraints.norm**2 * square - limit.square()
        bounded = room > 0.0
        room = torch.where(bounded, square * room, 1.0)
        shift = limit * safe_sqrt(across / room)
        shift = torch.where(bounded, shift, torch.where(limit > 0.0, torch.inf, 0.0))
        return (along - shift).clamp_min(0.0)


def unknown_gap(points: Projection) -> Tensor:
    r"""In place of how far ``b`` bounds are above the maxima."""
    return torch.full_like(points.prior_mean, torch.nan).detach()
