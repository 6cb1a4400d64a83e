r"""The upper confidence bound from few inducing points, at any number of observations."""

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.checks import probability
from kernelucb._numerics.estimates import Estimate
from kernelucb.acquisition.ucb import BandUCB
from kernelucb.confidence.band import Band, inputs_of, rebuildable
from kernelucb.confidence.dual import ExactSet
from kernelucb.confidence.fit import Fit, fit_of, mixture_assumptions
from kernelucb.confidence.mixture import mixture_problem
from kernelucb.confidence.norm import NormBoundLike, as_ball
from kernelucb.confidence.radius import CovarianceScale
from kernelucb.data import NystromRegression

_SOURCE = (
    "weak duality of Flynn & Reeb (2024), Theorem 4.5, in the span of a few features (ours)"
)


@rebuildable(lambda model: model)
def sketched_mixture(
    model: object,
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
    assumptions = mixture_assumptions(chosen, model, delta, norm.assumption, source=source)
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
        model: object,
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
