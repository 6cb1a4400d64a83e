r"""From data, fit and norm bound to a set: constraints, assumptions and form.

And the function of the set that attains its bound at a point.
"""

import math
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb._numerics.checks import one_of, positive_scalar, positive_values
from kernelucb._numerics.conic import EllipsoidBallProgram
from kernelucb._numerics.digits import assumed, at_least
from kernelucb._numerics.estimates import Estimate, Number
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.dual import ExactSet, GridSet
from kernelucb.confidence.fit import FixedFit, mixture_assumptions
from kernelucb.confidence.least_norm import is_resolved, least_misfit, least_norm
from kernelucb.confidence.norm import Norm, NormBound
from kernelucb.confidence.radius import Constraints, Radius, misfit_of_error
from kernelucb.confidence.ridge import RidgeBand
from kernelucb.confidence.sets import ConfidenceSet, QueryPoints
from kernelucb.data import KernelRegression, Projection, RidgeState
from kernelucb.exceptions import InconsistentConfidenceSetWarning, SolverError

# An empty set is widened until it holds one function, and by this much more; so is a set
# that holds hardly more than one (outcomes 1e8 prior deviations off, say). Strong duality
# and the conic solver need an interior, and round-off must not close it.
INTERIOR = 1e-6


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
    noise_interval: tuple[Estimate, Estimate] | None = None

    @property
    def state(self) -> KernelRegression:
        r"""The data without the filter that weighs them: what ``at`` and claims read."""
        return cast(KernelRegression, self.regression.unfiltered)  # of exact data

    @property
    def norm_bound(self) -> Number:
        r"""The norm bound in use, outcome units; an estimate unless it was given."""
        return self.constraints.norm * self.regression.outcome_scale

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
    r"""The problem of a radius and a norm bound, relaxed with a warning if it is empty.

    ``least`` is the least consistent norm, prior units, by default of this radius.
    ``relaxed`` says that no function within the norm bound satisfied the original radius,
    and that ``radius`` is a larger radius that some function satisfies.
    """
    least = least_norm(regression, radius) if least is None else least
    used, attainable = norm.value, least * (1.0 + INTERIOR)
    if least <= used and not relaxed:
        number = norm.assumption.number(max(used, attainable))
        constraints = Constraints(radius, number, None)
        return MixtureProblem(regression, constraints, least, assumptions)
    given = assumed(used * regression.outcome_scale)
    needed = at_least(least * regression.outcome_scale)
    squared = radius.squared(regression)
    if relaxed or is_resolved(regression, least, squared):
        name = "norm"
        statement = (
            f"No function of norm at most {given} fits the data at this delta: the least "
            f"consistent norm is {needed}. The norm bound or the noise scale is too small, "
            "or the kernel is wrong."
        )
        action = "the least consistent norm instead."
        if relaxed:
            action = "Flynn & Reeb's radius instead, which some of them satisfy."
        number = Estimate(used if relaxed else attainable)
    else:
        name, number = "noise", norm.assumption.number(used)
        statement = (
            f"No function of any norm (norm bound {given}, least consistent norm {needed}) "
            "fits the data at this delta: repeated or nearly repeated inputs differ by "
            "more than the noise scale allows. noise_std is too small."
        )
        misfit = least_misfit(regression, used) * (1.0 + INTERIOR)
        radius = Radius.of(misfit, regression, radius.tau_ref)
        # Of a noise scale far below the scatter, round-off leaves nothing of the radius.
        factor = math.sqrt(misfit / squared) if squared > 0.0 else math.inf
        action = f"a fit radius {factor:.3g} times as large instead."
    item = Assumption(name, statement, Status.VIOLATED)
    announce(item, f"The bound uses {action}")
    constraints = Constraints(radius, number, item)
    return MixtureProblem(regression, constraints, least, assumptions.with_item(item))


