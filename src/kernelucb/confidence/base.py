r"""What every confidence set offers: its support function."""

from abc import ABC, abstractmethod
from typing import Any, Generic, NamedTuple, Protocol

from torch import Tensor
from torch.nn import Module
from typing_extensions import TypeVar

from kernelucb.confidence.assumptions import Assumptions
from kernelucb.regression import KernelRegression, Projection


class QueryPoints(NamedTuple):
    r"""Query points in the two states of a confidence set.

    Attributes:
        centre: Projection onto the data; gives means.
        design: Projection onto the design; gives variances. The same object as
            ``centre`` unless pending points extend the design.
    """

    centre: Projection
    design: Projection

    def detach(self) -> "QueryPoints":
        r"""The same points without gradients."""
        centre = self.centre.detach()
        same = self.design is self.centre
        return QueryPoints(centre, centre if same else self.design.detach())


class Support(NamedTuple):
    r"""Largest value, over a confidence set, of ``sign * (f(x) - m(x))``.

    Attributes:
        value: ``b`` values in outcome units; with the prior mean they give the bound.
        regularizer: ``tau`` at which each value was taken, ``b`` values (infinite where
            the norm constraint alone decides).
        gap: Estimate of how far each value lies above the exact one, ``b`` values.
    """

    value: Tensor
    regularizer: Tensor
    gap: Tensor


class State(Protocol):
    r"""What the plumbing asks of the state that a confidence set was computed from."""

    dimension: int

    @property
    def prior_std(self) -> float:
        r"""Prior standard deviation of the outcome, outcome units."""
        ...

    def project(self, X: Tensor) -> Projection:
        r"""Query points as the state sees them."""
        ...

    def with_pending(self, X_pending: Tensor) -> Any:
        r"""The state with variances conditioned on pending points as well."""
        ...


StateT = TypeVar("StateT", bound=State, default=KernelRegression)


class ConfidenceSet(Module, ABC, Generic[StateT]):
    r"""A set of functions that holds the true one with the stated probability.

    Args:
        regression: The data: centre and radius of the set.
        assumptions: What the set rests on.
        design: The inputs that variances are conditioned on: those of ``regression``,
            or these and pending ones.
    """

    def __init__(
        self,
        regression: StateT,
        assumptions: Assumptions,
        design: StateT | None = None,
    ) -> None:
        super().__init__()
        self.regression = regression
        self.design = regression if design is None else design
        self.assumptions = assumptions

    @property
    def norm(self) -> float | None:
        r"""Largest RKHS norm of ``f - mean`` in the set, prior units; None if unbounded."""
        return None

    @abstractmethod
    def support(self, points: QueryPoints, sign: int) -> Support:
        r"""Support function at projected points; differentiable in the points.

        Args:
            points: Projections of ``b`` points.
            sign: ``1`` for the upper side of the band, ``-1`` for the lower.
        """

    def majorant(self, points: QueryPoints, sign: int) -> Support:
        r"""Upper bound on ``support``, cheaper where that is found by a search.

        Args:
            points: As for ``support``.
            sign: As for ``support``.
        """
        return self.support(points, sign)

    @abstractmethod
    def with_design(self, design: StateT) -> "ConfidenceSet[StateT]":
        r"""The set with variances conditioned on another design (pending points)."""

    def project(self, X: Tensor) -> QueryPoints:
        r"""Project ``b x d`` raw points, once for each distinct state."""
        centre = self.regression.project(X)
        if self.design is self.regression:
            return QueryPoints(centre, centre)
        return QueryPoints(centre, self.design.project(X))

    def bounds(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound at ``b x d`` points, two ``b``-vectors."""
        points = self.project(X)
        lower = points.centre.prior_mean - self.support(points, -1).value
        upper = points.centre.prior_mean + self.support(points, 1).value
        return lower, upper

    def max_gain_over(self, X: Tensor, reference: Tensor, sign: int = 1) -> Tensor:
        r"""Upper bound on ``sign * (f(x) - f(reference))``, ``b`` values, outcome units.

        Here the difference of two sides of the band; sets of functions give the maximum.

        Args:
            X: ``b x d`` raw points.
            reference: ``1 x d`` raw point.
            sign: 1, or -1 where small outcomes are sought.
        """
        points, other = self.regression.project(X), self.regression.project(reference)
        above = self.support(QueryPoints(points, points), sign).value
        below = self.support(QueryPoints(other, other), -sign).value
        return sign * (points.prior_mean - other.prior_mean) + above + below
