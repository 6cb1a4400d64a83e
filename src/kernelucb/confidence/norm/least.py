r"""The least RKHS norm that is consistent with the data."""

import math
from collections.abc import Callable

from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import probability
from kernelucb._numerics.roots import increasing_root
from kernelucb.confidence.fit.mixture import (
    CovarianceScale,
    Radius,
    mixture_radius,
)
from kernelucb.regression import KernelRegression, RidgeState


@checked
def least_consistent_norm(
    model: Model,
    noise_std: float | Tensor | None = None,
    delta: float = 0.05,
    covariance_scale: CovarianceScale = 1.0,
) -> float:
    r"""Lower bound on the RKHS norm of ``f - mean``, anytime.

    The smallest norm of a function within the martingale-mixture radius of the data. Where
    kernel, mean and noise scale were given and are right, the true norm is at least this
    with probability ``1 - delta``, for all rounds at once, and a smaller ``norm_bound`` is
    contradicted by the data. Where they were fitted to the same data, it is an estimate.

    Source: the confidence set of Flynn & Reeb (2024), Lemma 4.2, minimised over the norm.
    Assumes conditionally sub-Gaussian noise, a kernel and mean fixed in advance, and
    outcomes that are reported whatever their noise.

    Args:
        model: A single-output exact GP, or a ``KernelRegression``.
        noise_std: Noise scale in outcome units, from the likelihood when absent.
        delta: Failure probability.
        covariance_scale: Scale ``c`` of the mixture, several, or ``"mixture"``.

    Returns:
        The norm in outcome units, for ``model.covar_module`` as it stands. Zero when the
        data say nothing; infinity when no norm is enough (``noise_std`` is too small).
    """
    probability("delta", delta)
    regression = KernelRegression.of(model, noise_std)
    radius = mixture_radius(regression, delta, covariance_scale)
    return least_norm(regression, radius) * regression.outcome_scale


def least_norm(regression: RidgeState, radius: Radius) -> float:
    r"""``min ||f - m||`` subject to the fit, in prior units.

    Ours: the minimiser is a ridge estimate; its regulariser solves
    ``sum (tau z / (lam + tau))^2 = radius^2``, whose left side increases in ``tau``.
    """

    def misfit_slack(log_tau: float) -> float:
        return _misfit(regression, math.exp(log_tau)) - squared

    squared = radius.squared(regression)
    if float(regression.targets.square().sum()) <= squared:
        return 0.0
    tau = _root(misfit_slack, regression.eigenvalue_cutoff)
    return math.inf if tau is None else ridge_norm(regression, tau)


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
