r"""From successes or counts and a norm bound to a set, and what it rests on."""

import math
from typing import Literal

from kernelucb._numerics.checks import one_of, positive_scalar
from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.confidence.geometry import INTERIOR, Constraints, announce
from kernelucb.confidence.likelihood.consistency import around, least_norm_mode
from kernelucb.confidence.likelihood.ellipsoid import enclosing_ellipsoid
from kernelucb.confidence.likelihood.evidence import Ratio
from kernelucb.confidence.likelihood.tangents import CutEllipsoid, TangentSet
from kernelucb.confidence.norm.tracker import (
    NormBound,
    NormBoundLike,
    given_norm,
    tracker_of,
)
from kernelucb.regression.likelihood.regression import LikelihoodRegression, Mode

LikelihoodForm = Literal["ellipsoid", "tangent"]
_SETS: dict[str, type[TangentSet]] = {"ellipsoid": CutEllipsoid, "tangent": TangentSet}
# Regularisers, and their ratio, tried for a function of the set: the one of the least norm
# takes ten times as long.
_TRIED, _FACTOR = 6, 5.0
_RELAXED = (
    "The bound uses the least consistent norm instead.",
    "The bound takes outcomes for possible that are less likely instead.",
)


def likelihood_set(
    data: LikelihoodRegression,
    norm_bound: NormBoundLike,
    ratio: Ratio,
    form: LikelihoodForm = "ellipsoid",
    strict: bool = False,
    level: float | None = None,
) -> TangentSet:
    r"""The set of ``LikelihoodUCB``; arguments as there.

    ``level`` is the ratio's for these data, where it is known already.

    Raises:
        InconsistentConfidenceSetError: If the set is empty and ``strict`` is set; without
            it that is a warning, and the set is widened.
    """
    kind = _SETS[one_of("form", form, *_SETS)]
    level = ratio.level(data) if level is None else level
    tracker, contradiction = tracker_of(norm_bound), None
    if tracker is None:
        given = positive_scalar("norm_bound", norm_bound)
        norm = NormBound(float(given), given_norm(given))
        least = _function_within(data, level, norm.value)
    else:
        least = least_norm_mode(data, level)
        norm = tracker.estimate(*around(data, least or data.most_probable))
    assumptions = ratio.assumptions(data.outcomes.kind, data.estimated, norm.assumption)
    centre = data.most_probable if least is None else least
    if least is None or least.norm > norm.value:
        contradiction = _too_small(norm.value, least)
        announce(contradiction, _RELAXED[least is None], strict)
        assumptions = assumptions.with_item(contradiction)
    own = data.at(centre.weights).norm * (1.0 + INTERIOR)
    used, level = max(norm.value, own), max(level, centre.loss)
    state, radius = enclosing_ellipsoid(data, used, level, centre)
    radius = radius.beside_hidden(state.hidden_part(used))
    constraints = Constraints(radius, used, contradiction)
    return kind(state, constraints, assumptions.by(kind.source), data, level, centre)


def _function_within(data: LikelihoodRegression, level: float, norm: float) -> Mode | None:
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


def _too_small(norm: float, least: Mode | None) -> Assumption:
    needed = math.inf if least is None else least.norm
    statement = (
        f"No function of norm at most {norm:.4g} makes the outcomes likely enough at this "
        f"delta: the least consistent norm is {needed:.4g}. The norm bound is too small, "
        "the kernel is wrong, or the outcomes do not follow the likelihood."
    )
    return Assumption("norm", statement, Status.VIOLATED)