def known_noise_problem(
    regression: KernelRegression,
    norm_bound: Norm,
    fit: FixedFit,
    delta: float,
) -> MixtureProblem:
    r"""The problem of ``MartingaleMixtureUCB``; arguments as there.

    Where the data contradict a mixture of filters but not Flynn & Reeb's member alone
    (as when the noise scale is too small), this member gives the band, and the norm is
    marked as violated.
    """
    regression = fit.whitened(regression)
    given, model_error = norm_bound.given(regression.outcome_scale), norm_bound.model_error
    misfit = misfit_of_error(regression, model_error)
    weigh = partial(fit.constraint, regression, delta, misfit=misfit)
    # Without a number no member is tied to a norm bound, until one is estimated.
    whole = weigh(given and given.value)
    sharpest, least = whole.for_least_norm()
    norm = given or norm_bound.resolve(*sharpest)
    if given is None:
        whole = weigh(norm.value)
    stated = delta, norm.assumption, model_error
    assumptions = mixture_assumptions(fit, regression, *stated)
    chosen = whole.for_norm(norm.value, sharpest, least)
    return mixture_problem(
        *chosen.constraint, norm, assumptions, chosen.least, chosen.relaxed
    )


ANALYTIC_SOURCE = "Flynn & Reeb (2024), Corollary 4.6"
# Flynn & Reeb's grid of ridge parameters, in multiples of noise_std^2 / covariance_scale.
_PAPER_GRID = (0.1, 0.3, 1.0, 3.0, 10.0)
# Accepted difference between the conic solution and its dual, relative to the half-width
# of the norm ball; Clarabel runs at 1e-10.
_ACCEPTED_GAP = 1e-6


# A number is the ridge parameter of the closed form, several numbers are a grid of them.
Form = Literal["dual", "analytic", "convex", "grid"] | float | Sequence[float] | Tensor


class ConvexSet(ExactSet):
    r"""The exact bound through one compiled, differentiable cvxpylayer, anytime.

    Source: Flynn & Reeb (2024), Theorem 4.4. In the eigenbasis of the kernel matrix (ours)
    a query point enters the objective alone, so the program is compiled once per model.
    Each solution is checked against the dual, an independent computation of the same
    number, and returned only if both agree to 1e-6 of the norm ball's half-width.

    Raises:
        SolverError: If the solution and the dual disagree (in ``support``).
    """

    source = "Flynn & Reeb (2024), Theorem 4.4"
    _program: EllipsoidBallProgram | None = None  # compiled when first asked for

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_program": None}  # compiled layers cannot be pickled

    def support(self, points: QueryPoints, sign: int) -> Tensor:
        r"""Value of the cone program, checked against the dual."""
        if self.design is not self.regression:  # what is pending has no outcomes to fit
            return super().support(points, sign)
        centre, norm = points.centre, self.constraints.ball
        rest = safe_sqrt(centre.residual_variance).unsqueeze(-1)
        objective = torch.cat([centre.features, rest], dim=-1)
        length = safe_sqrt(centre.prior_variance)
        direction = objective / torch.where(length > 0, length, 1.0).unsqueeze(-1)
        solution = self.program.maximizer(sign * direction)
        value = norm * sign * (objective * solution).sum(-1)
        with torch.no_grad():
            dual = super().support(points, sign)
            gap = (value - dual).abs()
        if not bool((gap <= _ACCEPTED_GAP * norm * length).all()):  # NaN is no agreement
            raise SolverError(
                f"The conic solution differs from its dual by up to {float(gap.max()):.2g} "
                'and is not a bound to rely on. Use form="dual".'
            )
        return value

    @property
    def program(self) -> EllipsoidBallProgram:
        r"""The compiled program, with both balls scaled to radius one."""
        if self._program is None:
            radius = math.sqrt(self.constraints.radius.squared(self.regression))
            self._program = EllipsoidBallProgram(
                scales=self.regression.eigenvalues.sqrt() * self.constraints.ball / radius,
                centre=self.regression.targets / radius,
            )
        return self._program


_EXACT: dict[str, type[ExactSet]] = {"dual": ExactSet, "convex": ConvexSet}


