r"""From successes or counts and a norm bound to a set, and what it rests on."""

import math
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import torch

from kernelucb._numerics.checks import positive_scalar
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.fit.mixture import CovarianceScale, covariance_scales
from kernelucb.confidence.geometry import (
    INTERIOR,
    Constraints,
    announce,
)
from kernelucb.confidence.likelihood.convex import LikelihoodSet
from kernelucb.confidence.likelihood.cuts import CutEllipsoid
from kernelucb.confidence.likelihood.ellipsoid import enclosing_ellipsoid
from kernelucb.confidence.likelihood.evidence import log_evidence
from kernelucb.confidence.likelihood.least import around, least_norm_mode
from kernelucb.confidence.likelihood.prequential import PREDICTED, PrequentialLikelihood
from kernelucb.confidence.likelihood.search import SearchedSet
from kernelucb.confidence.likelihood.tangents import TangentSet
from kernelucb.confidence.norm.tracker import (
    NormBound,
    NormBoundLike,
    given_norm,
    tracker_of,
)
from kernelucb.confidence.statements import Knowledge, rkhs_assumptions
from kernelucb.regression import KernelRegression
from kernelucb.regression.likelihood.outcomes import Likelihood
from kernelucb.regression.likelihood.regression import LikelihoodRegression, Mode

Evidence = Literal["elbo"] | PrequentialLikelihood
LikelihoodForm = Literal["ellipsoid", "tangent", "convex"]
LIKELIHOOD_SCALES = tuple(4.0**power for power in range(-2, 3))
SETS: dict[LikelihoodForm, type[TangentSet]] = {
    "ellipsoid": CutEllipsoid,
    "tangent": SearchedSet,
    "convex": LikelihoodSet,
}

_MIXED = "Likelihood ratio with a mixture (Emmenegger et al. 2023), evidence bounded (ours)"
_PREDICTED = "Likelihood ratio with predictions one step ahead (Emmenegger et al. 2023)"
_OUTCOMES: dict[Likelihood, str] = {
    "bernoulli": "is 1 with probability sigmoid(f(x)), else 0",
    "binomial": "is a number of successes, each with probability sigmoid(f(x)), in a "
    "number of trials that was fixed before",
    "poisson": "is a Poisson count of mean exposure * exp(f(x)), with an exposure that was "
    "fixed before",
}
# Prior weight of values at each input that no kernel connects: 0.1 nats for the others.
_INDEPENDENT = 0.1
# Regularisers, and their ratio, tried for a function of the set: that of the least norm
# takes ten times as long.
_TRIED, _FACTOR = 6, 5.0
_RELAXED = (
    "The bound uses the least consistent norm instead.",
    "The bound takes outcomes for possible that are less likely instead.",
)
_REPORTED = Assumption(
    "outcomes",
    "outcomes are not changed after they were observed, their trials or exposures were "
    "fixed before, and whether and when one is reported does not depend on what it is",
    Status.GIVEN,
)


class LikelihoodProblem(NamedTuple):
    r"""What a likelihood-ratio set is made of.

    Attributes:
        data: The outcomes.
        level: Largest sum of the losses.
        regression: Pseudo-outcomes whose ellipsoid holds the set.
        constraints: Fit of these and norm constraint, widened where the set was empty.
        centre: A function of the set.
        assumptions: What the set rests on.
    """

    data: LikelihoodRegression
    level: float
    regression: KernelRegression
    constraints: Constraints
    centre: Mode
    assumptions: Assumptions


class Ratio(NamedTuple):
    r"""How large the likelihood of the true function is, in place of a fit.

    Attributes:
        delta: Failure probability.
        evidence: ``"elbo"`` or predictions.
        covariance_scale: Of the mixture of the former.
    """

    delta: float
    evidence: Evidence = "elbo"
    covariance_scale: CovarianceScale = LIKELIHOOD_SCALES

    def level(self, data: LikelihoodRegression) -> float:
        r"""Largest sum of the losses of the true function, anytime.

        Source: ours for the bound on the evidence; Ville's inequality, see
        ``docs/mathematics.md``.
        """
        if isinstance(self.evidence, PrequentialLikelihood):
            bound = self.evidence.loss_bound(data)
        else:
            bound = -self._mixed(data)
        return bound + math.log(1.0 / self.delta)

    def _mixed(self, data: LikelihoodRegression) -> float:
        r"""Log-evidence of Gaussian processes, and of values that no kernel connects.

        The latter is what finds out a kernel that is too smooth.
        """
        connected = log_evidence(data, covariance_scales(self.covariance_scale))
        independent = data.loss.log_independent(data.mean)
        if independent is None:
            return connected
        shares = math.log1p(-_INDEPENDENT), math.log(_INDEPENDENT)
        return float(np.logaddexp(shares[0] + connected, shares[1] + independent))

    def assumptions(
        self, likelihood: Likelihood, estimated: frozenset[str], norm: Assumption
    ) -> Assumptions:
        r"""What a set rests on; ``norm`` says where its norm bound comes from.

        ``estimated`` says which of ``"kernel"`` and ``"mean"`` were fitted to the data.
        """
        predicted = isinstance(self.evidence, PrequentialLikelihood)
        known = Knowledge(estimated, torch.ones(1))
        source = _PREDICTED if predicted else _MIXED
        assumptions = rkhs_assumptions(source, known, self.delta, norm)
        statement = f"given the past, the outcome at x {_OUTCOMES[likelihood]}"
        own = {
            "noise": Assumption("likelihood", statement, Status.GIVEN),
            "outcomes": _REPORTED,
        }
        items = tuple(own.get(item.name, item) for item in assumptions.items)
        assumptions = replace(assumptions, items=items)
        return assumptions.with_extra(PREDICTED) if predicted else assumptions


def likelihood_problem(
    data: LikelihoodRegression,
    norm_bound: NormBoundLike,
    ratio: Ratio,
    strict: bool,
    level: float | None = None,
) -> LikelihoodProblem:
    r"""The problem of ``LikelihoodUCB``; arguments as there.

    ``level`` is that of the ratio for these data, where it is known already.

    Raises:
        InconsistentConfidenceSetError: If the set is empty and ``strict`` is set; without
            it that is a warning.
    """
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
    return LikelihoodProblem(data, level, state, constraints, centre, assumptions)


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


def likelihood_set(
    problem: LikelihoodProblem, form: LikelihoodForm = "ellipsoid"
) -> TangentSet:
    r"""The set of a problem, bounded in the form asked for."""
    kind = SETS[form]
    own = problem.regression, problem.constraints, problem.assumptions.by(kind.source)
    return kind(*own, problem.data, problem.level, problem.centre)


def _too_small(norm: float, least: Mode | None) -> Assumption:
    needed = math.inf if least is None else least.norm
    statement = (
        f"No function of norm at most {norm:.4g} makes the outcomes likely enough at this "
        f"delta: the least consistent norm is {needed:.4g}. The norm bound is too small, "
        "the kernel is wrong, or the outcomes do not follow the likelihood."
    )
    return Assumption("norm", statement, Status.VIOLATED)
