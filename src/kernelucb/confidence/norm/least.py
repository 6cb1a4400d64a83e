r"""The least RKHS norm that is consistent with the data."""

import math
from typing import Any, NamedTuple

from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.arrays import increasing_root
from kernelucb._numerics.checks import nonnegative_scalar, probability
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.confidence.fit.choice import ClosedForm, DataFit, data_fit, fit_of
from kernelucb.confidence.fit.filters import Appraisal, Array
from kernelucb.confidence.fit.radius import CovarianceScale, FitConstraint, Radius
from kernelucb.regression import KernelRegression, RidgeState
from kernelucb.regression.exact import FilteredRegression

# Tolerances in ln(tau): of the least norm, and of the weights for it.
_ROOT, _NEAR = 1e-13, 1e-3
# Steps towards the weights for it; more of them raise it by less than 0.1 %.
_STEPS = 2
# Part of a squared radius, noise units, that round-off may hide without a correction; where
# round-off hides more, the relative tolerance of the least norm; a small norm, prior units,
# and a factor for a search.
_NEGLIGIBLE, _RESOLVED, _START, _FACTOR = 1e-5, 1e-3, 1e-6, 4.0
_LITTLE = 0.01  # of a radius


def least_consistent_norm(
    model: Model,
    noise_std: float | Tensor | None = None,
    *,
    delta: float = 0.05,
    fit: ClosedForm = "filters",
    covariance_scale: CovarianceScale | None = None,
    model_error: float = 0.0,
) -> float:
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
    return EstimatedNumber(for_least_norm(fitted).norm * regression.outcome_scale)


class LeastNorm(NamedTuple):
    r"""The constraint of a fit for which the least norm is large, and this norm."""

    constraint: FitConstraint[Any]  # the data as the fit weighs them, and the radius
    norm: float  # prior units
    fit: DataFit


class _Ridge(NamedTuple):
    r"""Ridge estimates in the eigenbasis, from eigenvalues and squared targets."""

    lam: Array
    squares: Array

    @classmethod
    def of(cls, regression: RidgeState) -> "_Ridge":
        targets = regression.targets.cpu().numpy()
        return cls(regression.eigenvalues.cpu().numpy(), targets**2)

    def norm(self, tau: float) -> float:
        r"""``||f - m||``, prior units."""
        shares = 1.0 / (self.lam + tau)
        return math.sqrt(float((self.lam * self.squares) @ (shares * shares)))

    def misfit(self, tau: float) -> float:
        r"""Squared distance from the data, noise units; it increases in ``tau``."""
        left = 1.0 / (self.lam / tau + 1.0)  # no power: NumPy's is ten times as slow
        return float(self.squares @ (left * left))

    def least_regularizer(
        self, squared_radius: float, cutoff: float, start: float, tolerance: float = _ROOT
    ) -> float | None:
        r"""Regulariser ``tau`` of the function of least norm, by its squared radius.

        Infinite where the zero function fits, None where no function fits. The search
        begins at ``start`` and ends at the ``cutoff``.
        """
        if float(self.squares.sum()) <= squared_radius:
            return math.inf
        ends = math.log(start), math.log(cutoff)
        root = increasing_root(
            lambda log_tau: self.misfit(math.exp(log_tau)) - squared_radius,
            *ends,
            tolerance,
        )
        return None if root is None else math.exp(root)


def least_norm(regression: RidgeState, radius: Radius) -> float:
    r"""``min ||f - m||`` subject to the fit, in prior units.

    Ours: the minimiser is a ridge estimate; its regulariser solves
    ``sum (tau z / (lam + tau))^2 = radius^2``, whose left side increases in ``tau``.
    """
    ridge, cutoff = _Ridge.of(regression), regression.eigenvalue_cutoff
    start = max(radius.tau_ref, cutoff)
    tau = ridge.least_regularizer(radius.squared(regression), cutoff, start)
    return math.inf if tau is None else ridge.norm(tau)


def least_misfit(regression: RidgeState, norm: float) -> float:
    r"""``min ||f_w - y_w||^2`` over functions of at most the given norm (prior units)."""
    ridge, lowest = _Ridge.of(regression), math.log(regression.eigenvalue_cutoff)
    root = increasing_root(
        lambda log_tau: norm - ridge.norm(math.exp(log_tau)), lowest, lowest, _ROOT
    )
    return ridge.misfit(math.exp(lowest if root is None else root))


def ridge_norm(regression: RidgeState, tau: float) -> float:
    r"""``||f - m||`` of the ridge estimate at ``tau``, prior units."""
    return _Ridge.of(regression).norm(tau)


def is_resolved(regression: RidgeState, norm: float, squared_radius: float) -> bool:
    r"""Whether round-off hides little of functions of a given norm (prior units).

    A least norm that is not resolved says only that no function of the kernel explains the
    outcomes; its size has no meaning.
    """
    hidden = norm * math.sqrt(regression.eigenvalue_cutoff)
    return hidden <= _LITTLE * math.sqrt(squared_radius)


def for_least_norm(fit: DataFit) -> LeastNorm:
    r"""The constraint of a fit for which the least norm is large.

    For a mixture of filters the weights are chosen by the residuals of the function of
    least norm; members that are tied to a norm bound get no weight.
    """
    if isinstance(fit, FitConstraint):
        return LeastNorm(fit, least_norm(*fit), fit)
    lam, squares = _Ridge.of(fit.regression)
    cutoff = start = fit.regression.eigenvalue_cutoff

    def appraise(weights: Array) -> Appraisal:
        nonlocal start
        values, squared_radius, decisive_share = fit.ellipsoid(weights)
        counted = _Ridge(values * lam, values * squares)
        found = counted.least_regularizer(squared_radius, cutoff, start, _NEAR)
        tau = cutoff if found is None else found
        least = math.inf if found is None else counted.norm(tau)
        start = start if math.isinf(tau) else tau
        residuals = decisive_share * squares * (values * lam / tau + 1.0) ** -2
        log_weights = fit.log_weights(residuals)
        log_weights[fit.num_untied :] = -math.inf
        return Appraisal(-least, log_weights, 1.0 if math.isinf(tau) else tau)

    return LeastNorm(*_resolved(fit.constraint(*fit.search(appraise, _STEPS))), fit)


def _resolved(
    constraint: FitConstraint[FilteredRegression],
) -> tuple[FitConstraint[FilteredRegression], float]:
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
        middle = math.sqrt(max(lower, _START * upper) * upper)
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
