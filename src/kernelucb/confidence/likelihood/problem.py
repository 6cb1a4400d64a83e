r"""The set of functions for successes or counts under a norm bound; the least norm."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics.arrays import increasing_root
from kernelucb._numerics.checks import one_of, positive_scalar
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.dual import ExactSet
from kernelucb.confidence.forms import attaining_weights
from kernelucb.confidence.likelihood.evidence import Ratio
from kernelucb.confidence.likelihood.tangents import SOURCES, LikelihoodForm, TangentSet
from kernelucb.confidence.mixture import INTERIOR, Constraints, announce
from kernelucb.confidence.norm import (
    NormBound,
    NormBoundLike,
    given_norm,
    tracker_of,
)
from kernelucb.confidence.radius import FitConstraint, Radius
from kernelucb.confidence.sets import QueryPoints
from kernelucb.regression.likelihood.regression import LikelihoodRegression, Mode

_LARGEST_REACH = 600.0  # of log odds or log rates
_TOLERANCE, _LOWEST = 1e-6, -30.0  # in the logarithm of the regulariser
# Regularisers, and their ratio, tried for a function of the set: the one of the least norm
# takes ten times as long.
_TRIED, _FACTOR = 6, 5.0
# Of the ellipsoid; more of each narrow it by less than 2 % at 1000 outcomes, by less at
# fewer.
_PASSES, _PLACES, _WITNESSES = 3, 17, 32
# Round-off of a curvature; and the least one that is told from zero beside the largest.
_ROUNDING, _LEAST_SHARE = 1e-12, 1e-14
_UNSAID = Assumptions("", "", False, ())


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

    The losses of the minimiser add up to ``level`` or a little more, so no function of the
    set has a smaller norm. If no function that numbers can hold reaches the level: the most
    probable function, with an infinite norm.

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


def _around(data: LikelihoodRegression, mode: Mode) -> FitConstraint:
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


@torch.no_grad()
def enclosing_ellipsoid(
    data: LikelihoodRegression, norm: float, level: float, centre: Mode
) -> FitConstraint:
    r"""An ellipsoid around ``{f : |f - mean| <= norm, sum_i l_i(f) <= level}``.

    Each pass puts parabolas below the losses, over the range of values at the data that the
    previous pass left, so every pass gives a valid ellipsoid. Each parabola touches its
    loss where it is closest to the loss for functions that attain the bounds of the
    previous pass.

    Source: ours; proven in ``docs/mathematics.md``.

    Args:
        data: The outcomes.
        norm: Norm bound, prior units.
        level: Largest sum of the losses.
        centre: Where the first parabolas touch.
    """
    reach = norm * data.variance.sqrt()
    allowed = Range(data.mean - reach, data.mean + reach)
    touch = allowed.clamp(centre.latent)
    found = _below(data, touch, allowed, level)
    for _ in range(_PASSES - 1):
        band, witnesses, slopes = _band(data, found, norm)
        allowed = allowed.within(band)
        touch = _contacts(data, allowed, witnesses, slopes, allowed.clamp(centre.latent))
        found = _below(data, touch, allowed, level)
    return found


class Range(NamedTuple):
    r"""Where the latent values at the ``u`` inputs lie, for every function of the set."""

    lower: Tensor
    upper: Tensor

    def within(self, other: "Range") -> "Range":
        r"""What both allow; a single point where they do not overlap."""
        lower = torch.maximum(self.lower, other.lower)
        return Range(lower, torch.minimum(self.upper, other.upper).clamp_min(lower))

    def clamp(self, latent: Tensor) -> Tensor:
        r"""Values moved into the range."""
        return torch.minimum(torch.maximum(latent, self.lower), self.upper)


def parabolas(
    data: LikelihoodRegression, latent: Tensor, curvature: Tensor, level: float
) -> FitConstraint:
    r"""All functions whose parabolas add up to at most ``level``.

    These touch the losses at ``u`` latent values. ``sum_i c_i (f_i - y_i)^2 <= 2 (level -
    sum_i l_i) + sum_i l'_i^2 / c_i`` with the pseudo-outcomes ``y``.
    """
    state = data.linearised(latent, curvature)
    slope, tau_ref = data.loss.slope(latent), 1.0
    slack = 2.0 * (level - float(data.loss.value(latent).sum()))
    squared = slack + float((slope.square() / curvature).sum())
    radius = Radius(tau_ref, squared - float(state.quadratic_form(tau_ref)))
    return FitConstraint(state, radius)


def _below(
    data: LikelihoodRegression, latent: Tensor, allowed: Range, level: float
) -> FitConstraint:
    r"""By the parabolas of largest curvature that lie below the losses within a range.

    See ``Loss.least_secant``. By round-off they may lie above by a little, which is added.
    """
    secant = data.loss.least_secant(latent, *allowed) * (1.0 - _ROUNDING)
    largest = torch.maximum(secant.max(), 1.0 / data.variance.max().clamp_min(1e-300))
    curvature = secant.clamp_min(_LEAST_SHARE * float(largest))
    farthest = torch.maximum(latent - allowed.lower, allowed.upper - latent)
    above = 0.5 * float(((curvature - secant) * farthest.square()).sum())
    return parabolas(data, latent, curvature, level + above)


def _band(
    data: LikelihoodRegression, found: FitConstraint, norm: float
) -> tuple[Range, Tensor, Tensor]:
    r"""Where the values at the data lie, of functions in the ellipsoid of at most the norm.

    Then ``w x u`` values of functions that attain these bounds at some inputs, and ``w``
    slopes there of outcomes in the latent value.
    """
    state = found.regression
    band = ExactSet(state, Constraints(found.radius, norm, None), _UNSAID)
    centre = state.project_inputs(data.distinct_inputs)
    points = QueryPoints(centre, centre)
    lower, upper = (sign * band.support(points, sign).value for sign in (-1, 1))
    some = torch.zeros(len(data.mean), dtype=torch.bool, device=data.mean.device)
    some[:: -(-len(some) // _WITNESSES)] = True
    chosen = points.rows(some)
    weights = [attaining_weights(band, chosen, sign)[0] for sign in (-1, 1)]
    witnesses = data.mean + torch.cat(weights) @ centre.features.mT
    own = Range(data.mean + lower, data.mean + upper)
    with torch.enable_grad():
        ends = torch.cat([own.lower[some], own.upper[some]]).requires_grad_()
        outcomes = data.prior.outcome_map.inverse(ends).sum()
        (slopes,) = torch.autograd.grad(outcomes, ends)
    return own, witnesses, slopes


def _contacts(
    data: LikelihoodRegression,
    allowed: Range,
    witnesses: Tensor,
    slopes: Tensor,
    otherwise: Tensor,
) -> Tensor:
    r"""For each observation the point of contact that is best for the witnesses.

    That is where the losses lie least above the parabola, in sum over the witnesses, each
    by how much its bound moves the outcome, among equally spaced places in the range;
    ``otherwise`` where none gives finite numbers.
    """
    loss = data.loss
    shares = torch.linspace(0.0, 1.0, _PLACES).to(witnesses).unsqueeze(-1)
    latent = torch.lerp(*allowed, shares)
    # Sums over the witnesses of powers of how far they are from the middle of the range.
    middle = 0.5 * (allowed.lower + allowed.upper)
    steps = allowed.clamp(witnesses) - middle
    total, first, second = slopes.sum(), slopes @ steps, slopes @ steps.square()
    shift = latent - middle
    tangents = loss.value(latent) * total + loss.slope(latent) * (first - shift * total)
    squares = second - 2.0 * shift * first + shift.square() * total
    below = tangents + 0.5 * loss.least_secant(latent, *allowed) * squares
    found, place = below.nan_to_num(nan=-torch.inf, posinf=-torch.inf).max(0)
    chosen = latent.gather(0, place.unsqueeze(0)).squeeze(0)
    return torch.where(torch.isfinite(found), chosen, otherwise)
