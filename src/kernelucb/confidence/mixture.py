r"""From data, fit and norm bound to a set: its constraints and assumptions."""

import math
import warnings
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from torch import Tensor

from kernelucb._numerics.arrays import Array
from kernelucb._numerics.digits import assumed, at_least, one_minus
from kernelucb._numerics.estimates import EstimatedNumber, is_estimate
from kernelucb.confidence.assumptions import (
    Assumption,
    Assumptions,
    Status,
    rkhs_assumptions,
)
from kernelucb.confidence.filters import FilterMixture
from kernelucb.confidence.fit import Fit, data_fit, fit_of, fit_source
from kernelucb.confidence.noise import JOINT_SOURCE, JointSet, UnknownNoise
from kernelucb.confidence.norm import (
    LeastNorm,
    NormBound,
    NormBoundLike,
    for_least_norm,
    given_bound,
    is_resolved,
    least_misfit,
    least_norm,
    resolve_norm_bound,
    tracker_of,
)
from kernelucb.confidence.prequential import PREDICTED, PrequentialRadius
from kernelucb.confidence.radius import CovarianceScale, Radius
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression import KernelRegression, RidgeState

# An empty set is widened until it holds one function, and by this much more; so is a set
# that holds hardly more than one (outcomes 1e8 prior deviations off, say). Strong duality
# and the conic solver need an interior, and round-off must not close it.
INTERIOR = 1e-6


class Constraints(NamedTuple):
    r"""``{ f : ||f_w - y_w|| <= radius, ||f - m||_H <= norm }``.

    Source: Flynn & Reeb (2024), Lemma 4.2; ``excess`` is the squared radius of Corollary
    4.3, in noise units.

    Attributes:
        radius: Squared radius of the fit, noise units.
        norm: Norm bound, prior units.
        contradiction: The assumption that was relaxed because the set was empty, or None.
    """

    radius: Radius
    norm: float
    contradiction: Assumption | None

    def excess(self, regression: RidgeState, regularizer: Tensor) -> Tensor:
        r"""``radius^2 + tau norm^2 - quadratic_form(tau)``, one value for each ``tau``.

        ``Rtilde^2 / noise_std^2``. Negative for some ``tau`` exactly when the set is
        empty.
        """
        drop = regression.quadratic_form_drop(self.radius.tau_ref, regularizer)
        return self.excess_from(regularizer, drop)

    def excess_from(self, regularizer: Array, drop: Array) -> Array:
        r"""As ``excess``, from ``quadratic_form(tau_ref) - quadratic_form(tau)``."""
        return self.radius.slack + regularizer * self.norm**2 + drop


def consistent_constraints(
    regression: RidgeState,
    radius: Radius,
    norm: float,
    least: float,
    relaxed: bool = False,
) -> Constraints:
    r"""The constraints, relaxed with a warning where no function satisfies them.

    ``norm`` is the norm bound, ``least`` the least consistent norm, both in prior units.
    ``relaxed`` says that no function within ``norm`` satisfied the original radius, and
    that ``radius`` is a larger radius that some function satisfies.
    """
    attainable = least * (1.0 + INTERIOR)
    if least <= norm and not relaxed:
        return Constraints(radius, max(norm, attainable), None)
    given = assumed(norm * regression.outcome_scale)
    needed = at_least(least * regression.outcome_scale)
    squared = radius.squared(regression)
    if relaxed or is_resolved(regression, least, squared):
        statement = (
            f"No function of norm at most {given} fits the data at this delta: the least "
            f"consistent norm is {needed}. The norm bound or the noise scale is too small, "
            "or the kernel is wrong."
        )
        action = "The bound uses the least consistent norm instead."
        if relaxed:
            action = (
                "The bound uses Flynn & Reeb's radius instead, which some of them satisfy."
            )
        contradiction = Assumption("norm", statement, Status.VIOLATED)
        announce(contradiction, action)
        return Constraints(radius, norm if relaxed else attainable, contradiction)
    misfit = least_misfit(regression, norm) * (1.0 + INTERIOR)
    statement = (
        f"No function of any norm (norm bound {given}, least consistent norm {needed}) "
        "fits the data at this delta: repeated or nearly repeated inputs differ by more "
        "than the noise scale allows. noise_std is too small."
    )
    contradiction = Assumption("noise", statement, Status.VIOLATED)
    # Of a noise scale far below the scatter, round-off leaves nothing of the radius.
    factor = math.sqrt(misfit / squared) if squared > 0.0 else math.inf
    announce(
        contradiction, f"The bound uses a fit radius {factor:.3g} times as large instead."
    )
    return Constraints(Radius.of(misfit, regression, radius.tau_ref), norm, contradiction)


def announce(contradiction: Assumption, action: str) -> None:
    r"""Warn of a contradiction and of the ``action`` taken."""
    message = f"{contradiction.statement} {action}"
    warnings.warn(message, InconsistentConfidenceSetWarning, stacklevel=4)


