r"""What the sets of functions have in common: a norm bound, and differences of values."""

from typing import ClassVar, Self

import torch
from torch import Tensor

from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import QueryPoints, RidgeSet, RidgeStateT, Support
from kernelucb.confidence.geometry import Constraints
from kernelucb.regression import RidgeState
from kernelucb.regression.state import Projection


class FunctionSet(RidgeSet[RidgeStateT]):
    r"""All functions that satisfy the fit and the norm constraint, or a larger such set.

    Its support function holds for every linear functional, so for differences of values
    as well as for values. ``source`` is the theorem by which it is computed.
    """

    source: ClassVar[str]

    def __init__(
        self,
        regression: RidgeStateT,
        constraints: Constraints,
        assumptions: Assumptions,
        design: RidgeState | None = None,
    ) -> None:
        super().__init__(regression, assumptions, design)
        self.constraints = constraints
        self._reference: tuple[Tensor, int, Projection] | None = None

    @property
    def norm(self) -> float:
        r"""The norm bound, prior units."""
        return self.constraints.norm

    def with_design(self, design: RidgeState) -> Self:
        r"""The set with variances of another state."""
        return type(self)(self.regression, self.constraints, self.assumptions, design)

    def max_gain_over(
        self, X: Tensor, reference: Tensor, sign: int = 1, cheap: bool = False
    ) -> Tensor:
        r"""Maximum over the set of ``sign * (f(x) - f(reference))``, ``b`` values."""
        points, other = self.regression.project(X), self._projected(reference)
        change = self.regression.difference(points, other)
        support = self._support_of_difference(change, sign, cheap)
        return sign * change.prior_mean + support.value

    def _support_of_difference(self, change: Projection, sign: int, cheap: bool) -> Support:
        r"""Of ``b`` differences of values; a ``cheap`` one is not searched for."""
        find = self.majorant if cheap else self.support
        return find(QueryPoints(change, change), sign)

    def _projected(self, reference: Tensor) -> Projection:
        r"""A reference as the data see it; the last one is kept, for searches."""
        if reference.requires_grad:
            return self.regression.project(reference)
        if self._reference is not None:
            known, version, other = self._reference
            same = known is reference and version == reference._version
            if same and other.features.device == self.regression.eigenvalues.device:
                return other
        with torch.no_grad():
            other = self.regression.project(reference)
        self._reference = reference, reference._version, other
        return other
