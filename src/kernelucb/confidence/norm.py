r"""The RKHS norm: its least consistent value, bounds and estimates."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.arrays import increasing_root
from kernelucb._numerics.checks import (
    finite_scalar,
    nonnegative_scalar,
    positive_scalar,
    probability,
)
from kernelucb._numerics.digits import assumed, at_least
from kernelucb._numerics.estimates import Estimate, Number
from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.confidence.filters import Appraisal, Array
from kernelucb.confidence.fit import ClosedForm, DataFit, data_fit, fit_of
from kernelucb.confidence.radius import CovarianceScale, FitConstraint, Radius
from kernelucb.data import KernelRegression, RidgeState

_ROOT = 1e-13  # tolerance of the least norm, in ln(tau)
_NEAR = 1e-3  # of the weights for it, in ln(tau): any weights are valid
# Steps towards the weights for it; more of them raise it by less than 0.1 %.
_STEPS = 2
_NEGLIGIBLE = 1e-5  # squared noise units that round-off may hide without a correction
_RESOLVED = 1e-3  # relative tolerance of the least norm where round-off hides more
_START = 1e-6  # a small norm, prior units, from which a search goes up
_FACTOR = 4.0  # by which it goes up
_LITTLE = 0.01  # share of a radius that round-off may hide of a least norm with a meaning


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
    return Estimate(for_least_norm(fitted)[1] * regression.outcome_scale)


class _Ridge(NamedTuple):
    r"""Ridge estimates in the eigenbasis, from eigenvalues and squared targets."""

    lam: Array
    squares: Array
    cutoff: float  # the smallest regulariser

    @classmethod
    def of(cls, regression: RidgeState) -> "_Ridge":
        targets = regression.targets.cpu().numpy()
        lam = regression.eigenvalues.cpu().numpy()
        return cls(lam, targets**2, regression.eigenvalue_cutoff)

    def norm(self, tau: float) -> float:
        r"""``||f - m||``, prior units."""
        shares = 1.0 / (self.lam + tau)
        return math.sqrt(float((self.lam * self.squares) @ (shares * shares)))

    def misfit(self, tau: float) -> float:
        r"""Squared distance from the data, noise units; it increases in ``tau``."""
        left = 1.0 / (self.lam / tau + 1.0)  # no power: NumPy's is ten times as slow
        return float(self.squares @ (left * left))

    def least_regularizer(
        self, squared_radius: float, start: float, tolerance: float = _ROOT
    ) -> float | None:
        r"""Regulariser ``tau`` of the function of least norm, by its squared radius.

        Infinite where the zero function fits, None where no function fits.
        """
        if float(self.squares.sum()) <= squared_radius:
            return math.inf
        root = increasing_root(
            lambda log_tau: self.misfit(math.exp(log_tau)) - squared_radius,
            math.log(start),
            math.log(self.cutoff),
            tolerance,
        )
        return None if root is None else math.exp(root)


def least_norm(regression: RidgeState, radius: Radius) -> float:
    r"""``min ||f - m||`` subject to the fit, in prior units.

    Ours: the minimiser is a ridge estimate; its regulariser solves
    ``sum (tau z / (lam + tau))^2 = radius^2``, whose left side increases in ``tau``.
    """
    ridge, squared = _Ridge.of(regression), radius.squared(regression)
    tau = ridge.least_regularizer(squared, max(radius.tau_ref, ridge.cutoff))
    return math.inf if tau is None else ridge.norm(tau)


def least_misfit(regression: RidgeState, norm: float) -> float:
    r"""``min ||f_w - y_w||^2`` over functions of at most the given norm (prior units)."""
    ridge, lowest = _Ridge.of(regression), math.log(regression.eigenvalue_cutoff)
    root = increasing_root(
        lambda log_tau: norm - ridge.norm(math.exp(log_tau)), lowest, lowest, _ROOT
    )
    return ridge.misfit(math.exp(lowest if root is None else root))


def is_resolved(regression: RidgeState, norm: float, squared_radius: float) -> bool:
    r"""Whether round-off hides little of functions of a given norm (prior units).

    A least norm that is not resolved says only that no function of the kernel explains the
    outcomes; its size has no meaning.
    """
    hidden = norm * math.sqrt(regression.eigenvalue_cutoff)
    return hidden <= _LITTLE * math.sqrt(squared_radius)


def for_least_norm(fit: DataFit) -> tuple[FitConstraint, float]:
    r"""Weigh a fit so that the least consistent norm is large: constraint and norm.

    For a mixture of filters the weights are chosen by the residuals of the function of
    least norm; members that are tied to a norm bound get no weight.
    """
    if isinstance(fit, FitConstraint):
        return fit, least_norm(*fit)
    lam, squares, cutoff = _Ridge.of(fit.regression)
    start = cutoff

    def appraise(weights: Array) -> Appraisal:
        nonlocal start
        values, squared_radius, decisive_share = fit.ellipsoid(weights)
        counted = _Ridge(values * lam, values * squares, cutoff)
        found = counted.least_regularizer(squared_radius, start, _NEAR)
        tau = cutoff if found is None else found
        least = math.inf if found is None else counted.norm(tau)
        start = start if math.isinf(tau) else tau
        residuals = decisive_share * squares * (values * lam / tau + 1.0) ** -2
        log_weights = fit.log_weights(residuals)
        # Tied members are of the norm bound, which the least norm is to be compared with.
        log_weights[fit.num_untied :] = -math.inf
        return Appraisal(-least, log_weights, 1.0 if math.isinf(tau) else tau)

    return _resolved(fit.constraint(*fit.search(appraise, _STEPS)))


def _resolved(
    constraint: FitConstraint,
) -> tuple[FitConstraint, float]:
    r"""The constraint widened for round-off, and the least norm under this constraint.

    The larger the norm ``N`` of the true function, the more of the outcomes round-off may
    hide, and the smaller the norm ``L(N)`` that the outcomes then require. So the true norm
    is at least the ``N`` with ``N = L(N)``, which bisection approaches from below. Where no
    ridge estimate above the cut-off fits, the least norm is that of the closest estimate,
    except where repeated outcomes alone misfit by too much.
    """
    regression, radius = constraint
    squared, upper = radius.squared(regression), least_norm(*constraint)
    shows = math.isinf(upper) or regression.hidden_part(upper) > _NEGLIGIBLE
    if not shows or regression.scatter > squared:
        return constraint, upper

    def needed(norm: float) -> float:
        return least_norm(*constraint.beside_hidden(norm))

    used, least, lower = upper, needed(upper), 0.0
    if math.isinf(upper) and math.isfinite(least):
        used = upper = max(least, _START)
        while (least := needed(upper)) > upper:
            lower, upper = upper, _FACTOR * upper
        used = upper
    lower = max(lower, least)
    while lower < (1.0 - _RESOLVED) * upper and upper > _START:
        middle = math.sqrt(max(lower, _START * upper) * upper)  # the geometric mean
        least = needed(middle)
        if least > middle:
            lower = middle
        else:
            used = upper = middle
            lower = max(lower, least)
    if math.isfinite(lower):
        resolved = is_resolved(regression, lower, squared)
        return constraint.beside_hidden(used) if resolved else constraint, lower
    misfit = (1.0 + _NEGLIGIBLE) * least_misfit(regression, math.inf)
    wider = FitConstraint(regression, Radius.of(misfit, regression, radius.tau_ref))
    return wider, least_norm(*wider)


_LOG = logging.getLogger(__name__)
# Chosen by measurement: docs/results/practical.md; for the cautious ones the study `norm`
# of docs/results/retired.md.
DEFAULT_INFLATION, DEFAULT_FLOOR = 1.0, 2.0


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
        self.norm_bound = self.least_consistent_norm = Estimate(0.0)
        self.outcomes: str | None = None

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
    ) -> Estimate:
        r"""Update with a model's data; return the norm bound, outcome units.

        Arguments as for ``least_consistent_norm``.

        Raises:
            ValueError: If earlier outcomes were on another scale.
        """
        probability("delta", delta)
        regression = KernelRegression.of(model, noise_std)
        fitted = data_fit(fit_of(fit, covariance_scale), regression, delta)
        self.estimate(*for_least_norm(fitted)[0])
        return self.norm_bound

    def estimate(self, regression: RidgeState, radius: Radius) -> NormBound:
        r"""Update the estimate with data and the radius of their fit.

        Where no norm is consistent with the data (the noise scale is too small), the norm
        of the posterior mean takes the place of the least consistent norm.
        """
        # First what may be refused, then the new state: a refused call changes nothing.
        outcomes = regression.outcome_map.same_as(self.outcomes)
        centre, scale = least_norm(regression, radius), regression.outcome_scale
        before, least = float(self.norm_bound), float(self.least_consistent_norm)
        if math.isinf(centre):
            centre = _Ridge.of(regression).norm(radius.tau_ref)
        else:
            least = max(least, centre * scale)
        estimate = max(self.inflation * centre, math.hypot(centre, self.floor))
        norm = max(before, estimate * scale)
        if norm > before:
            words = "Norm bound estimated: %.4g, was %.4g (least consistent norm %.4g)."
            _LOG.info(words, norm, before, least)
        self.outcomes, self.norm_bound = outcomes, Estimate(norm)
        self.least_consistent_norm = Estimate(least)
        return NormBound(norm / scale, estimated_norm(norm, least))


# A number, or a tracker that estimates the norm bound (by name, or the default).
NormBoundLike = Number | NormTracker | Literal["cautious"] | None


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

    norm_bound: NormBoundLike | Sequence[Number] = None
    model_error: Number = 0.0

    def __post_init__(self) -> None:
        nonnegative_scalar("model_error", self.model_error)


def ball_and_error(norm_bound: Any) -> tuple[Any, Any]:
    r"""Split an argument ``norm_bound`` into the norm bound and the model error."""
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


def given_bound(norm_bound: Any, regression: RidgeState) -> NormBound:
    r"""A norm bound of the user's, outcome units, for data."""
    given = positive_scalar("norm_bound", norm_bound)
    return NormBound(given / regression.outcome_scale, given_norm(norm_bound))


