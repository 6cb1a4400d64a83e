r"""From the observations of a bandit to its bounds; bounds at a single regulariser."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.bandit.grid import RegularizerGrid
from kernelucb.bandit.observations import Arms, Observations, Signs
from kernelucb.bandit.spectral import Eigenbasis, Points, SchurSystems
from kernelucb.confidence.assumptions import (
    Assumption,
    Assumptions,
    PriorKnowledge,
    rkhs_assumptions,
)
from kernelucb.confidence.norm import NormTracker, estimated_norm, given_norm
from kernelucb.confidence.radius import (
    mixture_radius,
)
from kernelucb.confidence.ridge import (
    check_resolved,
    fixed_ridge_band,
)
from kernelucb.confidence.sets import ConfidenceSet
from kernelucb.regression.prior import Prior

# An estimated norm bound is renewed after this share of new observations: rare enough that
# O(n^3) for an estimate is O(n^2) a round.
_ESTIMATES = 16
# Of the width, by round-off in systems that grow; beyond, bounds are made from scratch.
_ACCEPTED_LOSS = 1e-5


class Shared(NamedTuple):
    r"""Prior, norm bound, noise scale and ``delta`` that every bound uses."""

    prior: Prior
    norm: float | NormTracker  # outcome units; a tracker where it is estimated
    noise_std: float  # sub-Gaussian noise scale, outcome units
    delta: float  # failure probability


class Bands(ABC):
    r"""A bound for the observations so far.

    Attributes:
        source: The theorem of the bound.
        num_rounds: Number of rounds for which the bound holds.
        smallest_regularizer: Smallest ``tau`` that the bound needs, whatever the data.
        grid: The regularisers, for a bound that is valid at any regulariser.
    """

    source: str
    num_rounds: float = math.inf
    smallest_regularizer: float

    def __init__(self, shared: Shared) -> None:
        prior, self.norm, self.noise_std, self.delta = shared
        self.observations = Observations(prior, self.noise_std)
        self.grid = RegularizerGrid()
        self._estimate_at = 1  # number of observations at which the norm is next estimated
        self._current: Any = None  # after the observations so far, once it was needed

    @property
    def norm_bound(self) -> float:
        r"""The norm bound given, or its estimate so far, outcome units."""
        if isinstance(self.norm, NormTracker):
            return max(float(self.norm.norm_bound), self.norm.floor)
        return self.norm

    @property
    def is_resolved(self) -> bool:
        r"""Whether the growing systems are as accurate as a regression from scratch.

        Round-off of a backward stable solve, ``eps |K_w| |w|`` with ``|w|`` at most
        ``norm / (2 sqrt(tau))``, moves a ridge estimate by at most
        ``eps |K_w| / (2 tau)`` of its standard deviation times ``norm``: both are sums with
        ``(K_w + tau)^-1 k_w(x)``. ``|K_w|`` is at most the trace.
        """
        trace = self.observations.total_variance / self.noise_std**2
        epsilon = torch.finfo(torch.float64).eps
        return epsilon * trace <= _ACCEPTED_LOSS * self.smallest_regularizer

    def assumptions(self, known: PriorKnowledge) -> Assumptions:
        r"""The assumptions of the bound."""
        guessed = "norm" in known.estimated
        norm = given_norm(EstimatedNumber(self.norm_bound) if guessed else self.norm_bound)
        if isinstance(self.norm, NormTracker):
            norm = estimated_norm(self.norm_bound, self.norm.least_consistent_norm)
        horizon = None if math.isinf(self.num_rounds) else self.num_rounds
        return rkhs_assumptions(self.source, known, self.delta, norm, horizon=horizon)

    def check_noise(self, variance: Tensor) -> None:  # noqa: B027
        r"""Raise a ValueError where rounded prior variances hide what the data say.

        Nothing to check for a bound that holds at any regulariser: a larger regulariser is
        used.
        """

    def observe(self, arm: Arms, outcome: float) -> None:
        r"""Add one observation: its arm, and its outcome in outcome units."""
        self._current = None
        self.observations.append(arm, outcome)
        if self.is_resolved:
            self._append(arm, (outcome - float(arm.prior_mean)) / self.noise_std)
        count = self.observations.count
        if isinstance(self.norm, NormTracker) and count >= self._estimate_at:
            self._estimate_norm(self.norm)
            self._estimate_at = count + max(1, count // _ESTIMATES)

    @abstractmethod
    def _append(self, arm: Arms, target: float) -> None:
        r"""Add an observation, its outcome without the mean and in noise units."""

    def _estimate_norm(self, tracker: NormTracker) -> None:
        regression = self.observations.regression()
        tracker.estimate(regression, mixture_radius(regression, self.delta, 1.0))

    def current(self) -> Any:
        r"""The set after the observations so far; stateless where that is needed."""
        if self._current is None:
            self._current = self._new_current()
        return self._current

    @abstractmethod
    def _new_current(self) -> Any: ...

    def supports(self, arms: Arms, signs: Signs) -> list[Tensor]:
        r"""Largest values of ``sign * (f - mean)`` at ``a`` arms, outcome units.

        A vector of ``a`` values for each sign.
        """
        current = self.current()
        if not isinstance(current, ConfidenceSet):
            return self._supports(current, arms, signs)
        points = current.project(arms.inputs)
        return [current.support(points, sign).value for sign in signs]

    @abstractmethod
    def _supports(self, current: Any, arms: Arms, signs: Signs) -> list[Tensor]: ...

    def contradiction(self) -> Assumption | None:
        r"""The assumption that the data contradict, if any."""
        return None

    def widening(self) -> float:
        r"""The norm in use over the norm bound, above 1 where the set was empty."""
        return 1.0


class RidgeTheorem(NamedTuple):
    r"""A ridge estimate plus or minus a width times its standard deviation."""

    source: str
    regularizer: float  # tau, which the theorem fixes
    width: Callable[[float, float], float]  # from ln det(I + K_w / tau) and the norm
    num_rounds: float = math.inf


class RidgeBands(Bands):
    r"""The bound of a theorem at its one regulariser.

    There the system of all observations grows, as that of the newest does elsewhere.
    """

    def __init__(self, shared: Shared, theorem: RidgeTheorem) -> None:
        super().__init__(shared)
        self.source, self.smallest_regularizer, self._width, self.num_rounds = theorem
        basis = Eigenbasis.empty(self.observations.inputs)
        tau = basis.eigenvalues.new_tensor([self.smallest_regularizer])
        self._systems = SchurSystems(basis, tau, self.noise_std)

    def check_noise(self, variance: Tensor) -> None:
        r"""Check that kernel values resolve the regulariser; see ``Bands``."""
        check_resolved(self.smallest_regularizer, self.noise_std, variance)

    def _append(self, arm: Arms, target: float) -> None:
        self._systems.append(_outside_any_basis(arm, self._systems.count), target)

    def _new_current(self) -> ConfidenceSet | None:
        if self.is_resolved:
            return None  # the growing system knows all
        regression, tau = self.observations.regression(), self.smallest_regularizer
        width = self._width(float(regression.log_det(tau)), self.norm_bound)
        return fixed_ridge_band(regression, tau, width, self.assumptions(regression))

    def _supports(self, current: None, arms: Arms, signs: Signs) -> list[Tensor]:
        points = _outside_any_basis(arms, self._systems.count)
        deviation, variance = self._systems.moments(points)
        width = self._width(float(self._systems.fit().log_det), self.norm_bound)
        radius = width * safe_sqrt(variance)[:, 0]
        return [sign * deviation[:, 0] + radius for sign in signs]


def _outside_any_basis(arms: Arms, count: int) -> Points:
    r"""Arms beside an empty eigenbasis and the first so many observations."""
    nothing = arms.prior_variance.new_empty(len(arms.inputs), 0)
    return Points(nothing, arms.prior_variance, arms.covariance[:count])
