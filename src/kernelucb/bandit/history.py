r"""What the bounds need of the data, at several regularisers at once."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol, Self

from torch import Tensor

from kernelucb.bandit.observations import Arms, Observations


class Fit(NamedTuple):
    r"""How ridge estimates fit the data, one value for each regulariser ``tau``."""

    regularizers: Tensor  # tau
    log_det: Tensor  # ln det(I + K_w / tau)
    quadratic_form: Tensor  # y_w^T (I + K_w / tau)^-1 y_w


class Moments(NamedTuple):
    r"""Ridge estimates at arms, ``a x m`` for ``m`` regularisers."""

    deviation: Tensor  # estimate minus prior mean, outcome units
    variance: Tensor  # latent variance, outcome units squared


class Systems(Protocol):
    r"""The linear systems ``K_w + tau`` for several ``tau``."""

    def fit(self) -> Fit:
        r"""How the ridge estimates fit the data."""
        ...

    def moments(self, points: Any) -> Moments:
        r"""Ridge estimates at arms that the history has projected."""
        ...


class History(ABC):
    r"""All observations in a form that takes one more in ``O(n^2)``."""

    def __init__(self, observations: Observations) -> None:
        self.observations, self.noise_std = observations, observations.noise_std
        self._last: tuple[Arms, Any] | None = None

    @abstractmethod
    def fork(self, observations: Observations) -> Self:
        r"""A copy that grows on its own, with a copy of the observations.

        Both share storage, of which each reads its own rows only. Changes are made to a
        fork, which then replaces the original by one assignment: an interruption leaves
        the original as it was.
        """

    @abstractmethod
    def append(self, arm: Arms, target: float) -> None:
        r"""Add an observation: its arm, and outcome minus prior mean in noise units."""

    @abstractmethod
    def systems(self, slot: str, regularizers: Tensor) -> Systems:
        r"""The systems at given regularisers; each slot keeps those last asked for."""

    def project(self, arms: Arms) -> Any:
        r"""Arms in the form that ``Systems.moments`` takes; remembered for ``append``."""
        self._last = (arms, self._projected(arms))
        return self._last[1]

    def arm(self, x: Tensor) -> Arms:
        r"""The arm at ``1 x d`` inputs, one of those projected last if it is among them."""
        last = None if self._last is None else self._last[0]
        if last is not None and len(last.covariance) == self.observations.count:
            match = (last.inputs == x).all(-1).nonzero()
            if len(match):
                return last.at(int(match[0]))
        return self.observations.arms(x)

    @abstractmethod
    def _projected(self, arms: Arms) -> Any: ...

    def _recalled(self, arm: Arms) -> Any:
        r"""The projection of an arm, for the last time if it is among those projected."""
        last, self._last = self._last, None
        if last is None or arm.source is None or arm.source[0] is not last[0]:
            return self._projected(arm)
        return last[1].at(arm.source[1])
