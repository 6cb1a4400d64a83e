r"""The RKHS norm: what is said of it, and its estimate from the data."""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.checks import (
    finite_scalar,
    nonnegative_scalar,
    positive_scalar,
    probability,
)
from kernelucb._numerics.digits import assumed, at_least
from kernelucb._numerics.estimates import Estimate, Number, is_estimate
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.combined import PlusError
from kernelucb.confidence.fit import ClosedForm, data_fit, fit_of
from kernelucb.confidence.least_norm import Ridge, least_norm
from kernelucb.confidence.radius import CovarianceScale, Radius
from kernelucb.confidence.sets import ConfidenceSet
from kernelucb.data import KernelRegression, RidgeState

_LOG = logging.getLogger(__name__)
# Chosen by measurement: docs/results/practical.md.
DEFAULT_INFLATION, DEFAULT_FLOOR = 1.0, 2.0


def least_consistent_norm(
    model: Model,
    noise_std: float | Tensor | None = None,
    *,
    delta: float = 0.05,
    fit: ClosedForm = "filters",
    covariance_scale: CovarianceScale | None = None,
    model_error: float = 0.0,
) -> Estimate:
    r"""Lower bound on the RKHS norm of ``f - mean``, anytime.

    The smallest norm of a function that fits the data, by the fit of the confidence set. If
    kernel, mean and noise scale were given and are right, the true norm is at least this
    number with probability ``1 - delta``, for all rounds at once, and the data contradict a
    smaller ``norm_bound``. If they were fitted to the same data, the number is an estimate.
    The true norm may be larger: as a ``norm_bound``, this number and its multiples count as
    estimated.

    Source: the norm is minimised over the functions within the fit: a mixture of filters
    (ours), or Flynn & Reeb (2024), Lemma 4.2, for ``fit="martingale"``. Assumes
    conditionally sub-Gaussian noise, a kernel and mean fixed in advance, and outcomes that
    are reported whatever their noise.

    Args:
        model: A single-output exact GP, or a ``KernelRegression``.
        noise_std: Noise scale in outcome units, from the likelihood when absent.
        delta: Failure probability.
        fit: ``"filters"`` or ``"martingale"``; see ``MartingaleMixtureUCB``.
        covariance_scale: See ``MartingaleMixtureUCB``.
        model_error: With a number above 0, outcome units, the norm is that of functions
            that are nowhere farther than this from ``f``.

    Returns:
        The norm in outcome units, for ``model.covar_module`` as it stands. Zero where the
        prior mean fits the data; infinity where no norm is large enough (``noise_std`` is
        too small).

    Raises:
        ValueError: If a scalar is out of its range.
        UnsupportedError: If the model cannot be represented.
        InputDataError: If the model's data are empty or not finite.
    """
    probability("delta", delta)
    model_error = nonnegative_scalar("model_error", model_error)
    regression = KernelRegression.of(model, noise_std)
    chosen = fit_of(fit, covariance_scale)
    fitted = data_fit(chosen, regression, delta, model_error=model_error)
    return Estimate(fitted.for_least_norm()[1] * regression.outcome_scale)


class NormBound(NamedTuple):
    r"""A bound on the RKHS norm of ``f - mean``, or of a function near ``f``."""

    value: float  # prior units
    assumption: Assumption  # where it comes from

    def in_outcome_units(self, regression: RidgeState) -> Number:
        r"""The norm bound in outcome units, an ``Estimate`` unless it was given."""
        return self.assumption.number(self.value * regression.outcome_scale)

    def checked(self, regression: RidgeState, radius: Radius) -> "NormBound":
        r"""The bound, marked as violated if given and below the least consistent norm."""
        if self.assumption.status is not Status.GIVEN:
            return self
        least = least_norm(regression, radius)
        if least <= self.value:
            return self
        scale = regression.outcome_scale
        statement = (
            f"{self.assumption.statement}; the data contradict this: the least "
            f"consistent norm is {at_least(least * scale)} (or the noise scale is too "
            "small, or the kernel is wrong)"
        )
        return self._replace(assumption=Assumption("norm", statement, Status.VIOLATED))


