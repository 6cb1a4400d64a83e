r"""Do successes or counts contradict the norm bound or the kernel?"""

from typing import Literal

from kernelucb.confidence.fit.mixture import CovarianceScale, covariance_scales
from kernelucb.confidence.likelihood.evidence import log_evidence
from kernelucb.confidence.likelihood.least import least_norm_at
from kernelucb.confidence.likelihood.problem import LIKELIHOOD_SCALES, Ratio
from kernelucb.regression.likelihood.regression import LikelihoodRegression

# Covariance scales of the evidence: log odds and log rates from small to very large.
_SCALES = (0.125, 1.0, 8.0, 64.0, 512.0)


def least_likely_norm(
    data: LikelihoodRegression, delta: float, covariance_scale: CovarianceScale | None
) -> float:
    r"""Least norm of a function in the likelihood-ratio set, anytime; latent units."""
    scale = LIKELIHOOD_SCALES if covariance_scale is None else covariance_scale
    level = Ratio(delta, covariance_scale=scale).level(data)
    return least_norm_at(data, level)


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
    scales = covariance_scales(_SCALES)
    base = log_evidence(data, scales)
    shorter = map(data.with_shorter_lengthscales, lengthscale_factors)
    gains = [log_evidence(each, scales) - base for each in shorter if each is not None]
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
