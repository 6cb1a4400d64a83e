r"""What the parts of the library ask of data, whatever model they come from."""

from typing import Protocol, Self

from torch import Tensor
from typing_extensions import TypeVar

from kernelucb.data.outcome_map import OutcomeMap


class Points(Protocol):
    r"""Query points as a state sees them."""

    @property
    def baseline(self) -> Tensor:
        r"""``b`` values from which support functions are measured, outcome units."""
        ...

    def rows(self, mask: Tensor, /) -> Self:
        r"""The points where ``mask`` is true."""
        ...


PointsT_co = TypeVar("PointsT_co", bound=Points, covariant=True)


class State(Protocol):
    r"""Data, whatever is assumed of them: of one model, or of several together."""

    @property
    def dimension(self) -> int:
        r"""Number of raw input columns ``d``."""
        ...

    @property
    def num_observations(self) -> int:
        r"""Number of observations ``n``."""
        ...

    @property
    def prior_std(self) -> float:
        r"""Prior standard deviation of the outcome, outcome units."""
        ...

    @property
    def outcome_map(self) -> OutcomeMap:
        r"""From outcomes to the scale that the state is on."""
        ...

    def mean(self, X: Tensor, /) -> Tensor:
        r"""Estimate at ``b x d`` points, ``b`` values in outcome units."""
        ...


class ProjectingState(State, Protocol[PointsT_co]):
    r"""The data of one model, with coordinates of query points."""

    def project(self, X: Tensor, /) -> PointsT_co:
        r"""Coordinates of ``b x d`` raw query points; differentiable in ``X``."""
        ...

    def with_pending(self, X_pending: Tensor, /) -> Self:
        r"""The state with ``p x d`` raw inputs added that have no outcomes yet."""
        ...
