r"""What the bounds ask of the data, at several regularisers at once."""

from typing import Any, NamedTuple, Protocol

from torch import Tensor

from kernelucb.bandit.observations import Query


class Fit(NamedTuple):
    r"""How ridge estimates fit the data, one value for each regulariser ``tau``.

    Attributes:
        regularizers: ``tau``.
        log_det: ``ln det(I + K_w / tau)``.
        quadratic_form: ``y_w^T (I + K_w / tau)^-1 y_w``.
    """

    regularizers: Tensor
    log_det: Tensor
    quadratic_form: Tensor


class Moments(NamedTuple):
    r"""Ridge estimates at arms, ``a x m`` for ``m`` regularisers.

    Attributes:
        deviation: Estimate minus prior mean, outcome units.
        variance: Latent variance, outcome units squared.
    """

    deviation: Tensor
    variance: Tensor


class Systems(Protocol):
    r"""The linear systems ``K_w + tau`` for several ``tau``, kept up to date."""

    regularizers: Tensor

    def fit(self) -> Fit:
        r"""How the ridge estimates fit the data."""
        ...

    def moments(self, points: Any) -> Moments:
        r"""Ridge estimates at arms, as projected by the history."""
        ...


class History(Protocol):
    r"""All observations in a form that takes one more in ``O(n^2)``."""

    def fork(self) -> "History":
        r"""A history that goes on on its own, with storage in common.

        What changes a bandit changes a fork, which then takes the place of the original by
        a single assignment: an interruption leaves the original as it was.
        """
        ...

    def append(self, query: Query, target: float) -> None:
        r"""Add one observation.

        Args:
            query: Its input, seen by the observations before it.
            target: Its outcome minus the prior mean, in noise units.
        """
        ...

    def project(self, query: Query) -> Any:
        r"""Arms in the form that ``Systems.moments`` takes."""
        ...

    def systems(self, slot: str, regularizers: Tensor) -> Systems:
        r"""The systems at given regularisers, one set for each slot."""
        ...