class Norm(ABC):
    r"""What is said of the norm: how a band gets its norm bound, and what that rests on.

    A new kind of statement is a new class; ``as_norm`` makes one of an argument.
    """

    # Largest distance, at any point, of ``f`` from a function of this norm; outcome units.
    model_error: Number

    @property
    @abstractmethod
    def number(self) -> Number | None:
        r"""The bound, outcome units; None where the band's own data estimate it."""

    @property
    def before_data(self) -> Number | None:
        r"""The bound if no outcome of the band enters it, else None."""
        return self.number

    @abstractmethod
    def given(self, outcome_scale: float) -> "NormBound | None":
        r"""``number`` in prior units, with its assumption; None where it has none."""

    @abstractmethod
    def resolve(self, regression: RidgeState, radius: Radius) -> "NormBound":
        r"""``given``, or its estimate from data and the radius of their fit."""

    @abstractmethod
    def at(self, norm_bound: Number) -> "NormLike":
        r"""The same statement with another bound, outcome units."""

    def around(self, functions: ConfidenceSet) -> ConfidenceSet:
        r"""The set of ``f``, from that of the function near it that has the norm."""
        error = self.model_error
        return PlusError(functions, float(error)) if error > 0.0 else functions

    def left_of(self, delta: float) -> float:
        r"""What is left of a band's failure probability for its fit."""
        return delta

    def stated(self, given: Assumptions, regression: KernelRegression) -> Assumptions:
        r"""The assumptions of a band of these data, from those with the bound's number."""
        return given


class Ball(Norm):
    r"""A bound on the norm of ``f`` itself: a number, or an estimate from the data."""

    model_error = 0.0

    @abstractmethod
    def given(self, outcome_scale: float, function: str = "f") -> "NormBound | None":
        r"""``function`` is the name of the function that has the norm."""

    @abstractmethod
    def so_far(self) -> "NormBound":
        r"""The bound before further data, at an outcome scale of 1."""

    @abstractmethod
    def resolve(
        self, regression: RidgeState, radius: Radius, function: str = "f"
    ) -> "NormBound":
        r"""``function`` as for ``given``."""

    def at(self, norm_bound: Number) -> Number:
        return norm_bound


class GivenNorm(Ball):
    r"""A number of the user's, outcome units, or an estimate from elsewhere.

    Raises:
        ValueError: If it is not a finite number above 0.
    """

    def __init__(self, number: Number) -> None:
        positive_scalar("norm_bound", number)
        self._number = number

    @property
    def number(self) -> Number:
        return self._number

    @property
    def before_data(self) -> Number | None:
        return None if is_estimate(self._number) else self._number

    def given(self, outcome_scale: float, function: str = "f") -> "NormBound":
        assumption = given_norm(self._number, function)
        return NormBound(float(self._number) / outcome_scale, assumption)

    def resolve(
        self, regression: RidgeState, radius: Radius, function: str = "f"
    ) -> "NormBound":
        return self.given(regression.outcome_scale, function)

    def so_far(self) -> "NormBound":
        return self.given(1.0)


