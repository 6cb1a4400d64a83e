r"""The martingale-mixture bound for more observations than a kernel matrix can hold."""

from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.checks import probability
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.acquisition.base import KernelUCB
from kernelucb.confidence.fit.choice import (
    Fit,
    check_fit,
    sketched_fit,
)
from kernelucb.confidence.martingale_mixture.dual import ExactSet
from kernelucb.confidence.martingale_mixture.problem import (
    mixture_assumptions,
    mixture_problem,
)
from kernelucb.confidence.norm.tracker import NormBoundLike, resolve_norm_bound
from kernelucb.regression import NystromRegression

_SOURCE = (
    "weak duality of Flynn & Reeb (2024), Theorem 4.5, in the span of a few features (ours)"
)


class SketchedMartingaleMixtureUCB(KernelUCB[NystromRegression]):
    r"""Martingale-mixture bound from a Nystrom regression, anytime, at any scale.

    ``MartingaleMixtureUCB`` restricted to weights in the span of a few inducing features.
    Where the assumptions below are true, the band holds for every point and every round at
    once with probability ``1 - delta``, for inputs chosen from the past by any rule and
    inducing points chosen in any way; it costs ``O(m^2)`` a point. With
    ``fit="martingale"`` it is never narrower than the exact band of that fit, and equal to
    it where the inducing points span the observations.

    Source: ours, by weak duality of Flynn & Reeb (2024), Theorem 4.5, with the set of their
    Lemma 4.2, whose radius the default mixes with the energy of the noise; see
    ``NystromRegression``. Assumes a kernel and mean fixed before the data, conditionally
    sub-Gaussian noise of the stated scale, ``||f - mean||_H <= norm_bound``, and outcomes
    that are reported whatever their noise.

    Example:
        >>> state = NystromRegression(X, Y, kernel, 0.1, inducing_points=X[::100])
        >>> acqf = SketchedMartingaleMixtureUCB(state, norm_bound=10.0)
        >>> state = state.observe(new_X, new_Y)  # the next round

    Attributes:
        norm_bound: The norm bound in use, outcome units; larger than the one given where
            that contradicts the data.
        least_consistent_norm: Lower bound on the norm, outcome units; it needs all
            assumptions but the one on the norm.
    """

    def __init__(
        self,
        model: Any,
        *,
        norm_bound: NormBoundLike = None,
        delta: float = 0.05,
        fit: Fit = "filters",
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""Sketched martingale-mixture upper confidence bound.

        Args:
            model: A ``NystromRegression``.
            norm_bound: Bound on the RKHS norm of ``f - mean``, outcome units; a
                ``NormTracker``, ``"cautious"`` or None to estimate it from the data.
            delta: Failure probability.
            fit: ``"filters"``, ``"martingale"`` or a ``PrequentialRadius``, as for
                ``MartingaleMixtureUCB``. The radius of ``"martingale"`` is an upper bound
                on the closed form: the variance that the inducing points leave at the
                observations widens it. ``"filters"`` mixes it with the energy of the noise,
                the members that need no spectrum of the kernel matrix.
            maximize: If False, the value is minus the lower bound.
            posterior_transform: A ``ScalarizedPosteriorTransform`` with one weight.
            X_pending: ``p x d`` points under evaluation; variances are conditioned on them.

        Raises:
            ValueError: If a scalar is out of its range, or ``fit`` is of other
                observations.
            UnsupportedError: If the model or the transform cannot be represented.
        """
        probability("delta", delta)
        check_fit(fit, delta)
        state = _state(model)
        radius, source = sketched_fit(fit, state, delta)
        norm = resolve_norm_bound(norm_bound, state, radius)
        assumptions = mixture_assumptions(source, state, fit, delta, norm).by(_SOURCE)
        problem = mixture_problem(state, radius, norm, assumptions)
        exact = _SketchedSet(state, problem.constraints, problem.assumptions)
        super().__init__(model, exact, maximize, posterior_transform, X_pending)
        self.function_constraints = problem.constraints
        self.norm_bound = problem.norm_bound
        self.least_consistent_norm = EstimatedNumber(problem.least_consistent_norm)


class _SketchedSet(ExactSet[NystromRegression]):
    r"""Where no function fits, round-off may put the sides of the relaxed set past each
    other: then the band is what lies between them.
    """

    def bounds(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound at ``b x d`` points; see ``ConfidenceSet``."""
        lower, upper = super().bounds(X)
        if self.constraints.contradiction is None:
            return lower, upper
        return torch.minimum(lower, upper), torch.maximum(lower, upper)


def _state(model: Any) -> NystromRegression:
    if not isinstance(model, NystromRegression):
        raise UnsupportedError(
            f"Expected a NystromRegression, got {type(model).__name__}; build one with "
            "NystromRegression.from_model(model, inducing_points)."
        )
    return model
