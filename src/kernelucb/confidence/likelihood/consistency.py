r"""The least norm under which successes or counts are likely enough, and contradictions."""

import math
from typing import Literal

import torch

from kernelucb._numerics.roots import increasing_root
from kernelucb.confidence.fit.mixture import CovarianceScale, FitConstraint
from kernelucb.confidence.likelihood.ellipsoid import Parabolas
from kernelucb.confidence.likelihood.evidence import (
    LIKELIHOOD_SCALES,
    Ratio,
    log_evidence,
)
from kernelucb.regression import KernelRegression
from kernelucb.regression.likelihood.regression import LikelihoodRegression, Mode

_LARGEST_REACH = 600.0  # of log odds or log rates
_TOLERANCE, _LOWEST = 1e-6, -30.0  # in the logarithm of the regulariser
# Covariance scales of the evidence: log odds and log rates from small to very large.
_SCALES = (0.125, 1.0, 8.0, 64.0, 512.0)


def least_norm_mode(
    data: LikelihoodRegression, level: float, start: Mode | None = None
) -> Mode | None:
    r"""``argmin |f - mean|`` over functions whose losses add up to at most ``level``.

    Its losses add up to ``level`` or a little more, so no function of the set has a smaller
    norm. None where no function reaches the level that numbers can hold.

    Source: ours, as ``least_norm``: the minimiser is a mode, and its loss increases with
    the regulariser.
    """
    at = data.most_probable if start is None else start

    def slack(log_regularizer: float) -> float:
        nonlocal at
        at = data.mode(math.exp(log_regularizer), at)
        return at.loss - level

    if float(data.loss.value(data.mean).sum()) <= level:
        return data.at(torch.zeros_like(data.mean))
    root = increasing_root(slack, 0.0, _LOWEST, _TOLERANCE)
    if root is None:
        return None
    slack(root + _TOLERANCE)
    norm = min(at.norm, _norm_by_tangents(data, at, level))
    reach = max(at.norm, norm) * float(data.variance.max().sqrt())
    return at._replace(norm=norm) if reach <= _LARGEST_REACH else None


def _norm_by_tangents(data: LikelihoodRegression, mode: Mode, level: float) -> float:
    r"""Lower bound on the norm of functions of the set, by the tangents at any function.

    The norm of that function where it is the one of least norm; a bound also where Newton's
    method left it a little beside.
    """
    slope = data.loss.slope(mode.latent)
    limit = level - mode.loss + float(slope @ (mode.latent - data.mean))
    length = float((slope @ data.kernel_matrix @ slope).clamp_min(1e-300).sqrt())
    return max(0.0, -limit / length)


def least_norm_at(data: LikelihoodRegression, level: float) -> float:
    r"""The norm of ``least_norm_mode``; infinite where there is none."""
    least = least_norm_mode(data, level)
    return math.inf if least is None else least.norm


def least_likely_norm(
    data: LikelihoodRegression, delta: float, covariance_scale: CovarianceScale | None
) -> float:
    r"""Least norm of a function in the likelihood-ratio set, anytime; latent units."""
    scale = LIKELIHOOD_SCALES if covariance_scale is None else covariance_scale
    return least_norm_at(data, Ratio(delta, scale).level(data))


def around(data: LikelihoodRegression, mode: Mode) -> FitConstraint[KernelRegression]:
    r"""An ellipsoid whose least norm is that of the mode.

    Its parabolas touch the losses there, so both have the same minimiser (the conditions
    for one hold the slopes alone). It need not hold the set.
    """
    curvature = data.loss.curvature(mode.latent)
    curvature = curvature.clamp_min(1e-8 * float(curvature.max()))
    return Parabolas(mode.latent, curvature, 0.0).fit(data, mode.loss)


def likely_cause(
    data: LikelihoodRegression,
    least: float,
    norm_bound: float,
    lengthscale_factors: tuple[float, ...],
    gain: float,
) -> tuple[Literal["norm", "kernel"], str]:
    r"""What explains a contradiction best, and what to do about it.

    Shorter length scales, where their log-evidence is higher by ``gain`` nats, or a norm
    bound that is too small.
    """
    base = log_evidence(data, _SCALES)
    shorter = map(data.with_shorter_lengthscales, lengthscale_factors)
    gains = [log_evidence(each, _SCALES) - base for each in shorter if each is not None]
    best = max(gains, default=0.0)
    if best < gain:
        return "norm", (
            "norm_bound is too small, or the outcomes do not follow the likelihood (more "
            f"scatter than it allows): the least norm is {least:.4g} (given "
            f"{norm_bound:.4g}). Give a larger one, or none to have it estimated."
        )
    return "kernel", (
        "The kernel is too smooth for these outcomes: length scales about "
        f"{lengthscale_factors[gains.index(best)]:.2g} times shorter explain them better. "
        f"Fix a shorter one. If it is right, norm_bound must be at least "
        f"{least:.4g} (given {norm_bound:.4g})."
    )
