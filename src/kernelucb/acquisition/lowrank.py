r"""Upper confidence bounds from few inducing points, at any number of observations."""

from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, probability
from kernelucb._numerics.estimates import Estimate, Number
from kernelucb.acquisition.ucb import BandUCB
from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.confidence.band import Band, inputs_of, rebuildable
from kernelucb.confidence.bkb import BKBRadius, BKBRule
from kernelucb.confidence.dual import ExactSet
from kernelucb.confidence.fit import Fit, fit_of
from kernelucb.confidence.mixture import (
    mixture_assumptions,
    mixture_problem,
)
from kernelucb.confidence.norm import NormBoundLike, as_ball
from kernelucb.confidence.radius import CovarianceScale
from kernelucb.confidence.ridge import RidgeBand
from kernelucb.data import NystromRegression
from kernelucb.data.nystrom import DTCRegression, sketched_state

_SOURCE = (
    "weak duality of Flynn & Reeb (2024), Theorem 4.5, in the span of a few features (ours)"
)
_FITTED_RIDGE = Assumption(
    "ridge parameter",
    "the ridge parameter was fixed before the data; it may have been fitted to them",
    Status.ESTIMATED,
)
_BLOCK = 256  # observed inputs in one part of BKB's certified width, about as a draw costs


@rebuildable(sketched_state)
def bkb(
    model: DTCRegression,
    norm_bound: NormBoundLike,
    noise_std: Number | None,
    delta: float,
    radius: BKBRadius,
    epsilon: float,
) -> Band:
    r"""The band of ``BKBUCB``, from the state of its model."""
    rule = BKBRule(radius, delta, epsilon)
    state = model
    if noise_std is not None:
        positive_scalar("noise_std", noise_std)
        state = model.with_noise_std(noise_std)
    norm = rule.norm(norm_bound, state)
    # The width is in units of the model, which may standardise; the band in outcome units.
    noise = float(state.noise_scales) / state.outcome_scale
    width = rule.width(state.data, norm.value, noise, _BLOCK)
    assumptions = rule.assumptions(state.data, state, norm.assumption)
    if "noise" in model.estimated - state.estimated:
        assumptions = assumptions.with_extra(_FITTED_RIDGE)
    return Band(
        RidgeBand(state, state.regularizer, width, assumptions),
        data=state,
        norm_bounds=(norm.in_outcome_units(state),),
        constants={"width": Estimate(width)},  # from the posterior
    )


