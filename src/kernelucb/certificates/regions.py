r"""Regions: finitely many boxes with linear constraints, and domains that users give."""

from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from kernelucb._numerics.domains import FixedFeatures, LinearConstraints, checked_fixed

_MOST_DRAWS = 2**16


class Region(NamedTuple):
    r"""Finitely many boxes, whose sides may be zero, and linear constraints on all.

    Attributes:
        lower: ``m x d`` lower limits.
        upper: ``m x d`` upper limits.
        constraints: Linear constraints on single points.
    """

    lower: Tensor
    upper: Tensor
    constraints: LinearConstraints

    @property
    def fixed(self) -> frozenset[int]:
        r"""Columns that no box gives room to."""
        still = (self.lower == self.upper).all(0)
        return frozenset(still.nonzero().flatten().tolist())

    @property
    def points(self) -> Tensor | None:
        r"""All points that the constraints allow, if the region is finite."""
        if len(self.fixed) < self.lower.shape[1]:
            return None
        return self.lower[self.allows(self.lower)]

    def allows(self, X: Tensor) -> Tensor:
        r"""Whether ``n x d`` points keep the constraints, ``n`` booleans."""
        return self.may_allow(X, torch.zeros_like(X))

    def may_allow(self, centres: Tensor, halves: Tensor) -> Tensor:
        r"""False for cells that surely hold no point that keeps the constraints.

        Cells are given by ``n x d`` centres and half sides; ``n`` booleans.
        """
        allowed = torch.ones(len(centres), dtype=torch.bool, device=centres.device)
        for columns, coefficients, limit in self.constraints:
            weights = coefficients.to(centres)
            middle, room = centres[:, columns], halves[:, columns]
            size = (middle.abs() + room) @ weights.abs() + abs(limit)
            slack = 8.0 * torch.finfo(centres.dtype).eps * size
            allowed &= middle @ weights + room @ weights.abs() >= limit - slack
        return allowed

    def sample(self, count: int) -> Tensor:
        r"""About ``count`` Sobol points, spread over the boxes, that the constraints allow.

        Raises:
            InputDataError: If none of 65,536 points is allowed.
        """
        boxes = torch.arange(len(self.lower), device=self.lower.device)
        if len(boxes) > count:
            boxes = boxes[torch.linspace(0, len(boxes) - 1, count).long()]
        each = -(-count // len(boxes))
        unit = (
            self.lower.new_tensor([0.0, 1.0]).unsqueeze(-1).expand(2, self.lower.shape[1])
        )
        while True:
            draws = draw_sobol_samples(unit, n=each, q=1, seed=0).squeeze(-2)
            lower, upper = self.lower[boxes, None], self.upper[boxes, None]
            X = (lower + draws * (upper - lower)).flatten(end_dim=1)
            X = X[self.allows(X)]
            if len(X) > 0:
                return X
            if each * len(boxes) >= _MOST_DRAWS:
                raise InputDataError(
                    f"None of {each * len(boxes)} points of the space keeps "
                    "inequality_constraints; loosen them, or give candidates that do."
                )
            each *= 8


def box_region(bounds: Tensor, fixed_features: FixedFeatures | None = None) -> Region:
    r"""A ``2 x d`` box with some columns fixed, as a region."""
    fixed = checked_fixed(fixed_features, bounds.shape[1])
    return with_fixed(Region(bounds[:1], bounds[1:], []), fixed)


def with_fixed(region: Region, fixed: FixedFeatures) -> Region:
    r"""A region with columns set, that are open in all of its boxes."""
    lower, upper = region.lower.clone(), region.upper.clone()
    for column, value in fixed.items():
        low, high = float(lower[:, column].min()), float(upper[:, column].max())
        if not low <= value <= high:
            raise ValueError(
                f"fixed_features sets column {column} to {value:g}, outside its limits "
                f"{low:g} and {high:g}."
            )
        lower[:, column] = upper[:, column] = value
    return region._replace(lower=lower, upper=upper)