class MixtureProblem(NamedTuple):
    r"""Data, constraints and assumptions of a martingale-mixture set.

    Attributes:
        regression: The data, whitened by the noise scale of the fit.
        constraints: Fit and norm constraint, widened where no function satisfied both.
        least: Least consistent norm, prior units.
        assumptions: The assumptions of the set.
        noise_interval: Lower and upper bound on the noise scale, outcome units; None where
            the scale is known.
    """

    regression: RidgeState
    constraints: Constraints
    least: float
    assumptions: Assumptions
    noise_interval: tuple[float, float] | None = None

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
    regression: RidgeState,
    radius: Radius,
    norm: NormBound,
    assumptions: Assumptions,
    least: float | None = None,
    relaxed: bool = False,
) -> MixtureProblem:
    r"""The problem of a radius and a norm bound.

    ``least`` is the least consistent norm, by default of this radius; ``relaxed`` as for
    ``consistent_constraints``.
    """
    least = least_norm(regression, radius) if least is None else least
    constraints = consistent_constraints(regression, radius, norm.value, least, relaxed)
    if constraints.contradiction is not None:
        assumptions = assumptions.with_item(constraints.contradiction)
    return MixtureProblem(regression, constraints, least, assumptions)


def known_noise_problem(
    regression: KernelRegression,
    norm_bound: NormBoundLike,
    fit: Fit,
    delta: float,
    least: LeastNorm | None = None,
    model_error: float = 0.0,
) -> MixtureProblem:
    r"""The problem of ``MartingaleMixtureUCB``; arguments as there.

    Where the data contradict a mixture of filters but not Flynn & Reeb's member alone
    (as when the noise scale is too small), this member gives the band, and the norm is
    marked as violated. ``least`` is the least norm of the fit, where known already.
    """
    fit, count = fit_of(fit), regression.num_observations
    if isinstance(fit, PrequentialRadius) and fit.num_observations == count:
        regression = regression.with_noise_std(fit.noise_std)
    weigh = partial(data_fit, fit, regression, delta, model_error=model_error)
    tracker = tracker_of(norm_bound)
    norm = None if tracker else given_bound(norm_bound, regression)
    band, needed, whole = least or for_least_norm(weigh(norm and norm.value))
    if norm is None:
        norm = resolve_norm_bound(tracker, *band)
        whole = weigh(norm.value)
    if model_error > 0.0:
        norm = norm.of_neighbour(model_error)
    source = fit_source(fit, model_error)
    assumptions = mixture_assumptions(source, regression, fit, delta, norm)
    if isinstance(whole, FilterMixture):
        if needed > norm.value and least_norm(*whole.alone) <= norm.value:
            return mixture_problem(*whole.alone, norm, assumptions, needed, relaxed=True)
        if needed <= norm.value:
            sharpest, band = band, whole.for_band(norm.value)
            if least_norm(*band) > norm.value:
                band = sharpest.beside_hidden(norm.value)
        return mixture_problem(*band, norm, assumptions, needed)
    radius = band.radius.beside_hidden(regression.hidden_part(norm.value))
    return mixture_problem(regression, radius, norm, assumptions)


def unknown_noise_problem(
    regression: KernelRegression,
    norm_bound: NormBoundLike,
    noise: UnknownNoise,
    delta: float,
    covariance_scale: CovarianceScale,
) -> MixtureProblem:
    r"""As ``known_noise_problem``, for a noise scale that is not known."""
    joint = JointSet.of(regression, delta, covariance_scale, noise)
    regression = joint.regression
    norm = resolve_norm_bound(norm_bound, regression, joint.radius(math.inf))
    radius = joint.radius(norm.value)
    radius = radius.beside_hidden(regression.hidden_part(norm.value))
    guarantee = (
        "holds for every point, the noise scale and every round at once with probability "
        f"{one_minus(delta)}"
    )
    assumptions = rkhs_assumptions(
        JOINT_SOURCE, regression, delta, norm.assumption, guarantee=guarantee
    ).with_item(
        noise.assumption("the noise is independent, Gaussian and of one unknown scale")
    )
    problem = mixture_problem(regression, radius, norm, assumptions)
    ends = joint.noise_interval(problem.constraints.norm)
    lower, upper = map(EstimatedNumber, ends)
    return problem._replace(noise_interval=(lower, upper))


def mixture_assumptions(
    source: str, regression: RidgeState, fit: Fit, delta: float, norm: NormBound
) -> Assumptions:
    r"""The assumptions of a set with known noise; ``source`` is the fit's theorem."""
    assumptions = rkhs_assumptions(source, regression, delta, norm.assumption)
    if not isinstance(fit, PrequentialRadius):
        return assumptions
    if is_estimate(fit.noise_std):
        noise = replace(assumptions["noise"], status=Status.ESTIMATED)
        assumptions = assumptions.with_item(noise)
    return assumptions.with_extra(PREDICTED)