def confidence_set(problem: MixtureProblem, form: Form) -> ConfidenceSet:
    r"""Confidence set of each form; ridge parameters become ``tau = alpha / noise^2``.

    The closed form is the ellipsoid around the ridge estimate that holds the set, anytime:
    Flynn & Reeb (2024), Corollary 4.6, valid at any ``tau``. At ``tau = 1 / c`` the width
    is ``sqrt(c log_det + 2 c ln(1/delta) + norm^2)`` (Lemma C.2).
    """
    regression, constraints = problem.regression, problem.constraints
    assumptions, tau_ref = problem.assumptions, constraints.radius.tau_ref
    # Of several noise scales the largest: one ridge parameter has one unit.
    noise_variance = float(regression.noise_scales.max()) ** 2
    grid: Tensor | None = None
    if isinstance(form, str):
        name = one_of("form", form, "dual", "analytic", "convex", "grid")
        if (kind := _EXACT.get(name)) is not None:
            # A relaxed set is nearly one function: too thin for an interior-point solver.
            kind = kind if constraints.contradiction is None else ExactSet
            return kind(regression, constraints, assumptions.by(kind.source))
        if name == "grid":
            grid = tau_ref * torch.tensor(_PAPER_GRID, dtype=torch.float64)
    elif isinstance(form, Sequence | Tensor):
        grid = torch.as_tensor(form, dtype=torch.float64).reshape(-1)
        if grid.numel() == 0:
            raise ValueError("form must hold at least one ridge parameter.")
        grid = positive_values("form", grid, grid.numel()) / noise_variance
    else:
        tau_ref = positive_scalar("form", form) / noise_variance
    if grid is not None:
        return GridSet(regression, constraints, grid, assumptions.by(GridSet.source))
    # Below the cut-off round-off would decide.
    regularizer = max(tau_ref, regression.eigenvalue_cutoff)
    tau = torch.tensor(regularizer, dtype=torch.float64).to(regression.eigenvalues)
    excess = constraints.excess(regression, tau).clamp_min(0.0)
    width = float(safe_sqrt(excess / tau))
    return RidgeBand(regression, regularizer, width, assumptions.by(ANALYTIC_SOURCE))


class Witness(NamedTuple):
    r"""A function of the confidence set that attains the bound at one point.

    The function keeps the norm bound, lies within the radius of the data, and takes the
    bound's value at the point: an example of what the data do not exclude.

    Attributes:
        regression: The state in whose eigenbasis the function is expressed.
        point: Projection of the point at which the bound is attained.
        weights: ``n`` coordinates in the eigenbasis of the training sections.
        rest_weight: Coordinate along the part of ``k(x, .)`` that is orthogonal to all
            training sections.
        norm: RKHS norm of ``f - mean`` in outcome units, under the model's kernel.
        misfit: Distance to the data in noise units.
        radius: Largest distance that the confidence set allows, noise units.
    """

    regression: RidgeState
    point: Projection
    weights: Tensor
    rest_weight: Tensor
    norm: float
    misfit: float
    radius: float

    def __str__(self) -> str:
        return (
            f"a function of norm {self.norm:.4g}, {self.misfit:.4g} noise units from the "
            f"data (at most {self.radius:.4g})"
        )

    @torch.no_grad()
    def __call__(self, X: Tensor) -> Tensor:
        r"""Values at ``b x d`` points, ``b`` numbers in outcome units."""
        points = self.regression.project(X)
        prior = self.regression.prior.covariance(points.inputs, self.point.inputs)[:, 0]
        rest = prior - points.features @ self.point.features[0]
        length = self.point.residual_variance.sqrt().clamp_min(torch.finfo(rest.dtype).tiny)
        deviation = points.features @ self.weights + self.rest_weight * rest / length
        return points.baseline + deviation


@torch.no_grad()
def attaining_function(confidence_set: ExactSet, points: QueryPoints, sign: int) -> Witness:
    r"""Maximiser of ``sign * f(x)`` over the confidence set, at one projected point.

    Source: stationarity of the Lagrangian of Flynn & Reeb (2024), Eq. (9): the ridge
    estimate plus a multiple of the posterior covariance with the point.
    """
    regression, constraints = confidence_set.regression, confidence_set.constraints
    point, (_, tau) = points.centre, confidence_set.least(points, sign)
    if bool(torch.isinf(tau)):  # by the norm alone
        multiple = sign * constraints.ball / point.prior_variance.sqrt()
        weights = multiple * point.features[0]
    else:
        excess = constraints.excess(regression, tau).clamp_min(0.0)
        variance = regression.variance_at(point, tau.unsqueeze(-1))
        multiple = sign * (excess / (tau * variance)).sqrt()
        weights = regression.mean_terms + multiple * tau * point.features[0]
        weights = weights / (regression.eigenvalues + tau)
    # Along the part of `k(x, .)` that is orthogonal to all training sections
    (rest,) = multiple * point.residual_variance.sqrt()
    norm = float((weights.square().sum() + rest.square()).sqrt())
    misfit = float((regression.eigenvalues.sqrt() * weights - regression.targets).norm())
    radius = constraints.radius.squared(regression) ** 0.5
    norm *= regression.outcome_scale
    return Witness(regression, point, weights, rest, norm, misfit, radius)
