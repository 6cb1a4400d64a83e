r"""From successes or counts and a norm bound to a set; and the least norm."""

import math
from typing import Any

import torch

from kernelucb._numerics.arrays import increasing_root
from kernelucb._numerics.checks import one_of, positive_scalar
from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.confidence.fit.radius import FitConstraint
from kernelucb.confidence.likelihood.ellipsoid import enclosing_ellipsoid, parabolas
from kernelucb.confidence.likelihood.evidence import Ratio
from kernelucb.confidence.likelihood.tangents import SOURCES, LikelihoodForm, TangentSet
from kernelucb.confidence.martingale_mixture.problem import INTERIOR, Constraints, announce
from kernelucb.confidence.norm.tracker import (
    NormBound,
    NormBoundLike,
    given_norm,
    tracker_of,
)
from kernelucb.regression.likelihood.regression import LikelihoodRegression, Mode

_LARGEST_REACH = 600.0  # of log odds or log rates
_TOLERANCE, _LOWEST = 1e-6, -30.0  # in the logarithm of the regulariser
# Regularisers, and their ratio, tried for a function of the set: the one of the least norm
# takes ten times as long.
_TRIED, _FACTOR = 6, 5.0


def likelihood_set(
    data: LikelihoodRegression,
    norm_bound: NormBoundLike,
    ratio: Ratio,
    level: float,
    form: LikelihoodForm = "ellipsoid",
) -> TangentSet:
    r"""The set of ``LikelihoodUCB``; arguments as there, ``level`` is the ratio's.

    An empty set is widened, with a warning.
    """
    one_of("form", form, *SOURCES)
    tracker, contradiction = tracker_of(norm_bound), None
    if tracker is None:
        given = positive_scalar("norm_bound", norm_bound)
        norm = NormBound(float(given), given_norm(given))
        centre = _function_within(data, level, norm.value)
    else:
        centre = least_norm_mode(data, level)
        norm = tracker.estimate(*_around(data, centre))
    assumptions = ratio.assumptions(data.outcomes.kind, data.estimated, norm.assumption)
    if centre.norm > norm.value:
        contradiction, action = _too_small(norm.value, centre.norm)
        announce(contradiction, action)
        assumptions = assumptions.with_item(contradiction)
    own = data.at(centre.weights).norm * (1.0 + INTERIOR)
    used, level = max(norm.value, own), max(level, centre.loss)
    state, radius = enclosing_ellipsoid(data, used, level, centre)
    radius = radius.beside_hidden(state.hidden_part(used))
    constraints = Constraints(radius, used, contradiction)
    return TangentSet(state, constraints, assumptions, data, level, centre, form)


def _function_within(data: LikelihoodRegression, level: float, norm: float) -> Mode:
    r"""A function of the set, or the one of the least norm that is likely enough."""
    regularizer, at = 1.0, data.most_probable
    for _ in range(_TRIED):
        likely, small = at.loss <= level, at.norm <= norm
        if likely and small:
            return at
        if not likely and not small:
            break
        regularizer *= _FACTOR if likely else 1.0 / _FACTOR
        at = data.mode(regularizer, at)
    return least_norm_mode(data, level, at)


def least_norm_mode(
    data: LikelihoodRegression, level: float, start: Mode | None = None
) -> Mode:
    r"""``argmin |f - mean|`` over functions whose losses add up to at most ``level``.

    Its losses add up to ``level`` or a little more, so no function of the set has a smaller
    norm. Where no function reaches the level that numbers can hold: the most probable one,
    with an infinite norm.

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
    if root is not None:
        slack(root + _TOLERANCE)
        norm = min(at.norm, _norm_by_tangents(data, at, level))
        if max(at.norm, norm) * float(data.variance.max().sqrt()) <= _LARGEST_REACH:
            return at._replace(norm=norm)
    return data.most_probable._replace(norm=math.inf)


def _norm_by_tangents(data: LikelihoodRegression, mode: Mode, level: float) -> float:
    r"""Lower bound on the norm of functions of the set, by the tangents at any function.

    The norm of that function where it is the one of least norm; a bound also where Newton's
    method left it a little beside.
    """
    slope = data.loss.slope(mode.latent)
    limit = level - mode.loss + float(slope @ (mode.latent - data.mean))
    length = float((slope @ data.kernel_matrix @ slope).clamp_min(1e-300).sqrt())
    return max(0.0, -limit / length)


def _around(data: LikelihoodRegression, mode: Mode) -> FitConstraint[Any]:
    r"""An ellipsoid whose least norm is that of the mode.

    Its parabolas touch the losses there, so both have the same minimiser (the conditions
    for one hold the slopes alone). It need not hold the set.
    """
    curvature = data.loss.curvature(mode.latent)
    curvature = curvature.clamp_min(1e-8 * float(curvature.max()))
    return parabolas(data, mode.latent, curvature, mode.loss)


def _too_small(norm: float, least: float) -> tuple[Assumption, str]:
    r"""A norm bound below the least norm, and what is done about it."""
    statement = (
        f"No function of norm at most {norm:.4g} makes the outcomes likely enough at this "
        f"delta: the least consistent norm is {least:.4g}. The norm bound is too small, "
        "the kernel is wrong, or the outcomes do not follow the likelihood."
    )
    action = "The bound uses the least consistent norm instead."
    if math.isinf(least):
        action = "The bound takes outcomes for possible that are less likely instead."
    return Assumption("norm", statement, Status.VIOLATED), action
