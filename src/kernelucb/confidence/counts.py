r"""The set of functions for successes or counts: a likelihood ratio and a norm bound.

The losses are convex, so tangents lie below them and give a valid bound wherever they
touch. They touch at functions near the maximisers, which are searched for each point, or
once for 256 points. How likely outcomes must be follows from their likelihood under a
mixture of functions, bounded from below, and Ville's inequality.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.quasirandom import SobolEngine

from kernelucb._numerics.arrays import (
    Array,
    as_array,
    increasing_root,
    minimize_quasiconvex,
    safe_sqrt,
)
from kernelucb._numerics.checks import as_double, one_of
from kernelucb.confidence.assumptions import (
    Assumption,
    Assumptions,
    Knowledge,
    Status,
    rkhs_assumptions,
)
from kernelucb.confidence.dual import FunctionSet
from kernelucb.confidence.least_norm import FitConstraint
from kernelucb.confidence.mixture import INTERIOR, announce
from kernelucb.confidence.norm import (
    NormBoundLike,
    as_ball,
)
from kernelucb.confidence.radius import (
    Constraints,
    CovarianceScale,
    Radius,
    covariance_scales,
)
from kernelucb.confidence.sets import QueryPoints
from kernelucb.data import KernelRegression, Projection
from kernelucb.data.counts import Likelihood, LikelihoodRegression, Mode

LIKELIHOOD_SCALES = tuple(4.0**power for power in range(-2, 3))

# Of the search for a Gaussian: steps, evaluations, and a slope in nats at which it ends.
_SEARCH = {"maxiter": 40, "maxfun": 80, "gtol": 1e-5}
# Least curvature of a parabola, over the largest.
_SMALLEST_WEIGHT = 1e-10
# Prior weight of values at each input that no kernel connects: 0.1 nats for the others.
_INDEPENDENT = 0.1
_EVIDENCE = (
    "Likelihood ratio with a mixture (Emmenegger et al. 2023), evidence bounded (ours)"
)
_OUTCOMES: dict[Likelihood, str] = {
    "bernoulli": "is 1 with probability sigmoid(f(x)), else 0",
    "binomial": "is a number of successes, each with probability sigmoid(f(x)), in a "
    "number of trials that was fixed before",
    "poisson": "is a Poisson count of mean exposure * exp(f(x)), with an exposure that was "
    "fixed before",
}
_REPORTED = (
    "outcomes are not changed after they were observed, their trials or exposures were "
    "fixed before, and whether and when one is reported does not depend on what it is"
)


def likelihood_level(
    data: LikelihoodRegression, delta: float, scales: CovarianceScale | None = None
) -> float:
    r"""Upper bound on the sum of the losses of the true function, anytime.

    ``scales`` are those of the mixture ``N(mean, c k)``, fixed before the data. Beside
    Gaussian processes the mixture has a part with independent values at each input, under
    which no kernel connects the inputs: so the data can contradict a kernel that is too
    smooth.

    Source: the likelihood ratio of Emmenegger et al. (2023) with Ville's inequality;
    the bound on the evidence is ours, see ``docs/mathematics.md``.
    """
    evidence = log_evidence(
        data, covariance_scales(LIKELIHOOD_SCALES if scales is None else scales)
    )
    independent = data.loss.log_independent(data.mean) + math.log(_INDEPENDENT)
    evidence = np.logaddexp(evidence + math.log1p(-_INDEPENDENT), independent)
    return math.log(1.0 / delta) - float(evidence)


def likelihood_assumptions(
    data: LikelihoodRegression, delta: float, norm: Assumption
) -> Assumptions:
    r"""The assumptions of a set; ``norm`` is the assumption on its norm bound."""
    fitted = Knowledge(data.prior, data.estimated, torch.ones(1))
    assumptions = rkhs_assumptions(_EVIDENCE, fitted, delta, norm)
    statement = f"given the past, the outcome at x {_OUTCOMES[data.outcomes.kind]}"
    instead = {
        "noise": Assumption("likelihood", statement, Status.GIVEN),
        "outcomes": Assumption("outcomes", _REPORTED, Status.GIVEN),
    }
    items = tuple(instead.get(item.name, item) for item in assumptions.items)
    return replace(assumptions, items=items).by(SOURCE)


@torch.no_grad()
def log_evidence(data: LikelihoodRegression, scales: Sequence[float]) -> float:
    r"""Lower bound on the log-evidence of an equal mixture of Gaussian process priors.

    The evidence is ``int prod_i exp(-l_i(f)) dQ(f)``, with ``Q`` an equal mixture of
    ``N(mean, c k)`` over the ``scales`` ``c``. Any Gaussian gives a lower bound on each
    part: the expected log-likelihood under the Gaussian minus its divergence from the
    prior. The best Gaussian is searched for among those with independent coordinates in the
    eigenbasis at the mode; the posterior is of this kind if the loss is a parabola.

    Source: the evidence lower bound (for Gaussian processes Opper & Archambeau 2009); the
    basis in which coordinates are independent is ours.
    """
    loss, middle = data.loss, sum(map(math.log, scales)) / len(scales)
    latent = data.mode(math.exp(-middle), data.most_probable).latent
    slope, curvature = loss.slope(latent), loss.curvature(latent)
    weights = curvature.clamp_min(_SMALLEST_WEIGHT * float(curvature.max()))
    state = data.linearised(latent, weights.clamp_min(1e-300))
    # Functions are mean + features w, and |w| is the norm: orthonormal directions.
    features = state.observed_features(torch.arange(len(latent), device=latent.device))
    squares = features.square()
    hidden = (data.variance - squares.sum(-1)).clamp_min(0.0)  # by round-off
    precision = squares.mT @ curvature
    target = features.mT @ (curvature * (latent - data.mean) - slope)

    def bound(tau: float) -> float:
        r"""Bound for the prior of variance ``1 / tau`` along each direction."""
        variances = 1.0 / (tau + precision)
        # One step of Newton's from the mode, about which the search is in its units.
        start, units = variances * target, variances.sqrt()

        def negative(x: Tensor, expected: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
            shift, log_ratio = x.chunk(2)
            mean, spread = start + units * shift, variances * log_ratio.exp()
            ratio = tau * spread
            divergence = 0.5 * (tau * mean.square() + ratio - 1.0 - ratio.log()).sum()
            values = data.mean + features @ mean
            return expected(values, squares @ spread + hidden / tau).sum() + divergence

        def with_slope(x: Array) -> tuple[float, Array]:
            at = torch.from_numpy(x).to(start).requires_grad_()
            with torch.enable_grad():
                value = negative(at, loss.expected)
                (slope,) = torch.autograd.grad(value, at)
            return float(value.detach()), slope.cpu().numpy()

        origin: Any = np.zeros(2 * len(start))
        found: Any = minimize(
            with_slope, origin, jac=True, method="L-BFGS-B", options=_SEARCH
        )
        best = found.x if found.fun < with_slope(origin)[0] else origin
        return -float(negative(torch.from_numpy(best).to(start), loss.expected_bound))

    parts = as_double([bound(1.0 / scale) for scale in scales])
    return float(torch.logsumexp(parts, 0)) - math.log(len(scales))


LikelihoodForm = Literal["cuts", "tangent"]
SOURCE = "Tangents of the losses (ours)"
_TINY = 1e-50  # the square of its inverse is still a number
_LARGEST_REACH = 600.0  # of log odds or log rates
# The least norm, searched for in the logarithm of the regulariser.
_TOLERANCE = 1e-6
_LOWEST = -30.0
# A function of the set: the one of the least norm takes ten times as long.
_TRIED = 12  # regularisers
_FACTOR = 5.0  # between two of them
# Least curvature of a parabola, over the largest.
_LEAST_CURVATURE = 1e-8
# Directions that are searched in: with all of them bands of rates are up to 2 % narrower.
_LEAST_SHARE = 0.03  # least eigenvalue, over the regulariser
_MOST_INFORMED = 40
_STEPS = 2  # one more narrows bands of log rates by up to 3 % at a norm bound of 7
_LEAST_PULL = 1e-9  # over that of the norm alone; keeps systems of equations regular
# Accuracy of the edge: what is left of the loss times the step, over that from the centre.
_RELATIVE_TOLERANCE = 1e-10
# In two dimensions bands of rates are up to 9 % wider than the set; with 64 points a fifth.
_CUTS = 256
# A bound that is larger by so small a share, seen from the centre, has a weight that is
# smaller by a factor e. With weights of 0 and 1 the gradient jumps, and a search for the
# largest bound evaluates it more often.
SHARE = 0.01


def likelihood_set(
    data: LikelihoodRegression,
    norm_bound: NormBoundLike,
    delta: float,
    level: float,
    form: LikelihoodForm = "cuts",
) -> "TangentSet":
    r"""Build the set of ``LikelihoodUCB`` from its arguments and the level.

    An empty set is widened, with a warning.
    """
    one_of("form", form, "cuts", "tangent")
    ball, contradiction = as_ball(norm_bound), None
    if (norm := ball.given(1.0)) is None:
        least = least_norm_mode(data, level)
        # Their function of least norm is the same one: the conditions hold slopes alone.
        norm = ball.resolve(*parabolas(data, least.latent, least.loss))
    centre = _function_within(data, level, norm.value)
    assumptions = likelihood_assumptions(data, delta, norm.assumption)
    if centre.norm > norm.value:
        statement = (
            f"No function of norm at most {norm.value:.4g} makes the outcomes likely "
            f"enough at this delta: the least consistent norm is {centre.norm:.4g}. The "
            "norm bound is too small, the kernel is wrong, or the outcomes do not follow "
            "the likelihood."
        )
        action = "The bound uses the least consistent norm instead."
        if math.isinf(centre.norm):
            action = "The bound takes outcomes for possible that are less likely instead."
        contradiction = Assumption("norm", statement, Status.VIOLATED)
        announce(contradiction, action)
        assumptions = assumptions.with_item(contradiction)
    # Round-off must not leave the centre out.
    used = max(norm.value, data.at(centre.weights).norm * (1.0 + INTERIOR))
    level = max(level, centre.loss)
    # The set is not within these, which give directions and variances.
    state, radius = parabolas(data, centre.latent, level)
    constraints = Constraints(radius, assumptions["norm"].number(used), contradiction)
    return TangentSet(state, constraints, assumptions, data, level, centre, form)


def _function_within(data: LikelihoodRegression, level: float, norm: float) -> Mode:
    r"""A function of the set, or the one of the least norm that is likely enough."""
    # No root: any regulariser will do at which both conditions hold.
    lower, regularizer, upper, at = 0.0, 1.0, math.inf, data.most_probable
    for _ in range(_TRIED):
        likely, small = at.loss <= level, at.norm <= norm
        if likely and small:
            return at
        if not likely and not small:
            break
        lower, upper = (regularizer, upper) if likely else (lower, regularizer)
        regularizer *= _FACTOR if likely else 1.0 / _FACTOR
        if 0.0 < lower < upper < math.inf:  # the edge of a thin set is a bad centre
            regularizer = math.sqrt(lower * upper)
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
        # Its tangents bound the least norm, also where Newton's method left it beside.
        slope = data.loss.slope(at.latent)
        limit = level - at.loss + float(slope @ (at.latent - data.mean))
        length = float((slope @ data.kernel_matrix @ slope).clamp_min(1e-300).sqrt())
        norm = min(at.norm, max(0.0, -limit / length))
        if at.norm * float(data.variance.max().sqrt()) <= _LARGEST_REACH:
            return at._replace(norm=norm)
    return data.most_probable._replace(norm=math.inf)


def parabolas(
    data: LikelihoodRegression, latent: Tensor, level: float
) -> FitConstraint[KernelRegression]:
    r"""All functions whose parabolas add up to at most ``level``.

    These have slopes and curvatures of the losses at ``u`` latent values. ``sum_i c_i (f_i
    - y_i)^2 <= 2 (level - sum_i l_i) + sum_i l'_i^2 / c_i`` with the pseudo-outcomes ``y``.
    """
    slope, curvature = data.loss.slope(latent), data.loss.curvature(latent)
    least = _LEAST_CURVATURE * float(curvature.max())
    curvature = curvature.clamp_min(max(least, 1e-300))
    state = data.linearised(latent, curvature)
    slack = 2.0 * (level - float(data.loss.value(latent).sum()))
    squared = slack + float((slope.square() / curvature).sum())
    return FitConstraint(state, Radius.of(squared, state, 1.0))


class Tangents(NamedTuple):
    r"""Sums of tangents, one for each point: ``slopes @ w <= limit`` for all functions."""

    slopes: Tensor  # `b x r`, in coordinates of functions
    limit: Tensor  # `b` values, with a part for directions which round-off hides


class TangentSet(FunctionSet[KernelRegression]):
    r"""``{f : |f - mean| <= norm, sum_i l_i(f) <= level}`` by tangents of the losses.

    By convexity every function of the set satisfies ``sum_i l'_i f_i <= level - sum_i l_i
    + sum_i l'_i g_i`` with losses and slopes at any values ``g``, and the largest value
    under this inequality and the norm bound has a closed form. The bound is the maximum
    over the set if ``g`` attains the maximum.

    For a point ``g`` is found by a few steps of Newton's method. The first function lies
    from the centre in the direction of the posterior covariance with the point, where the
    losses add up to ``level``. A step solves the stationarity of the Lagrangian,
    ``multiple * sum_i l'_i k(x_i, .) + pull * (f - mean) = sign k(x, .)``, linearised at
    the function and with the multipliers of the tangents there, and moves towards the
    centre or away from it until the losses add up to ``level`` again. Steps are in the
    informed directions only, of which the data tell something (as in the
    likelihood-informed subspaces of Cui et al. 2014); the bound is in all.

    With ``form="tangent"`` the search is made for each point. With ``"cuts"`` it is
    made once, for largest and smallest values at 256 points that are spread as the inputs
    are. A weighted mean of tangents gives a valid inequality too: at a query point the
    tangents with the lowest bounds get nearly all of the weight, and weights and bounds
    change smoothly from point to point. For a difference of values a search is always made.

    Source: ours; ``docs/mathematics.md``.

    Args:
        regression: Pseudo-outcomes, for directions and variances.
        constraints: Fit of the pseudo-outcomes, which does not count, and the norm bound.
        assumptions: The assumptions of the set.
        data: The outcomes and the prior.
        level: Largest sum of the losses.
        centre: A function of the set.
        form: ``"cuts"`` or ``"tangent"``: where the tangents touch, see above.
    """

    centre_weights: Tensor
    slopes: Tensor
    limits: Tensor

    def __init__(
        self,
        regression: KernelRegression,
        constraints: Constraints,
        assumptions: Assumptions,
        data: LikelihoodRegression,
        level: float,
        centre: Mode,
        form: LikelihoodForm,
    ) -> None:
        super().__init__(regression, constraints, assumptions)
        self.data, self.level, self.centre, self.form = data, level, centre, form
        rows = torch.arange(len(centre.latent), device=centre.latent.device)
        self.observed_features = regression.observed_features(rows)
        self.hidden = constraints.ball * regression.distinct_lost
        self.register_buffer("centre_weights", self.observed_features.mT @ centre.weights)
        self.room = max(level - centre.loss, 0.0)
        scale = 2.0 * self.room / constraints.ball**2
        self.regularizer = max(scale, regression.eigenvalue_cutoff)
        found = regression.eigenvalues > _LEAST_SHARE * self.regularizer
        self.informed = found.nonzero().squeeze(-1)[-_MOST_INFORMED:]
        self.informed_features = some = self.observed_features[:, self.informed]
        self.informed_centre = self.centre_weights[self.informed]
        # Sums of outer products, one for each query, are one matrix product with these.
        self.products = (some.unsqueeze(-1) * some.unsqueeze(-2)).flatten(1)
        points = regression.project_inputs(points_among(data.distinct_inputs, _CUTS))
        with torch.no_grad():
            cuts = [self.searched(points, sign) for sign in (1, -1)]
        # `2 x k x r` and `2 x k`, those of largest values first
        self.register_buffer("slopes", torch.stack([each.slopes for each in cuts]))
        self.register_buffer("limits", torch.stack([each.limit for each in cuts]))

    def support(self, points: QueryPoints, sign: int) -> Tensor:
        r"""The bound by the tangents; with ``form="tangent"`` the smaller one of two."""
        found = self.majorant(points, sign)
        if self.form == "cuts":
            return found
        near = self.bound(points.centre, sign, self.searched(points.centre, sign))
        near = self._with_pending(points, sign, near)
        return torch.minimum(found, near)

    def majorant(self, points: QueryPoints, sign: int) -> Tensor:
        r"""The bound by the tangents that were found at construction."""
        cut = self.lowest_cut(points.centre, sign)
        return self._with_pending(points, sign, self.bound(points.centre, sign, cut))

    def _support_of_difference(self, change: Projection, sign: int, cheap: bool) -> Tensor:
        # None is cheap: the tangents found at construction are not near.
        return self.bound(change, sign, self.searched(change, sign))

    def _with_pending(self, points: QueryPoints, sign: int, value: Tensor) -> Tensor:
        r"""Values nearer to the centre, as pending points lower standard deviations."""
        seen, pending = points
        if pending is seen:
            return value
        one = torch.ones_like(seen.baseline).unsqueeze(-1)
        before = self.regression.variance_at(seen, one)
        ratio = safe_sqrt(self.design.variance_at(pending, one) / before.clamp_min(_TINY))
        centre = self.centred(seen, sign)
        return centre + ratio * (value - centre)

    def centred(self, points: Projection, sign: int) -> Tensor:
        r"""Values of the centre function above the prior mean, ``b``."""
        return sign * (points.features @ self.centre_weights)

    def tangents(self, latent: Tensor, features: Tensor) -> Tangents:
        r"""At ``b x u`` values at the data, in the directions of ``u x r`` features."""
        loss, slope = self.data.loss, self.data.loss.slope(latent)
        limit = self.level - loss.value(latent).sum(-1)
        limit = limit + (slope * (latent - self.data.mean)).sum(-1)
        return Tangents(slope @ features, limit + slope.abs() @ self.hidden)

    def bound(self, points: Projection, sign: int, tangents: Tangents) -> Tensor:
        r"""Largest values under the norm and tangents, ``b``, above the prior mean."""
        multiple, _, length = self._pulled(points, sign, tangents)
        return self.constraints.ball * length + multiple * tangents.limit

    def _pulled(
        self, points: Projection, sign: int, tangents: Tangents
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""The minimising multiple, ``sign k(x, .) - multiple * slopes`` and its length."""
        slopes, variance = tangents.slopes, points.prior_variance
        product, square = (points.features * slopes).sum(-1), slopes.square().sum(-1)
        multiple = self._multiple(sign * product, square, tangents.limit, variance)
        left = sign * points.features - multiple.unsqueeze(-1) * slopes
        length = safe_sqrt(left.square().sum(-1) + points.residual_variance)
        return multiple, left, length

    def _multiple(
        self, product: Tensor, square: Tensor, limit: Tensor, variance: Tensor
    ) -> Tensor:
        r"""``argmin_l norm |sign k(x, .) - l slopes| + l limit`` over ``l >= 0``.

        By the products of sections and slopes, and the squares of either.
        """
        square = square.clamp_min(_TINY)
        along = product / square
        across = (variance - along.square() * square).clamp_min(0.0)
        room = self.constraints.ball**2 * square - limit.square()
        bounded = room > 0.0
        room = torch.where(bounded, square * room, 1.0)
        shift = limit * safe_sqrt(across / room)
        shift = torch.where(bounded, shift, torch.where(limit > 0.0, torch.inf, 0.0))
        return (along - shift).clamp_min(0.0)

    def lowest_cut(self, points: Projection, sign: int) -> Tangents:
        r"""The mean of the tangents found beforehand that are the lowest at each point."""
        side = 0 if sign > 0 else 1
        slopes, limit = self.slopes[side], self.limits[side]
        product, square = sign * (points.features @ slopes.mT), slopes.square().sum(-1)
        variance = points.prior_variance.unsqueeze(-1)
        with torch.no_grad():  # the gradient is that at the minimising multiple
            multiple = self._multiple(product, square, limit, variance)
        length = variance - multiple * (2.0 * product - multiple * square)
        values = self.constraints.ball * safe_sqrt(length) + multiple * limit
        above = values - self.centred(points, sign).unsqueeze(-1)
        weights = torch.softmax(-above.clamp_min(_TINY).log() / SHARE, -1)
        return Tangents(weights @ slopes, weights @ limit)

    def searched(self, points: Projection, sign: int) -> Tangents:
        r"""Tangents at functions that attain the maxima, nearly."""
        lam = self.regression.eigenvalues[self.informed]
        features = points.features[:, self.informed]
        rest = (points.prior_variance - features.square().sum(-1)).clamp_min(0.0)
        few = points._replace(features=features, residual_variance=rest)
        direction = sign * features / (lam + self.regularizer)
        spread = (lam * direction.detach().square()).sum(-1, keepdim=True)
        direction = direction * (2.0 * self.room / spread.clamp_min(_TINY)).sqrt()
        for _ in range(_STEPS):
            weights = self._newton(few, sign, *self._to_the_edge(direction))
            direction = weights - self.informed_centre
        return self.tangents(self._to_the_edge(direction)[1], self.observed_features)

    def _newton(
        self, points: Projection, sign: int, weights: Tensor, latent: Tensor
    ) -> Tensor:
        r"""Newton's method for maximisers, ``b x k``, with the multipliers of tangents."""
        tangents = self.tangents(latent, self.informed_features)
        multiple, pulled, length = self._pulled(points, sign, tangents)
        least = _LEAST_PULL * points.prior_variance.sqrt().clamp_min(_TINY)
        pull = (torch.maximum(length, least) / self.constraints.ball).unsqueeze(-1)
        bend = self.data.loss.curvature(latent) @ self.products
        bend = multiple.unsqueeze(-1) * bend
        system = bend.unflatten(-1, [weights.shape[-1]] * 2)
        system = system + torch.diag_embed(pull.expand_as(weights))
        step = torch.linalg.solve(system, (pulled - pull * weights).unsqueeze(-1))
        return weights + step.squeeze(-1)

    def _to_the_edge(self, direction: Tensor) -> tuple[Tensor, Tensor]:
        r"""From the centre in ``b x k`` directions to where the losses add up to the level.

        No farther than the diameter of the norm ball; looked for first at the length of the
        directions. ``b x k`` coordinates, and ``b x u`` values at the data; differentiable
        in the directions.
        """
        length = direction.norm(dim=-1, keepdim=True).clamp_min(_TINY)
        longest = direction * (2.0 * self.constraints.ball / length)
        change = longest @ self.informed_features.mT
        centre, loss = self.centre.latent, self.data.loss

        def excess(share: Tensor) -> Tensor:
            return loss.value(centre + share * change).sum(-1, keepdim=True) - self.level

        def slope(share: Tensor) -> Tensor:
            return (loss.slope(centre + share * change) * change).sum(-1, keepdim=True)

        def both(share: Array) -> tuple[Array, Array]:
            at = torch.as_tensor(share).unsqueeze(-1)
            steepness = slope(at)
            # No step of length zero where a slope overflows, but a bisection.
            steepness = torch.where(torch.isfinite(steepness), steepness, torch.nan)
            return as_array(excess(at).squeeze(-1)), as_array(steepness.squeeze(-1))

        with torch.no_grad():
            whole = torch.ones_like(length)
            inside = excess(whole) <= 0.0  # all of the ray
            start = (0.5 * length / self.constraints.ball).clamp_max(1.0)
            start = torch.where(inside, 1.0, start)
            ends = inside.to(start), whole, start, _RELATIVE_TOLERANCE * self.room * whole
            search = [as_array(each.squeeze(-1)) for each in ends]
            share = torch.as_tensor(minimize_quasiconvex(both, *search)).unsqueeze(-1)
            steepness = slope(share)
            free = (share < 1.0) & (steepness > _TINY)
        # One more step of Newton's method, for its gradient.
        step = excess(share) / torch.where(free, steepness, 1.0)
        share = share - torch.where(free, step, 0.0)
        return self.informed_centre + share * longest, centre + share * change


def points_among(inputs: Tensor, count: int) -> Tensor:
    r"""At most ``count`` distinct points that are spread as ``n x d`` inputs are.

    Each coordinate has the distribution of the inputs' own, interpolated; they are combined
    by a Sobol sequence.
    """
    engine = SobolEngine(inputs.shape[-1])
    engine.fast_forward(1)  # its first point is zero
    ranks = engine.draw(count, dtype=torch.float64).to(inputs)
    columns = zip(inputs.mT, ranks.mT, strict=True)
    return torch.stack([torch.quantile(*each) for each in columns], -1).unique(dim=0)
