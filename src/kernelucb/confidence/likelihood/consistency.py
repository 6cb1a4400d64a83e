r"""The least norm under which successes or counts are likely enough."""

import math

import torch

from kernelucb._numerics.roots import increasing_root
from kernelucb.confidence.fit.mixture import FitConstraint
from kernelucb.confidence.likelihood.ellipsoid import Parabolas
from kernelucb.regression import KernelRegression
from kernelucb.regression.likelihood.regression import LikelihoodRegression, Mode

_LARGEST_REACH = 600.0  # of log odds or log rates
_TOLERANCE, _LOWEST = 1e-6, -30.0  # in the logarithm of the regulariser


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


def around(data: LikelihoodRegression, mode: Mode) -> FitConstraint[KernelRegression]:
    r"""An ellipsoid whose least norm is that of the mode.

    Its parabolas touch the losses there, so both have the same minimiser (the conditions
    for one hold the slopes alone). It need not hold the set.
    """
    curvature = data.loss.curvature(mode.latent)
    curvature = curvature.clamp_min(1e-8 * float(curvature.max()))
    return Parabolas(mode.latent, curvature, 0.0).fit(data, mode.loss)