class BKBUCB(BandUCB):
    r"""Upper confidence bound of budgeted kernel bandits.

    ``mean(x) +- beta / sqrt(alpha) sd(x)`` with the posterior of BKB's model; a
    prediction costs ``O(m^2)`` for ``m`` inducing points, whatever the number of
    observations.

    Source: the certified radius is ours, by Abbasi-Yadkori (2012), Theorem 3.11, and what
    the inducing points leave of each observed input (``certified_width`` of
    ``kernelucb.confidence.bkb``). It holds for all rounds at once, whatever the
    inducing points and ``qbar``. The posterior, and the other two radii, are those of
    Calandriello et al. (2019): ``radius="theorem2"`` holds for all rounds up to the ``T``
    for which the model's ``qbar`` is large enough (Theorem 1); ``assumptions`` names ``T``,
    and marks the guarantee as violated beyond. ``"practical"`` is the radius of the
    authors' code, which no theorem covers. Assumes a kernel and mean fixed before the data,
    conditionally sub-Gaussian noise of scale ``noise_std``, ``||f - mean||_H <=
    norm_bound``, and outcomes that are reported whatever their noise.

    Example:
        >>> model = BKBModel(train_X, train_Y, kernel, alpha=0.01)
        >>> acqf = BKBUCB(model, norm_bound=1.0, noise_std=0.1, delta=0.05)
        >>> point, value, index = argmax(acqf, candidates)
        >>> model.observe(point, play(point))

    Other arguments and errors: see ``MartingaleMixtureUCB``.

    Args:
        model: A ``BKBModel``, or a GP with a ``BKBVariationalStrategy``, bare or in
            BoTorch's ``ApproximateGPyTorchModel``; as it is now, whatever it learns later.
        noise_std: Sub-Gaussian noise scale, outcome units; the root of the model's
            ``alpha`` when absent.
        radius: ``"certified"``, valid at any ``qbar``; ``"theorem2"``, which needs a large
            ``qbar``; or ``"practical"``, without a guarantee.
        epsilon: Accuracy of the sketch that ``"theorem2"`` assumes; without effect for the
            other radii.
    """

    def __init__(
        self,
        model: Any,
        *,
        norm_bound: NormBoundLike = None,
        noise_std: Number | None = None,
        delta: float = 0.05,
        radius: BKBRadius = "certified",
        epsilon: float = 0.5,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        band = bkb(model, norm_bound, noise_std, delta, radius, epsilon)
        super().__init__(band, maximize, posterior_transform, X_pending, model)


@rebuildable(lambda model: model)
def sketched_mixture(
    model: Any,
    norm_bound: NormBoundLike,
    delta: float,
    fit: Fit,
    covariance_scale: CovarianceScale | None,
) -> Band:
    r"""The band of ``SketchedMartingaleMixtureUCB``."""
    probability("delta", delta)
    if not isinstance(model, NystromRegression):
        raise UnsupportedError(
            f"Expected a NystromRegression, got {type(model).__name__}; build one with "
            "NystromRegression.from_model(model, inducing_points)."
        )
    chosen = fit_of(fit, covariance_scale, delta=delta)
    radius, source = chosen.sketched(model, delta)
    norm = as_ball(norm_bound).resolve(model, radius)
    assumptions = mixture_assumptions(chosen, model, delta, norm, source=source)
    assumptions = assumptions.by(_SOURCE)
    problem = mixture_problem(model, radius, norm, assumptions)
    return Band(
        _SketchedSet(model, problem.constraints, problem.assumptions),
        data=model,
        observed=inputs_of(model),
        norm_bounds=(problem.norm_bound,),
        least_norms=(Estimate(problem.least_consistent_norm),),
        function_constraints=problem.constraints,
    )


class SketchedMartingaleMixtureUCB(BandUCB):
    r"""Martingale-mixture bound from a Nystrom regression, for very many runs, anytime.

    ``MartingaleMixtureUCB`` restricted to weights in the span of a few inducing features.
    If the assumptions below are true, the band holds for every point and every round at
    once with probability ``1 - delta``, for inputs chosen from the past by any rule and
    inducing points chosen in any way; a point costs ``O(m^2)``. With ``fit="martingale"``
    the band is never narrower than the exact band of this fit, and equal to the exact band
    if the inducing points span the observations.

    Source: ours, by weak duality of Flynn & Reeb (2024), Theorem 4.5, with the set of their
    Lemma 4.2, whose radius the default mixes with the energy of the noise; see
    ``NystromRegression``. Assumes a kernel and mean fixed before the data, conditionally
    sub-Gaussian noise of the stated scale, ``||f - mean||_H <= norm_bound``, and outcomes
    that are reported whatever their noise.

    Example:
        >>> state = NystromRegression(X, Y, kernel, 0.1, inducing_points=X[::100])
        >>> acqf = SketchedMartingaleMixtureUCB(state, norm_bound=10.0)
        >>> state = state.observe(new_X, new_Y)  # the next round

    Other arguments and errors: see ``MartingaleMixtureUCB``.

    Args:
        model: A ``NystromRegression``.
        fit: ``"filters"``, ``"martingale"`` or a ``PrequentialRadius``. The radius of
            ``"martingale"`` is an upper bound on the closed form: the variance that the
            inducing points leave at the observations widens it. ``"filters"`` mixes it
            with the energy of the noise, the members that need no spectrum of the kernel
            matrix.
    """

    def __init__(
        self,
        model: Any,
        *,
        norm_bound: NormBoundLike = None,
        delta: float = 0.05,
        fit: Fit = "filters",
        covariance_scale: CovarianceScale | None = None,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        band = sketched_mixture(model, norm_bound, delta, fit, covariance_scale)
        super().__init__(band, maximize, posterior_transform, X_pending, model)


class _SketchedSet(ExactSet):
    r"""The exact set of a sketch, whose sides never cross.

    If no function fits, round-off may swap the two sides of the relaxed set; they are then
    swapped back.
    """

    def bounds(self, X: Tensor) -> tuple[Tensor, Tensor]:
        lower, upper = super().bounds(X)
        if self.constraints.contradiction is None:
            return lower, upper
        return torch.minimum(lower, upper), torch.maximum(lower, upper)
