r"""The least RKHS norm that is consistent with the data."""

import math

from botorch.models.model import Model
from scipy.optimize import brentq
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, probability
from kernelucb.confidence.martingale_mixture.radius import Radius, mixture_radius
from kernelucb.regression import KernelRegression

_BRACKET_DECADES = 40


def least_consistent_norm(
    model: Model,
    noise_std: float | Tensor | None = None,
    delta: float = 0.05,
    covariance_scale: float = 1.0,
) -> float:
    r"""Certified lower bound on the RKHS norm of ``f - mean``, anytime.

    The smallest norm of a function within the martingale-mixture radius of the data. With
    probability ``1 - delta``, for all rounds at once, the true norm is at least this, so a
    smaller ``norm_bound`` is contradicted by the data.

    Source: the confidence set of Flynn & Reeb (2024), Lemma 4.2, minimised over the norm.
    Assumes conditionally sub-Gaussian noise and a kernel and mean fixed in advance.

    Args:
        model: A single-output exact GP, or a ``KernelRegression``.
        noise_std: Noise scale in outcome units, from the likelihood when absent.
        delta: Failure probability.
        covariance_scale: Scale ``c`` of the mixture.

    Returns:
        The norm in outcome units, for ``model.covar_module`` as it stands. Zero when the
        data say nothing; infinity when no norm is enough (``noise_std`` is too small).
    """
    probability("delta", delta)
    positive_scalar("covariance_scale", covariance_scale)
    regression = KernelRegression.of(model, noise_std)
    radius = mixture_radius(regression, delta, covariance_scale)
    return least_norm(regression, radius) * regression.outcome_scale


def least_norm(regression: KernelRegression, radius: Radius) -> float:
    r"""``min ||f - m||`` subject to the fit, in prior units.

    The minimiser is a ridge estimate; its regulariser solves
    ``sum (tau z / (lam + tau))^2 = radius^2``, whose left side increases in ``tau``.
    """

    def surplus_misfit(log_tau: float) -> float:
        return _misfit(regression, math.exp(log_tau)) - squared

    squared = radius.squared(regression)
    if float(regression.targets.square().sum()) <= squared:
        return 0.0
    start = math.log(regression.resolution)
    if surplus_misfit(start) >= 0.0:
        return math.inf
    log_tau = brentq(surplus_misfit, start, _upper_end(surplus_misfit, start), xtol=1e-13)
    return math.sqrt(_squared_norm(regression, math.exp(log_tau)))


def least_misfit(regression: KernelRegression, norm: float) -> float:
    r"""``min ||f_w - y_w||^2`` over functions of at most the given norm (prior units)."""

    def surplus_norm(log_tau: float) -> float:
        return norm**2 - _squared_norm(regression, math.exp(log_tau))

    start = math.log(regression.resolution)
    if surplus_norm(start) >= 0.0:
        return _misfit(regression, math.exp(start))
    log_tau = brentq(surplus_norm, start, _upper_end(surplus_norm, start), xtol=1e-13)
    return _misfit(regression, math.exp(log_tau))


def _misfit(regression: KernelRegression, tau: float) -> float:
    residual = tau * regression.targets / (regression.eigenvalues + tau)
    return float(residual.square().sum())


def _squared_norm(regression: KernelRegression, tau: float) -> float:
    weights = regression.targets / (regression.eigenvalues + tau)
    return float((regression.eigenvalues * weights.square()).sum())


def _upper_end(increasing, start: float) -> float:
    r"""A point right of ``start`` where an increasing function is above zero."""
    end = start
    for _ in range(_BRACKET_DECADES):
        end += math.log(10.0)
        if increasing(end) > 0.0:
            return end
    return end
