r"""Norm bounds: given or estimated, or for a function near ``f`` only."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from botorch.models.model import Model

from kernelucb._numerics.checks import (
    finite_scalar,
    nonnegative_scalar,
    positive_scalar,
    probability,
)
from kernelucb._numerics.digits import assumed, at_least
from kernelucb._numerics.estimates import EstimatedNumber, is_estimate
from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.confidence.fit.choice import ClosedForm, data_fit, fit_of
from kernelucb.confidence.fit.radius import CovarianceScale, Radius
from kernelucb.confidence.norm.least import for_least_norm, least_norm, ridge_norm
from kernelucb.regression import KernelRegression, RidgeState

_LOG = logging.getLogger(__name__)
# Chosen by measurement: docs/results/practical.md; norm.md there for the cautious ones.
DEFAULT_INFLATION, DEFAULT_FLOOR = 1.0, 2.0


class NormBound(NamedTuple):
    r"""A bound on the RKHS norm of ``f - mean``, or of a function near ``f``."""

    value: float  # prior units
    assumption: Assumption  # where it comes from

    def in_outcome_units(self, regression: RidgeState) -> float:
        r"""The norm bound in outcome units, an ``EstimatedNumber`` unless it was given."""
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

    def of_neighbour(self, model_error: float) -> "NormBound":
        r"""The bound, for a function within ``model_error`` (outcome units) of ``f``."""
        words = self.assumption.statement.replace("f - mean", "g - mean")
        statement = (
            f"f is everywhere within {assumed(model_error)} of a function g; {words}"
        )
        status = self.assumption.status
        if is_estimate(model_error) and status is Status.GIVEN:
            status = Status.ESTIMATED
        item = replace(self.assumption, statement=statement, status=status)
        return self._replace(assumption=item)


class NormTracker:
    r"""Estimate of the norm bound from the data, never smaller than in earlier rounds.

    ``B = max(inflation * B_min, sqrt(B_min^2 + floor^2))``, where ``B_min`` is the least
    consistent norm, a lower bound on the true norm. While the prior mean fits the data,
    ``B`` is ``floor``, in prior standard deviations. In every round the set holds functions
    that differ from the smoothest function that fits the data by at least ``floor``
    posterior standard deviations (without noise). No data can certify an upper bound on a
    norm, so ``B`` is an estimate (ours), and the ``assumptions`` of bounds that use a
    tracker say so.

    Pass the tracker as ``norm_bound`` to any bound; every bound that is built with the
    tracker updates it. With ``norm_bound=None`` each bound makes a new ``NormTracker()``,
    with ``norm_bound="cautious"`` a new ``NormTracker.cautious()``.

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
        self.estimates = 0.0, 0.0  # of the norm bound and the least norm, plain numbers
        self.outcomes: str | None = None

    @property
    def norm_bound(self) -> float:
        r"""See the class."""
        return EstimatedNumber(self.estimates[0])

    @property
    def least_consistent_norm(self) -> float:
        r"""See the class."""
        return EstimatedNumber(self.estimates[1])

    @classmethod
    def cautious(cls) -> "NormTracker":
        r"""A tracker of inflation 1.5 and floor 4, for bands that are shown or acted on.

        Use a kernel that is fixed in advance: with a model that is refitted in every round
        a search would explore for too long.
        """
        return cls(inflation=1.5, floor=4.0)

    def observe(
        self,
        model: Model | KernelRegression,
        noise_std: float | None = None,
        delta: float = 0.05,
        fit: ClosedForm = "filters",
        covariance_scale: CovarianceScale | None = None,
    ) -> float:
        r"""Update with a model's data; return the norm bound, outcome units.

        Arguments as for ``least_consistent_norm``.

        Raises:
            ValueError: If earlier outcomes were on another scale.
        """
        probability("delta", delta)
        regression = KernelRegression.of(model, noise_std)
        fitted = data_fit(fit_of(fit, covariance_scale), regression, delta)
        self.estimate(*for_least_norm(fitted).constraint)
        return self.norm_bound

    def estimate(self, regression: RidgeState, radius: Radius) -> NormBound:
        r"""Update the estimate with data and the radius of their fit.

        Where no norm is consistent with the data (the noise scale is too small), the norm
        of the posterior mean takes the place of the least consistent norm.
        """
        outcomes = regression.outcome_map.same_as(self.outcomes)
        centre, scale = least_norm(regression, radius), regression.outcome_scale
        before, least = self.estimates
        if math.isinf(centre):
            centre = ridge_norm(regression, radius.tau_ref)
        else:
            least = max(least, centre * scale)
        estimate = max(self.inflation * centre, math.hypot(centre, self.floor))
        norm = max(before, estimate * scale)
        if norm > before:
            words = "Norm bound estimated: %.4g, was %.4g (least consistent norm %.4g)."
            _LOG.info(words, norm, before, least)
        vars(self).update(estimates=(norm, least), outcomes=outcomes)
        return NormBound(norm / regression.outcome_scale, estimated_norm(norm, least))