class NormTracker(Ball):
    r"""Estimate of the norm bound from the data, never smaller than in earlier rounds.

    ``B = max(inflation * B_min, sqrt(B_min^2 + floor^2))``, where ``B_min`` is the least
    consistent norm, a lower bound on the true norm. While the prior mean fits the data,
    ``B`` is ``floor``, in prior standard deviations. In every round the set holds functions
    that differ from the smoothest function that fits the data by at least ``floor``
    posterior standard deviations (without noise). No data can certify an upper bound on a
    norm, so ``B`` is an estimate (ours), and the ``assumptions`` of bounds that use a
    tracker say so.

    Pass the tracker as ``norm_bound`` to any bound; every bound that is built with the
    tracker updates it. With ``norm_bound=None`` each bound makes a new ``NormTracker()``.

    Example:
        >>> tracker = NormTracker()
        >>> for _ in range(rounds):
        ...     acqf = MartingaleMixtureUCB(fit(X, Y), norm_bound=tracker)

    Attributes:
        norm_bound: Largest estimate so far, outcome units; 0 before the first data. Counts
            as estimated when given to another bound.
        outcomes: Scale of the outcomes, ``"untransformed"`` or ``"after Log"``; None before
            the first data. Later outcomes must be on the same scale, in whatever unit.
        least_consistent_norm: Largest least consistent norm so far, outcome units. If
            kernel, mean and noise scale were given and are right, the true norm is at least
            this number with probability ``1 - delta``, the ``delta`` of the bounds that
            updated the tracker. Counts as estimated when given to another bound.
    """

    def __init__(
        self, *, inflation: float = DEFAULT_INFLATION, floor: float = DEFAULT_FLOOR
    ) -> None:
        r"""Norm tracker before any data.

        Args:
            inflation: Smallest multiple of the least consistent norm, at least 1.
            floor: Prior standard deviations beyond the least consistent norm, added in
                squares; above 0.

        Raises:
            ValueError: If ``inflation`` is below 1 or ``floor`` is not above 0.
        """
        self.inflation = finite_scalar("inflation", inflation)
        if self.inflation < 1.0:
            raise ValueError(
                f"inflation must be at least 1, got {inflation}: a smaller norm than the "
                "least consistent one contradicts the data."
            )
        self.floor = positive_scalar("floor", floor)
        self.norm_bound = self.least_consistent_norm = Estimate(0.0)
        self.outcomes: str | None = None

    def observe(
        self,
        model: Model | KernelRegression,
        noise_std: float | None = None,
        delta: float = 0.05,
        fit: ClosedForm = "filters",
        covariance_scale: CovarianceScale | None = None,
    ) -> Estimate:
        r"""Update with a model's data; return the norm bound, outcome units.

        Arguments as for ``least_consistent_norm``.

        Raises:
            ValueError: If earlier outcomes were on another scale.
        """
        probability("delta", delta)
        regression = KernelRegression.of(model, noise_std)
        fitted = data_fit(fit_of(fit, covariance_scale), regression, delta)
        self.resolve(*fitted.for_least_norm()[0])
        return self.norm_bound

    @property
    def number(self) -> None:
        return None

    def given(self, outcome_scale: float, function: str = "f") -> None:
        return None

    def so_far(self) -> NormBound:
        # Before any data an estimate is zero, and the floor stands for it.
        norm = max(float(self.norm_bound), self.floor)
        return NormBound(norm, estimated_norm(norm, self.least_consistent_norm))

    def resolve(
        self, regression: RidgeState, radius: Radius, function: str = "f"
    ) -> NormBound:
        r"""Update the estimate with data and the radius of their fit.

        Where no norm is consistent with the data (the noise scale is too small), the norm
        of the posterior mean takes the place of the least consistent norm.
        """
        # First what may be refused, then the new state: a refused call changes nothing.
        outcomes = regression.outcome_map.same_as(self.outcomes)
        centre, scale = least_norm(regression, radius), regression.outcome_scale
        before, least = float(self.norm_bound), float(self.least_consistent_norm)
        if math.isinf(centre):
            centre = Ridge.of(regression).norm(radius.tau_ref)
        else:
            least = max(least, centre * scale)
        estimate = max(self.inflation * centre, math.hypot(centre, self.floor))
        norm = max(before, estimate * scale)
        if norm > before:
            words = "Norm bound estimated: %.4g, was %.4g (least consistent norm %.4g)."
            _LOG.info(words, norm, before, least)
        self.outcomes, self.norm_bound = outcomes, Estimate(norm)
        self.least_consistent_norm = Estimate(least)
        return NormBound(norm / scale, estimated_norm(norm, least, function))


# A number, or a tracker that estimates the norm bound; None for the default tracker.
NormBoundLike = Number | Ball | None