def resolve_norm_bound(
    norm_bound: NormBoundLike, regression: RidgeState, radius: Radius
) -> NormBound:
    r"""The norm bound given, or its estimate from data and the radius of their fit."""
    if (tracker := tracker_of(norm_bound)) is not None:
        return tracker.estimate(regression, radius)
    return given_bound(norm_bound, regression)


def norm_bound_under_prior(
    norm_bound: NormBoundLike, regression: KernelRegression, delta: float
) -> NormBound:
    r"""A norm bound, given or estimated with the fit by a mixture of filters.

    A number below the least consistent norm is kept and marked as contradicted.
    """
    constraint, _ = for_least_norm(data_fit("filters", regression, delta))
    return resolve_norm_bound(norm_bound, *constraint).checked(*constraint)


def given_norm(norm_bound: Number) -> Assumption:
    r"""The statement for a norm bound of the user's, outcome units; or an estimate's."""
    statement = f"the RKHS norm of f - mean is at most {assumed(norm_bound)}"
    if isinstance(norm_bound, Estimate):
        return Assumption("norm", f"{statement}, which was estimated", Status.ESTIMATED)
    return Assumption("norm", statement, Status.GIVEN)


def estimated_norm(norm_bound: Number, least: Number) -> Assumption:
    r"""The statement for an estimate and its certified part, outcome units."""
    statement = (
        f"the RKHS norm of f - mean is at most {at_least(norm_bound)}, an estimate from "
        f"these data (ours, by no theorem); that it is at least {at_least(least)} needs "
        "only the other assumptions"
    )
    return Assumption("norm", statement, Status.ESTIMATED)


def near(item: Assumption, model_error: Number) -> Assumption:
    r"""The assumption on the norm of a function within ``model_error`` of ``f``."""
    words = item.statement.replace("f - mean", "g - mean")
    statement = f"f is everywhere within {assumed(model_error)} of a function g; {words}"
    status = item.status
    if isinstance(model_error, Estimate) and status is Status.GIVEN:
        status = Status.ESTIMATED
    return replace(item, statement=statement, status=status)
