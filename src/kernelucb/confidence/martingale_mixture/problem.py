r"""From data, fit and norm bound to a set: its constraints, and what they rest on."""

import math
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

from kernelucb._numerics.estimates import EstimatedNumber, is_estimate
from kernelucb.confidence.assumptions import Assumptions, Status
from kernelucb.confidence.fit.choice import (
    DataFit,
    Fit,
    data_fit,
    fit_source,
    with_noise_of,
)
from kernelucb.confidence.fit.filters import ALONE, Shares
from kernelucb.confidence.fit.mixture import CovarianceScale, Radius
from kernelucb.confidence.fit.prequential import PREDICTED, PrequentialRadius
from kernelucb.confidence.geometry import (
    Constraints,
    consistent_constraints,
)
from kernelucb.confidence.near import near_the_ball
from kernelucb.confidence.norm.least import (
    LeastNorm,
    for_least_norm,
    holds_function,
    least_norm,
)
from kernelucb.confidence.norm.tracker import (
    NormBound,
    NormBoundLike,
    norm_in_prior_units,
    resolve_norm_bound,
)
from kernelucb.confidence.statements import rkhs_assumptions
from kernelucb.confidence.unknown_noise import JOINT_SOURCE, JointSet, UnknownNoise
from kernelucb.regression import KernelRegression, RidgeState
from kernelucb.regression.filtered import FilteredRegression

State = TypeVar("State", bound=RidgeState)


class MixtureProblem(NamedTuple, Generic[State]):
    r"""What a martingale-mixture set is made of.

    Attributes:
        regression: The data, whitened by the noise that the fit counts with.
        constraints: Fit and norm constraint, widened where no function satisfied both.
        least: Least consistent norm, prior units.
        assumptions: What the set rests on.
        noise_interval: Lower and upper bound on the noise scale, outcome units; None where
            the scale is known.
        model_error: How far the true function may lie from the set, outcome units.
    """

    regression: State
    constraints: Constraints
    least: float
    assumptions: Assumptions
    noise_interval: tuple[float, float] | None = None
    model_error: float = 0.0

    @property
    def norm_bound(self) -> float:
        r"""The norm bound in use, outcome units; an estimate unless it was given."""
        norm = self.constraints.norm * self.regression.outcome_scale
        return self.assumptions["norm"].number(norm)

    @property
    def least_consistent_norm(self) -> float:
        r"""Lower bound on the norm, outcome units."""
        return self.least * self.regression.outcome_scale


def mixture_problem(
    regression: State,
    radius: Radius,
    least: float,
    norm: NormBound,
    assumptions: Assumptions,
    relaxed: bool = False,
) -> MixtureProblem[State]:
    r"""The problem of a radius, the least consistent norm, and a norm bound.

    ``relaxed`` as for ``consistent_constraints``.
    """
    constraints = consistent_constraints(regression, radius, norm.value, least, relaxed)
    if constraints.contradiction is not None:
        assumptions = assumptions.with_item(constraints.contradiction)
    return MixtureProblem(
        regression, constraints, least, assumptions, model_error=norm.model_error
    )


class Appraised(NamedTuple):
    r"""A fit of the data, and the least consistent norm by it.

    Attributes:
        whole: The fit.
        least: The constraint of it that has the largest least norm, and that norm.
    """

    whole: DataFit
    least: LeastNorm

    @classmethod
    def of(
        cls,
        regression: KernelRegression,
        fit: Fit,
        delta: float,
        norm: float | None,
        model_error: float = 0.0,
        shares: Shares = ALONE,
    ) -> "Appraised":
        r"""From the data; arguments as for ``data_fit``."""
        whole = data_fit(fit, regression, delta, norm, model_error, shares)
        return cls(whole, for_least_norm(whole))


def known_noise_problem(
    regression: KernelRegression,
    norm_bound: NormBoundLike,
    fit: Fit,
    delta: float,
    appraised: Appraised | None = None,
    model_error: float = 0.0,
) -> MixtureProblem[RidgeState]:
    r"""The problem of ``MartingaleMixtureUCB``; arguments as there.

    Where a mixture of filters is contradicted, but not Flynn & Reeb's member of it (which
    takes in that the noise scale is too small), that one gives the band. ``appraised`` is
    the fit of these data, where it is known already.
    """
    regression = with_noise_of(fit, regression)
    given = norm_in_prior_units(norm_bound, regression)
    if appraised is None:
        appraised = Appraised.of(regression, fit, delta, given, model_error)
    whole, (sharpest, least) = appraised
    norm = near_the_ball(resolve_norm_bound(norm_bound, *sharpest), model_error)
    source = fit_source(fit, model_error)
    assumptions = mixture_assumptions(source, regression, fit, delta, norm)
    if given is None:
        whole = data_fit(fit, regression, delta, norm.value, model_error)
    if least > norm.value and least_norm(*whole.alone) <= norm.value:
        return mixture_problem(*whole.alone, least, norm, assumptions, True)
    band = sharpest
    if least <= norm.value:
        band = whole.for_band(norm.value)
        if not holds_function(*band, norm.value):
            band = sharpest.beside_hidden(norm.value)
    state, radius = band
    if not isinstance(state, FilteredRegression):
        radius = radius.beside_hidden(state.hidden_part(norm.value))
        least = least_norm(state, radius)
    return mixture_problem(state, radius, least, norm, assumptions)


def unknown_noise_problem(
    regression: KernelRegression,
    norm_bound: NormBoundLike,
    noise: UnknownNoise,
    delta: float,
    covariance_scale: CovarianceScale,
) -> MixtureProblem[KernelRegression]:
    r"""As ``known_noise_problem``, for a noise scale that is not known."""
    joint = JointSet.of(regression, delta, covariance_scale, noise)
    regression = joint.regression
    norm = resolve_norm_bound(norm_bound, regression, joint.radius(math.inf))
    radius = joint.radius(norm.value)
    radius = radius.beside_hidden(regression.hidden_part(norm.value))
    guarantee = (
        "holds for every point, the noise scale and every round at once with probability "
        f"{1 - delta:.6g}"
    )
    assumptions = rkhs_assumptions(
        JOINT_SOURCE, regression, delta, norm.assumption, guarantee=guarantee
    ).with_item(noise.assumption())
    least = least_norm(regression, radius)
    problem = mixture_problem(regression, radius, least, norm, assumptions)
    interval = joint.noise_interval(problem.constraints.norm)
    lower, upper = map(EstimatedNumber, interval)
    return problem._replace(noise_interval=(lower, upper))


def mixture_assumptions(
    source: str, regression: RidgeState, fit: Fit, delta: float, norm: NormBound
) -> Assumptions:
    r"""What a martingale-mixture set rests on, noise known; ``source`` is the fit's."""
    assumptions = rkhs_assumptions(source, regression, delta, norm.assumption)
    if not isinstance(fit, PrequentialRadius):
        return assumptions
    if is_estimate(fit.noise_std):
        noise = replace(assumptions["noise"], status=Status.ESTIMATED)
        assumptions = assumptions.with_item(noise)
    return assumptions.with_extra(PREDICTED)