# A number, or a tracker that estimates the norm bound (by name, or the default).
NormBoundLike = float | NormTracker | Literal["cautious"] | None


@dataclass(frozen=True)
class NearNormBall:
    r"""A norm bound for a function ``g`` near ``f``, in place of a norm bound on ``f``.

    The band is wider by ``model_error`` on both sides, and the radius of the fit (noise
    units) by up to ``model_error sqrt(n) / noise_std``; the noise scale must be known.

    Source: ours; see ``docs/mathematics.md``.

    Attributes:
        norm_bound: Bound on the RKHS norm of ``g - mean``, outcome units, or a tracker,
            ``"cautious"`` or None; for a family one for all kernels or one for each.
        model_error: Largest distance between ``f`` and ``g`` at any point, outcome units.

    Raises:
        ValueError: If ``model_error`` is not a finite number of at least 0.
    """

    norm_bound: NormBoundLike | Sequence[float] = None
    model_error: float = 0.0

    def __post_init__(self) -> None:
        error = nonnegative_scalar("model_error", self.model_error)
        object.__setattr__(self, "model_error", error)


def ball_and_error(norm_bound: Any) -> tuple[Any, float]:
    r"""The norm bound and the model error of an argument ``norm_bound``."""
    if isinstance(norm_bound, NearNormBall):
        return norm_bound.norm_bound, norm_bound.model_error
    return norm_bound, 0.0


def tracker_of(norm_bound: NormBoundLike) -> NormTracker | None:
    r"""The tracker that estimates the norm bound; None where a number was given."""
    if norm_bound is None:
        return NormTracker()
    if isinstance(norm_bound, str):
        if norm_bound != "cautious":
            raise ValueError(
                'norm_bound must be a number, a NormTracker, "cautious" or None, got '
                f"{norm_bound!r}."
            )
        return NormTracker.cautious()
    return norm_bound if isinstance(norm_bound, NormTracker) else None


def norm_source(
    norm_bound: NormBoundLike, regression: RidgeState
) -> NormBound | NormTracker:
    r"""The norm bound, or the tracker that will estimate it from data and their fit."""
    if (tracker := tracker_of(norm_bound)) is not None:
        return tracker
    given = positive_scalar("norm_bound", norm_bound)
    return NormBound(float(given) / regression.outcome_scale, given_norm(given))


def resolve_norm_bound(
    norm_bound: NormBoundLike, regression: RidgeState, radius: Radius
) -> NormBound:
    r"""The norm bound given, or its estimate from data and the radius of their fit."""
    source = norm_source(norm_bound, regression)
    return source if isinstance(source, NormBound) else source.estimate(regression, radius)


def norm_bound_under_prior(
    norm_bound: NormBoundLike, regression: KernelRegression, delta: float
) -> NormBound:
    r"""As ``resolve_norm_bound``, with the fit by a mixture of filters.

    A number below the least consistent norm is kept and marked as contradicted.
    """
    constraint = for_least_norm(data_fit("filters", regression, delta)).constraint
    return resolve_norm_bound(norm_bound, *constraint).checked(*constraint)


def given_norm(norm_bound: float) -> Assumption:
    r"""The statement for a norm bound of the user's, outcome units; or an estimate's."""
    statement = f"the RKHS norm of f - mean is at most {assumed(norm_bound)}"
    if is_estimate(norm_bound):
        return Assumption("norm", f"{statement}, which was estimated", Status.ESTIMATED)
    return Assumption("norm", statement, Status.GIVEN)


def estimated_norm(norm_bound: float, least: float) -> Assumption:
    r"""The statement for an estimate and its certified part, outcome units."""
    statement = (
        f"the RKHS norm of f - mean is at most {at_least(norm_bound)}, an estimate from "
        f"these data (ours, by no theorem); that it is at least {at_least(least)} needs "
        "only the other assumptions"
    )
    return Assumption("norm", statement, Status.ESTIMATED)
