r"""Martingale-mixture upper confidence bound (Flynn & Reeb 2024)."""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import probability
from kernelucb.acquisition.base import KernelUCB
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.fit.mixture import CovarianceScale, mixture_radius
from kernelucb.confidence.fit.prequential import PREDICTED, PrequentialRadius
from kernelucb.confidence.geometry import (
    Constraints,
    consistent_constraints,
    radius_beside_dropped,
)
from kernelucb.confidence.martingale_mixture import (
    ConvexSet,
    ExactSet,
    GridSet,
    Witness,
    analytic_band,
    attaining_function,
    grid_regularizers,
)
from kernelucb.confidence.noise.joint import JointSet, NoiseBounds
from kernelucb.confidence.norm.least import least_norm
from kernelucb.confidence.norm.tracker import NormBound, NormBoundLike, resolve_norm_bound
from kernelucb.confidence.statements import rkhs_assumptions
from kernelucb.regression import KernelRegression

Form = Literal["dual", "analytic", "convex"]
Alphas = Sequence[float] | Tensor | float | Literal["paper"] | None


class MartingaleMixtureUCB(KernelUCB[KernelRegression]):
    r"""Largest value over the functions that explain the data, anytime.

    ``UCB(x) = max f(x)`` over all functions of norm at most ``norm_bound`` that lie within
    the martingale-mixture radius of the data. Where the assumptions below are true, the
    band ``bounds(X)`` holds the true function at every point and every round at once with
    probability ``1 - delta``, for inputs chosen from the past by any rule.
    ``assumptions`` says which of them were given and which were estimated.

    Source: Flynn & Reeb (2024), Lemma 4.2 with Theorem 4.5 (``form="dual"``), Corollary
    4.6 (``"analytic"``), Theorem 4.4 (``"convex"``). Assumes a kernel and mean fixed
    before the data, conditionally sub-Gaussian noise of scale ``noise_std``,
    ``||f - mean||_H <= norm_bound``, and outcomes that are reported whatever their noise.

    Example:
        >>> acqf = MartingaleMixtureUCB(model, norm_bound=10.0, noise_std=0.1)
        >>> candidate, value = optimize_acqf(acqf, bounds, q=1, num_restarts=8,
        ...                                  raw_samples=256)
        >>> lower, upper = acqf.bounds(X)

    With ``noise_std="unknown"`` the set is one of functions and noise scales together, for
    independent Gaussian noise of one scale: the band needs no number for that scale, and
    ``noise_interval`` holds it, both at every round at once with probability
    ``1 - delta``. Nothing is carried along from round to round.

    Attributes:
        norm_bound: The norm bound in use, outcome units; larger than the one given where
            that contradicts the data.
        least_consistent_norm: Lower bound on the norm, outcome units; it needs all
            assumptions but the one on the norm.
        noise_interval: Lower and upper bound on the noise scale, outcome units; None where
            the scale is known.
    """

    def __init__(
        self,
        model: Model | KernelRegression,
        *,
        norm_bound: NormBoundLike = None,
        noise_std: float | Tensor | Literal["unknown"] | None = None,
        delta: float = 0.05,
        covariance_scale: CovarianceScale | None = None,
        noise_bounds: tuple[float, float] | None = None,
        radius: PrequentialRadius | None = None,
        form: Form = "dual",
        alphas: Alphas = None,
        strict: bool = False,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""Martingale-mixture upper confidence bound.

        Args:
            model: A single-output exact GP such as ``SingleTaskGP``, or a
                ``KernelRegression``.
            norm_bound: Bound on the RKHS norm of ``f - mean`` for the model's
                ``covar_module`` as it stands, in outcome units. By default it is
                estimated from the data, and ``assumptions`` says so; ``"cautious"`` is a
                larger estimate (``NormTracker.cautious()``), and a ``NormTracker`` keeps
                the estimate from falling in later rounds.
            noise_std: Sub-Gaussian noise scale in outcome units, one number or one per
                observation; from the likelihood (or ``train_Yvar``) when absent. With
                ``"unknown"`` the noise is Gaussian of some one scale, and what the model
                says about it is not used.
            delta: Failure probability.
            covariance_scale: Scale ``c`` of the mixture relative to the model's prior.
                Several numbers, or ``"mixture"`` for 17 powers of two from 1/256 to 256,
                mix over ``J`` scales with equal weights: anytime as well, no ``c`` to
                tune, and the squared radius (in noise units) is at most ``2 ln J`` above
                that of the best scale in hindsight. By default 1, and ``"mixture"`` where
                the noise is unknown.
            noise_bounds: With ``noise_std="unknown"``: the smallest and the largest noise
                scale that are possible, outcome units. By default every scale is; the set
                is then tight for scales of 0.001 to 10 prior standard deviations.
            radius: A radius of its own, from predictions by refitted models, of the same
                observations in the same order; noise and ``delta`` are its own, and
                ``covariance_scale`` has no meaning then.
            form: ``"dual"`` is the exact bound (or, with ``alphas``, the minimum over that
                grid), ``"analytic"`` the closed form at one ridge parameter, ``"convex"``
                the exact bound as a cone program (``"dual"`` where the set was empty and
                had to be widened).
            alphas: Ridge parameters in outcome units squared. For ``"dual"`` a grid, or
                ``"paper"`` for the paper's. For ``"analytic"`` one number, by default
                ``noise_std^2 / covariance_scale`` (of the scale that explains the data
                best, where there are several). With one noise scale per observation
                they are read against the largest.
            strict: Raise instead of warning when no function fits all assumptions.
            maximize: If False, the value is minus the lower bound.
            posterior_transform: A ``ScalarizedPosteriorTransform`` with one weight.
            X_pending: ``p x d`` points under evaluation; variances are conditioned on them.

        Raises:
            ValueError: If a scalar is out of its range, or the radius is of other
                observations.
            UnsupportedError: If the model or the transform cannot be represented.
            InputDataError: If the model's data are empty or not finite.
            InconsistentConfidenceSetError: If the set is empty and ``strict`` is set.
        """
        probability("delta", delta)
        given, scale = _known_noise(noise_std, noise_bounds, covariance_scale)
        if radius is not None:
            _check_own_noise(radius, noise_std, delta, covariance_scale)
        regression = KernelRegression.of(model, given)
        joint = None
        if radius is not None:
            if regression.num_observations == radius.num_observations:
                regression = regression.with_noise_std(radius.noise_std)
            fit = radius.radius(regression)
        elif isinstance(noise_std, str):
            bounds = NoiseBounds.of(regression, noise_bounds)
            joint = JointSet.of(regression, delta, scale, bounds)
            regression, fit = joint.regression, joint.radius(math.inf)
        else:
            fit = mixture_radius(regression, delta, scale)
        norm = resolve_norm_bound(norm_bound, regression, fit)
        if joint is not None:
            fit = joint.radius(norm.value)
        fit = radius_beside_dropped(regression, fit, norm.value)
        least = least_norm(regression, fit)
        constraints = consistent_constraints(regression, fit, norm.value, least, strict)
        assumptions = _assumptions(regression, constraints, joint, delta, norm)
        if radius is not None:
            assumptions = assumptions.with_extra(PREDICTED)
        build = _Builder(regression, constraints, assumptions)
        confidence_set = build(form, alphas)
        super().__init__(model, confidence_set, maximize, posterior_transform, X_pending)
        self.function_constraints = constraints
        self.delta = delta
        self.covariance_scale = scale
        self.form = form
        self.norm_bound = constraints.norm * regression.outcome_scale
        self.least_consistent_norm = least * regression.outcome_scale
        self.noise_interval = joint.noise_interval(constraints.norm) if joint else None

    @checked
    def witness(self, X: Tensor, upper: bool = True) -> Witness:
        r"""The function of the confidence set that attains the exact bound at a point.

        Args:
            X: ``1 x d`` point.
            upper: Whether it attains the upper or the lower bound.

        Returns:
            A function that maps ``n x d`` points to ``n`` outcomes, with its norm and its
            distance to the data. It belongs to the exact set whatever the form.
        """
        if X.shape != (1, self.regression.dimension):
            raise BotorchTensorDimensionError(
                f"X must be `1 x {self.regression.dimension}`, got {tuple(X.shape)}."
            )
        self._check_points("X", X)
        exact = ExactSet(self.regression, self.function_constraints, self.assumptions)
        with torch.no_grad():
            return attaining_function(exact, exact.project(X), 1 if upper else -1)


def _known_noise(
    noise_std: float | Tensor | str | None,
    noise_bounds: tuple[float, float] | None,
    covariance_scale: CovarianceScale | None,
) -> tuple[float | Tensor | None, CovarianceScale]:
    r"""The noise scale as the regression takes it, and the covariance scale."""
    if not isinstance(noise_std, str):
        if noise_bounds is not None:
            raise ValueError('noise_bounds are for noise_std="unknown"; leave them out.')
        return noise_std, 1.0 if covariance_scale is None else covariance_scale
    return None, "mixture" if covariance_scale is None else covariance_scale


def _check_own_noise(
    radius: PrequentialRadius,
    noise_std: float | Tensor | str | None,
    delta: float,
    covariance_scale: CovarianceScale | None,
) -> None:
    r"""Nothing may contradict a radius of its own."""
    if noise_std is not None or covariance_scale is not None:
        raise ValueError(
            "radius has its own noise scales and no covariance scale; leave out noise_std "
            "and covariance_scale."
        )
    if delta != radius.delta:
        raise ValueError(f"delta is {delta}, that of radius {radius.delta}.")


def _assumptions(
    regression: KernelRegression,
    constraints: Constraints,
    joint: JointSet | None,
    delta: float,
    norm: NormBound,
) -> Assumptions:
    guarantee, items = None, [constraints.contradiction]
    if joint is not None:
        guarantee = (
            "holds for every point, the noise scale and every round at once with "
            f"probability {1 - delta:.6g}"
        )
        items = [joint.bounds.assumption(), *items]
    assumptions = rkhs_assumptions(
        "Flynn & Reeb (2024)", regression, delta, norm.assumption, guarantee=guarantee
    )
    for item in items:
        assumptions = assumptions if item is None else assumptions.with_item(item)
    return assumptions


class _Builder(NamedTuple):
    r"""Confidence set of each form; ridge parameters become ``tau = alpha / noise^2``."""

    regression: KernelRegression
    constraints: Constraints
    assumptions: Assumptions

    def __call__(self, form: Form, alphas: Alphas) -> ConfidenceSet[Any]:
        if form == "analytic":
            return self.analytic(alphas)
        if form == "convex":
            return self.convex(alphas)
        return self.dual(alphas)

    def analytic(self, alphas: Alphas) -> ConfidenceSet[Any]:
        regularizer = self.constraints.radius.tau_ref
        if alphas is not None:
            if isinstance(alphas, str) or torch.as_tensor(alphas).numel() != 1:
                raise ValueError('form="analytic" takes one ridge parameter as alphas.')
            regularizer = float(self._regularizers(alphas))
        return analytic_band(
            self.regression, self.constraints, regularizer, self.assumptions
        )

    def convex(self, alphas: Alphas) -> ConfidenceSet[Any]:
        if alphas is not None:
            raise ValueError('form="convex" has no ridge parameter; leave out alphas.')
        if self.constraints.contradiction is not None:
            # A relaxed set is nearly one function: too thin for an interior-point solver.
            return self.dual(None)
        return ConvexSet(self.regression, self.constraints, self.assumptions)

    def dual(self, alphas: Alphas) -> ConfidenceSet[Any]:
        if alphas is None:
            return ExactSet(self.regression, self.constraints, self.assumptions)
        grid = self._regularizers(alphas)
        return GridSet(self.regression, self.constraints, grid, self.assumptions)

    def _regularizers(self, alphas: Any) -> Tensor:
        noise_variance = float(self.regression.noise_std.max()) ** 2
        return grid_regularizers(alphas, self.constraints.radius.tau_ref, noise_variance)