@dataclass(frozen=True)
class NearNormBall(Norm):
    r"""A norm bound for a function ``g`` near ``f``, in place of a norm bound on ``f``.

    The band is wider by ``model_error`` on both sides, and the radius of the fit (noise
    units) by up to ``model_error sqrt(n) / noise_std``; the noise scale must be known.

    Source: ours; see ``docs/mathematics.md``.

    Attributes:
        norm_bound: Bound on the RKHS norm of ``g - mean``, outcome units, a tracker or
            None; for a family one for all kernels or one for each.
        model_error: Largest distance between ``f`` and ``g`` at any point, outcome units.

    Raises:
        ValueError: If ``model_error`` is not a finite number of at least 0.
    """

    norm_bound: NormBoundLike | Sequence[Number] = None
    model_error: Number = 0.0

    def __post_init__(self) -> None:
        nonnegative_scalar("model_error", self.model_error)

    @property
    def ball(self) -> Ball:
        r"""The statement on the norm of ``g``."""
        return as_ball(cast(NormBoundLike, self.norm_bound))  # families read lists

    @property
    def number(self) -> Number | None:
        return self.ball.number

    @property
    def before_data(self) -> Number | None:
        return self.ball.before_data

    @property
    def _function(self) -> str:
        r"""Name of the function that has the norm."""
        return "g" if self.model_error > 0.0 else "f"

    def given(self, outcome_scale: float) -> NormBound | None:
        bound = self.ball.given(outcome_scale, self._function)
        return bound and self._near(bound)

    def resolve(self, regression: RidgeState, radius: Radius) -> NormBound:
        return self._near(self.ball.resolve(regression, radius, self._function))

    def _near(self, bound: NormBound) -> NormBound:
        return bound._replace(assumption=near(bound.assumption, self.model_error))

    def at(self, norm_bound: Number) -> "NearNormBall":
        return replace(self, norm_bound=norm_bound)


# What a band takes as its norm bound.
NormLike = NormBoundLike | Norm


def as_ball(norm_bound: NormBoundLike) -> Ball:
    r"""The statement of an argument that is about ``f`` itself.

    Raises:
        ValueError: If it is no number above 0 and no tracker.
    """
    if isinstance(norm_bound, Ball):
        return norm_bound
    if isinstance(norm_bound, str):
        raise ValueError(
            f"norm_bound must be a number, a NormTracker or None, got {norm_bound!r}."
        )
    return NormTracker() if norm_bound is None else GivenNorm(norm_bound)


def as_norm(norm_bound: NormLike) -> Norm:
    r"""The statement of an argument ``norm_bound``; errors as ``as_ball``."""
    return norm_bound if isinstance(norm_bound, Norm) else as_ball(norm_bound)


def near_ball(norm_bound: NormBoundLike | Sequence[Number] | NearNormBall) -> NearNormBall:
    r"""A ball near ``f``, for families: of ``f`` itself with a model error of zero."""
    return norm_bound if isinstance(norm_bound, NearNormBall) else NearNormBall(norm_bound)


def norm_bound_under_prior(
    norm_bound: NormBoundLike, regression: KernelRegression, delta: float
) -> NormBound:
    r"""A norm bound, given or estimated with the fit by a mixture of filters.

    A number below the least consistent norm is kept and marked as contradicted.
    """
    constraint, _ = data_fit("filters", regression, delta).for_least_norm()
    return as_ball(norm_bound).resolve(*constraint).checked(*constraint)


def given_norm(norm_bound: Number, function: str = "f") -> Assumption:
    r"""The statement for a norm bound of the user's, outcome units; or an estimate's."""
    statement = f"the RKHS norm of {function} - mean is at most {assumed(norm_bound)}"
    if is_estimate(norm_bound):
        return Assumption("norm", f"{statement}, which was estimated", Status.ESTIMATED)
    return Assumption("norm", statement, Status.GIVEN)


def estimated_norm(norm_bound: Number, least: Number, function: str = "f") -> Assumption:
    r"""The statement for an estimate and its certified part, outcome units."""
    statement = (
        f"the RKHS norm of {function} - mean is at most {at_least(norm_bound)}, an "
        "estimate from these data (ours, by no theorem); that it is at least "
        f"{at_least(least)} needs only the other assumptions"
    )
    return Assumption("norm", statement, Status.ESTIMATED)


def near(item: Assumption, model_error: Number) -> Assumption:
    r"""The assumption on ``f`` within ``model_error`` of a ``g``, from that on ``g``."""
    if not model_error > 0.0:
        return item
    where = f"f is everywhere within {assumed(model_error)} of a function g"
    status = Status.of(model_error) if item.status is Status.GIVEN else item.status
    return replace(item, text=f"{where}; {item.text}", status=status)
