r"""The least RKHS norm that is consistent with the data."""

import math
from collections.abc import Callable
from typing import Any

from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import probability
from kernelucb._numerics.roots import increasing_root
from kernelucb.confidence.fit.choice import ClosedForm, DataFit, data_fit
from kernelucb.confidence.fit.e_processes import Array
from kernelucb.confidence.fit.filters import Appraisal
from kernelucb.confidence.fit.mixture import CovarianceScale, FitConstraint, Radius
from kernelucb.regression import KernelRegression, RidgeState


@checked
def least_consistent_norm(
    model: Model,
    noise_std: float | Tensor | None = None,
    delta: float = 0.05,
    fit: ClosedForm = "filters",
    covariance_scale: CovarianceScale = 1.0,
) -> float:
    r"""Lower bound on the RKHS norm of ``f - mean``, anytime.

    The smallest norm of a function that fits the data, as the confidence set has it. Where
    kernel, mean and noise scale were given and are right, the true norm is at least this
    with probability ``1 - delta``, for all rounds at once, and a smaller ``norm_bound`` is
    contradicted by the data. Where they were fitted to the same data, it is an estimate.

    Source: the norm is minimised over the functions within the fit: a mixture of filters
    (ours), or Flynn & Reeb (2024), Lemma 4.2, for ``fit="martingale"``. Assumes
    conditionally sub-Gaussian noise, a kernel and mean fixed in advance, and outcomes that
    are reported whatever their noise.

    Args:
        model: A single-output exact GP, or a ``KernelRegression``.
        noise_std: Noise scale in outcome units, from the likelihood when absent.
        delta: Failure probability.
        fit: ``"filters"`` or ``"martingale"``; see ``MartingaleMixtureUCB``.
        covariance_scale: Scale ``c`` of the martingale mixture, several, or ``"mixture"``.

    Returns:
        The norm in outcome units, for ``model.covar_module`` as it stands. Zero when the
        data say nothing; infinity when no norm is enough (``noise_std`` is too small).
    """
    probability("delta", delta)
    regression = KernelRegression.of(model, noise_std)
    constraint = for_least_norm(data_fit(fit, regression, delta, covariance_scale))
    return least_norm(*constraint) * regression.outcome_scale


def least_norm(regression: RidgeState, radius: Radius) -> float:
    r"""``min ||f - m||`` subject to the fit, in prior units.

    Ours: the minimiser is a ridge estimate; its regulariser solves
    ``sum (tau z / (lam + tau))^2 = radius^2``, whose left side increases in ``tau``.
    """
    tau = _least_regularizer(regression, radius.squared(regression))
    return math.inf if tau is None else ridge_norm(regression, tau)


def for_least_norm(fit: DataFit) -> FitConstraint[Any]:
    r"""The constraint of a fit whose least norm is large.

    Of a mixture of filters, the weights follow the residuals of the function of least norm.
    """
    if isinstance(fit, FitConstraint):
        return fit
    e_processes, state = fit.e_processes, fit.regression

    def appraise(weights: Array) -> Appraisal:
        squared = e_processes.squared_radius(weights)
        regression = fit.filtered(weights)
        tau = _least_regularizer(regression, squared)
        ridge = regression.eigenvalue_cutoff if tau is None else tau
        least = math.inf if tau is None else ridge_norm(regression, ridge)
        residuals = state.targets / (regression.eigenvalues / ridge).add_(1.0)
        log_weights = e_processes.log_values(residuals.square().cpu().numpy())
        return Appraisal(-least, log_weights, 1.0 if math.isinf(ridge) else ridge)

    constraint = fit.best(appraise)
    return fit.resolved(constraint, least_norm(*constraint))


def _least_regularizer(regression: RidgeState, squared_radius: float) -> float | None:
    r"""Of the function of least norm; infinite where that is zero, None where none fits."""

    def misfit_slack(log_tau: float) -> float:
        return _misfit(regression, math.exp(log_tau)) - squared_radius

    if float(regression.targets.square().sum()) <= squared_radius:
        return math.inf
    return _root(misfit_slack, regression.eigenvalue_cutoff)


def least_misfit(regression: RidgeState, norm: float) -> float:
    r"""``min ||f_w - y_w||^2`` over functions of at most the given norm (prior units)."""

    def norm_slack(log_tau: float) -> float:
        return norm**2 - _squared_norm(regression, math.exp(log_tau))

    tau = _root(norm_slack, regression.eigenvalue_cutoff)
    return _misfit(regression, regression.eigenvalue_cutoff if tau is None else tau)


def ridge_norm(regression: RidgeState, tau: float) -> float:
    r"""``||f - m||`` of the ridge estimate at ``tau``, prior units."""
    return math.sqrt(_squared_norm(regression, tau))


def _misfit(regression: RidgeState, tau: float) -> float:
    residual = regression.targets / (regression.eigenvalues / tau).add_(1.0)
    return float(residual.dot(residual))


def _squared_norm(regression: RidgeState, tau: float) -> float:
    weights = regression.targets / (regression.eigenvalues + tau)
    return float((regression.eigenvalues * weights.square()).sum())


def _root(function: Callable[[float], float], cutoff: float) -> float | None:
    r"""``tau`` where an increasing function of ``ln(tau)`` is zero, if it is anywhere."""
    lowest = math.log(cutoff)
    root = increasing_root(function, lowest, lowest, 1e-13)
    return None if root is None else math.exp(root)
