r"""Confidence sets and their support functions, the interface of every bound."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, NamedTuple, NoReturn, Protocol, Self

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.nn import Module
from typing_extensions import TypeVar

from kernelucb._numerics.estimates import Number, draft_of
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.data import Projection, RidgeState
from kernelucb.data.state import Points, ProjectingState, State

# Maps centres and half sides of cells to what a function changes in each at most
Change = Callable[[Tensor, Tensor], Tensor]
StateT_co = TypeVar("StateT_co", bound=State, default=State, covariant=True)
ProjectingT_co = TypeVar(
    "ProjectingT_co",
    bound=ProjectingState[Any],
    default=ProjectingState[Any],
    covariant=True,
)
RidgeT_co = TypeVar("RidgeT_co", bound=RidgeState, default=RidgeState, covariant=True)
PointsT = TypeVar("PointsT", bound=Points, default=Projection)
SeenT = TypeVar("SeenT", bound=Points, default=Any)  # each set takes its own points alone


class QueryPoints(NamedTuple, Generic[PointsT]):
    r"""Query points in the two states of a confidence set.

    ``centre`` is the projection on the state of the data, for means; ``design`` on the
    state of data and pending points, for variances. Without pending points both are the
    same object.
    """

    centre: PointsT
    design: PointsT

    @property
    def baseline(self) -> Tensor:
        r"""``b`` values from which the support function is measured, outcome units."""
        return self.centre.baseline

    def rows(self, mask: Tensor) -> "QueryPoints[PointsT]":
        r"""The points where ``mask`` is true."""
        centre, same = self.centre.rows(mask), self.design is self.centre
        return QueryPoints(centre, centre if same else self.design.rows(mask))


class _Refused(torch.autograd.Function):
    r"""A gradient that has no derivative."""

    @staticmethod
    def forward(ctx: FunctionCtx, *given: Tensor) -> Tensor:
        return given[0].clone()

    @staticmethod
    def backward(ctx: FunctionCtx, *_: Tensor) -> NoReturn:  # pyright: ignore
        raise UnsupportedError(
            "The bound has first derivatives alone: its multipliers are searched anew at "
            "each point. Use an optimiser that asks for no Hessian, such as L-BFGS in "
            'optimize_acqf, or form="analytic", or the posterior mean, turns=("mean",).'
        )


def without_hessian(X: Tensor) -> Tensor:
    r"""The points; what is computed from them refuses second derivatives."""
    if not X.requires_grad:
        return X
    seen = X.view_as(X)

    def refuse(slope: Tensor) -> Tensor:
        # Depends on the points by itself, even where a gradient comes from arrays.
        given: Any = _Refused.apply(slope, X) if torch.is_grad_enabled() else slope
        return given

    seen.register_hook(refuse)
    return seen


# Maps the numbers of ``b`` points and of ``b`` others to ``b`` values
Pairs = Callable[[Tensor, Tensor], Tensor]


class Gains(NamedTuple):
    r"""Gains of some of ``n`` points over others, ``sign * (f(x) - f(x'))``."""

    most: Pairs  # `max_gain_over` of each pair
    least: Pairs  # a lower bound on it, without a search, up to round-off


class Described:
    r"""Prints an object in two lines: its class and numbers, then its verdict."""

    assumptions: Any

    def _described(self) -> dict[str, Any]:
        r"""The numbers and names in the first line; entries that are None are left out."""
        return {"delta": self.assumptions.delta}

    def __repr__(self) -> str:
        entries = self._described().items()
        inner = ", ".join(f"{k}={each}" for k, each in entries if each is not None)
        return f"{type(self).__name__}({inner})\n  {self.assumptions.headline}"


class Cut(Protocol):
    r"""Makes a part of a set, such as its functions within a range."""

    def __call__(
        self, whole: "ConfidenceSet", /, *, assumptions: Assumptions
    ) -> "ConfidenceSet":
        r"""The part, with its assumptions."""
        ...


class ConfidenceSet(Described, Module, ABC, Generic[StateT_co, SeenT]):
    r"""A set of functions that holds the true one with the stated probability.

    For a model of transformed outcomes (``regression.outcome_map``) the functions are on
    the transformed scale, and "outcome units" are units of that scale.

    Args:
        regression: The data, from which centre and radius of the set follow.
        assumptions: The assumptions of the set.
    """

    has_hessian = False  # True where values are formulas, without a search at each point

    def __init__(self, regression: StateT_co, assumptions: Assumptions) -> None:
        super().__init__()
        self.regression: StateT_co = regression
        self.assumptions: Assumptions = assumptions

    @property
    def norm(self) -> Number | None:
        r"""Largest RKHS norm of ``f - mean`` in the set, prior units; None if unbounded.

        An estimate where the norm bound was estimated, or raised by the data.
        """
        return None

    @property
    def model_error(self) -> float:
        r"""Largest distance, at any point, of ``f`` from a function of bounded norm.

        Outcome units; zero where ``f`` itself has bounded norm.
        """
        return 0.0

    @property
    def beside(self) -> "ConfidenceSet":
        r"""The set with those bounds at a point ``c`` that hold next to it as well.

        ``f(x)`` exceeds them by at most ``norm d_k(x, c)``, the change of a function of
        bounded norm. Cells of branch and bound take their bounds from here.
        """
        return self

    def to_search(self) -> "ConfidenceSet":
        r"""The set without limits at whose ends the bounds of many points are equal."""
        return self

    def cut(self, kind: "Cut", assumptions: Assumptions) -> "ConfidenceSet":
        r"""A part of the set: ``kind`` of it, with these assumptions."""
        return kind(self, assumptions=assumptions)

    def most_beyond(self, X: Tensor, level: float, sign: int) -> int:
        r"""Upper bound on at how many of ``n x d`` points ``sign * (f - level) >= 0``.

        For any one function of the set; ``level`` in outcome units. All ``n`` points by
        default; less where the set says that no function is so far at all of them at once.

        Source: ours; see ``GridSet``.
        """
        return len(X)

    def limit(self, sign: int) -> float:
        r"""Upper bound on ``sign * f`` everywhere, from a known range; else infinite."""
        return math.inf

    def gain_limit(self, reference: Tensor, sign: int) -> float:
        r"""Upper bound on ``sign * (f(x) - f(reference))`` everywhere; ``1 x d``."""
        return math.inf

    @property
    def alternatives(self) -> "Sequence[ConfidenceSet]":
        r"""The sets of which this is the union: itself, unless it combines several."""
        return [self]

    def change_in(self, fixed: Collection[int]) -> Change | None:
        r"""How much any function of the set changes in a cell; None if that is unknown.

        Maps ``m x d`` centres and half sides of cells to ``m`` upper bounds, outcome units.
        Cells have no room in the ``fixed`` columns.

        Source: ours, ``|f(x) - f(x')| <= B d_k(x, x') + |m(x) - m(x')|`` (Cauchy-Schwarz)
        where ``||f - m|| <= B``, with ``d_k`` the kernel metric, largest at the corners of
        a cell where the kernel falls with the distance along each coordinate. Known for
        RBF, Matern and rational quadratic kernels, BoTorch's categorical kernel, their sums
        and products, for input transforms that take each other column by itself, and for
        constant and linear prior means.
        """
        return None

    def _described(self) -> dict[str, Any]:
        return {
            "norm": None if self.norm is None else f"{self.norm:.6g}",
            "delta": self.assumptions.delta,
            "num_observations": self.regression.num_observations,
        }

    @abstractmethod
    def project(self, X: Tensor) -> SeenT:
        r"""Project ``b x d`` raw points, once for each distinct state."""

    @abstractmethod
    def support(self, points: SeenT, sign: int) -> Tensor:
        r"""Largest values of ``sign * (f(x) - baseline(x))`` over the set, outcome units.

        ``b`` values at points from ``project``, differentiable in the points; the upper
        bound is ``baseline + support``, the lower ``baseline - support`` of the other sign.

        ``sign`` is 1 for the upper side of the band, -1 for the lower.
        """

    def majorant(self, points: SeenT, sign: int) -> Tensor:
        r"""Upper bound on ``support``, cheaper where ``support`` needs a search."""
        return self.support(points, sign)

    @abstractmethod
    def with_pending(self, X_pending: Tensor) -> Self:
        r"""The set with variances conditioned on ``p x d`` pending points as well."""

    def bounds(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound at ``b x d`` points, two ``b``-vectors."""
        points = self.project(X)
        lower = points.baseline - self.support(points, -1)  # of `-f`, so its largest value
        upper = points.baseline + self.support(points, 1)
        return lower, upper

    def max_gain_over(
        self, X: Tensor, reference: Tensor, sign: int = 1, cheap: bool = False
    ) -> Tensor:
        r"""Upper bound on ``sign * (f(x) - f(reference))``, ``b`` values, outcome units.

        By default the difference of two sides of the band; ``FunctionSet`` overrides this
        by the maximum over the set. ``X`` is ``b x d``, ``reference`` ``1 x d``; ``sign``
        is -1 where small outcomes are sought. With ``cheap`` the bound is found without a
        search and is somewhat larger.
        """
        points, other = self.project(X), self.project(reference)
        above = (self.majorant if cheap else self.support)(points, sign)
        below = self.support(other, -sign)
        return sign * (points.baseline - other.baseline) + above + below

    def gains_among(self, X: Tensor, sign: int = 1) -> Gains:
        r"""Gains of ``n x d`` points over each other; all of them are seen once."""
        points = self.project(X)
        sides = self.support(points, sign), self.support(points, -sign)
        most = sign * points.baseline + sides[0]
        least = sign * points.baseline - sides[1]

        def apart(first: Tensor, second: Tensor) -> Tensor:
            return most[first] - least[second]

        return Gains(apart, apart)


def changes_in(
    parts: Sequence[ConfidenceSet], fixed: Collection[int]
) -> list[Change] | None:
    r"""The changes of several sets; None if one is unknown."""
    found = [part.change_in(fixed) for part in parts]
    known = [change for change in found if change is not None]
    return known if len(known) == len(found) else None


class StateSet(ConfidenceSet[ProjectingT_co, QueryPoints[PointsT]]):
    r"""A set of the data of one model, with pending points in a state of their own.

    Args:
        regression: The data, from which centre and radius of the set follow.
        assumptions: The assumptions of the set.
    """

    def __init__(self, regression: ProjectingT_co, assumptions: Assumptions) -> None:
        super().__init__(regression, assumptions)
        # Gives variances: the same, or with pending points
        self.design: ProjectingT_co = regression

    def project(self, X: Tensor) -> QueryPoints[PointsT]:
        X = X if self.has_hessian else without_hessian(X)
        centre, same = self.regression.project(X), self.design is self.regression
        return QueryPoints(centre, centre if same else self.design.project(X))

    def with_pending(self, X_pending: Tensor) -> Self:
        band = draft_of(self)  # shares all tensors but those that are registered anew
        band.design = self.regression.with_pending(X_pending)
        band._design_changed()
        return band

    def _design_changed(self) -> None:
        r"""Compute anew what was computed from ``design``."""
