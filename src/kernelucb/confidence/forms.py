r"""The forms of the bound, and the function of the set that attains it."""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb._numerics.checks import one_of, positive_scalar, positive_values
from kernelucb._numerics.conic import EllipsoidBallProgram
from kernelucb.confidence.dual import ExactSet, GridSet
from kernelucb.confidence.mixture import MixtureProblem
from kernelucb.confidence.ridge import RidgeBand
from kernelucb.confidence.sets import ConfidenceSet, QueryPoints, Support
from kernelucb.exceptions import SolverError
from kernelucb.regression import Projection, RidgeState

ANALYTIC_SOURCE = "Flynn & Reeb (2024), Corollary 4.6"
# Flynn & Reeb's grid of ridge parameters, in multiples of noise_std^2 / covariance_scale.
_PAPER_GRID = (0.1, 0.3, 1.0, 3.0, 10.0)
# Accepted difference between the conic solution and its dual, relative to the half-width
# of the norm ball; Clarabel runs at 1e-10.
_ACCEPTED_GAP = 1e-6


# A number is the ridge parameter of the closed form, several numbers are a grid of them.
Form = Literal["dual", "analytic", "convex", "grid"] | float | Sequence[float] | Tensor


def is_grid(form: Form | None) -> bool:
    r"""Whether a form is a grid of ridge parameters, by name or in numbers."""
    listed = isinstance(form, Sequence | Tensor) and not isinstance(form, str)
    return listed or form == "grid"


def grid_regularizers(form: Any, tau_ref: float, noise_variance: float) -> Tensor:
    r"""Regularisers ``tau`` of a form, multiples of the noise variance.

    ``form`` is one or several ridge parameters, outcome units squared, or ``"grid"`` for
    Flynn & Reeb's grid around ``tau_ref = 1 / covariance_scale``.
    """
    if isinstance(form, str):
        return tau_ref * torch.tensor(_PAPER_GRID, dtype=torch.float64)
    grid = torch.as_tensor(form, dtype=torch.float64).reshape(-1)
    if grid.numel() == 0:
        raise ValueError("form must hold at least one ridge parameter.")
    return positive_values("form", grid, grid.numel()) / noise_variance


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
    _program: EllipsoidBallProgram | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_program": None}  # compiled layers cannot be pickled

    def support(self, points: QueryPoints, sign: int) -> Support:
        r"""Value of the cone program, checked against the dual."""
        if self.design is not self.regression:  # what is pending has no outcomes to fit
            return super().support(points, sign)
        centre, norm = points.centre, self.constraints.norm
        rest = safe_sqrt(centre.residual_variance).unsqueeze(-1)
        objective = torch.cat([centre.features, rest], dim=-1)
        length = safe_sqrt(centre.prior_variance)
        direction = objective / torch.where(length > 0, length, 1.0).unsqueeze(-1)
        solution = self.program.maximizer(sign * direction)
        value = norm * sign * (objective * solution).sum(-1)
        with torch.no_grad():
            dual = super().support(points, sign)
            gap = (value - dual.value).abs()
        if not bool((gap <= _ACCEPTED_GAP * norm * length).all()):  # NaN is no agreement
            raise SolverError(
                f"The conic solution differs from its dual by up to {float(gap.max()):.2g} "
                'and is not a bound to rely on. Use form="dual".'
            )
        return Support(value, dual.regularizer, gap)

    @property
    def program(self) -> EllipsoidBallProgram:
        r"""The compiled program, with both balls scaled to radius one."""
        if self._program is None:
            radius = math.sqrt(self.constraints.radius.squared(self.regression))
            self._program = EllipsoidBallProgram(
                scales=self.regression.eigenvalues.sqrt() * self.constraints.norm / radius,
                centre=self.regression.targets / radius,
            )
        return self._program


def confidence_set(problem: MixtureProblem, form: Form) -> ConfidenceSet:
    r"""Confidence set of each form; ridge parameters become ``tau = alpha / noise^2``.

    The closed form is the ellipsoid around the ridge estimate that holds the set, anytime:
    Flynn & Reeb (2024), Corollary 4.6, valid at any ``tau``. At ``tau = 1 / c`` the width
    is ``sqrt(c log_det + 2 c ln(1/delta) + norm^2)`` (Lemma C.2).
    """
    regression, constraints = problem.regression, problem.constraints
    assumptions, tau_ref = problem.assumptions, constraints.radius.tau_ref
    noise_variance = float(regression.noise_scales.max()) ** 2
    if is_grid(form):
        grid = grid_regularizers(form, tau_ref, noise_variance)
        return GridSet(regression, constraints, grid, assumptions.by(GridSet.source))
    if not isinstance(form, str):
        tau_ref = positive_scalar("form", form) / noise_variance
    elif one_of("form", form, "dual", "analytic", "convex", "grid") != "analytic":
        # A relaxed set is nearly one function: too thin for an interior-point solver.
        thin = constraints.contradiction is not None
        kind = ConvexSet if form == "convex" and not thin else ExactSet
        return kind(regression, constraints, assumptions.by(kind.source))
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
    (weights,), (rest,) = attaining_weights(confidence_set, points, sign)
    norm = float((weights.square().sum() + rest.square()).sqrt())
    misfit = float((regression.eigenvalues.sqrt() * weights - regression.targets).norm())
    radius = constraints.radius.squared(regression) ** 0.5
    norm *= regression.outcome_scale
    return Witness(regression, points.centre, weights, rest, norm, misfit, radius)


@torch.no_grad()
def attaining_weights(
    confidence_set: ExactSet, points: QueryPoints, sign: int
) -> tuple[Tensor, Tensor]:
    r"""Coordinates of the maximisers of ``sign * f(x)`` at ``b`` points.

    ``b x r`` in the eigenbasis of the training sections, and ``b`` along the part of each
    ``k(x, .)`` that is orthogonal to them.
    """
    regression, constraints = confidence_set.regression, confidence_set.constraints
    point, tau = points.centre, confidence_set.support(points, sign).regularizer
    bounded = torch.isinf(tau).unsqueeze(-1)  # by the norm alone
    tau = torch.where(bounded, 1.0, tau.unsqueeze(-1))
    variance = regression.variance_at(point, tau).unsqueeze(-1)
    excess = constraints.excess(regression, tau).clamp_min(0.0)
    multiple = sign * (excess / (tau * variance)).sqrt()
    weights = regression.mean_terms + multiple * tau * point.features
    weights = weights / (regression.eigenvalues + tau)
    alone = sign * constraints.norm / point.prior_variance.sqrt().unsqueeze(-1)
    weights = torch.where(bounded, alone * point.features, weights)
    multiple = torch.where(bounded, alone, multiple).squeeze(-1)
    return weights, multiple * point.residual_variance.sqrt()
