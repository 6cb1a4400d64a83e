r"""Upper confidence bound of a budgeted GP."""

from typing import Any

from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar
from kernelucb.acquisition.base import KernelUCB
from kernelucb.confidence.bkb import BKBRadius, BKBRule, SketchedModel
from kernelucb.confidence.norm.tracker import NormBoundLike
from kernelucb.confidence.ridge_band import RidgeBand
from kernelucb.regression.lowrank.dtc import DTCRegression

# Observed inputs that the certified width takes together; about what a draw costs.
_BLOCK = 256


class BKBUCB(KernelUCB[DTCRegression]):
    r"""Upper confidence bound of budgeted kernel bandits.

    ``mean(x) +- beta / sqrt(alpha) sd(x)`` with the posterior of a ``BKBModel``; a
    prediction costs ``O(m^2)`` for ``m`` inducing points, whatever the number of
    observations.

    Source: the certified radius is ours, by Abbasi-Yadkori (2012), Theorem 3.11, and what
    the inducing points leave of each observed input (``certified_width`` of
    ``kernelucb.confidence.bkb``). It holds for all rounds at once, whatever the
    inducing points and ``qbar``. The posterior, and the other two radii, are those of
    Calandriello et al. (2019): ``radius="theorem2"`` holds for all rounds up to the ``T``
    that the model's ``qbar`` is enough for (Theorem 1); ``assumptions`` names it, and says
    so where there are more observations. ``"practical"`` is that of the authors' code; no
    theorem covers it. Assumes a kernel and mean fixed before the data, conditionally
    sub-Gaussian noise of scale ``noise_std``, ``||f - mean||_H <= norm_bound``, and
    outcomes that are reported whatever their noise.

    Example:
        >>> model = BKBModel(train_X, train_Y, kernel, alpha=0.01)
        >>> acqf = BKBUCB(model, norm_bound=1.0, noise_std=0.1, delta=0.05)
        >>> point, value, index = argmax(acqf, candidates)
        >>> model.observe(point, play(point))

    Attributes:
        norm_bound: The norm bound in use, outcome units.
        width: Multiplier of the latent standard deviation, ``beta / sqrt(alpha)``.
    """

    def __init__(
        self,
        model: Any,
        *,
        norm_bound: NormBoundLike = None,
        noise_std: float | None = None,
        delta: float = 0.05,
        radius: BKBRadius = "certified",
        epsilon: float = 0.5,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""Budgeted upper confidence bound.

        Args:
            model: A ``BKBModel``.
            norm_bound: Bound on the RKHS norm of ``f - mean`` for the kernel as it was
                given to the model, outcome units; a ``NormTracker``, ``"cautious"`` or None
                to estimate it from the data.
            noise_std: Sub-Gaussian noise scale, outcome units; the root of the model's
                ``alpha`` when absent.
            delta: Failure probability.
            radius: ``"certified"``, at any ``qbar``; ``"theorem2"``, which needs a large
                one; or ``"practical"``. What each rests on: see ``assumptions``.
            epsilon: Accuracy of the sketch that ``"theorem2"`` counts on; of no meaning
                for the others.
            maximize: If False, the value is minus the lower bound.
            posterior_transform: A ``ScalarizedPosteriorTransform`` with one weight.
            X_pending: ``p x d`` points under evaluation; variances are conditioned on them.

        Raises:
            ValueError: If a scalar is out of its range.
            UnsupportedError: If the model or the transform cannot be represented.
        """
        rule = BKBRule(radius, delta, epsilon, _sketched(model).qbar).checked()
        if noise_std is not None:
            noise_std = positive_scalar("noise_std", noise_std)
        state = model.regression(noise_std)
        norm, scale = rule.norm(norm_bound, state), state.outcome_scale
        noise = float(state.noise_scales) / scale
        width = rule.width(model.state, norm.value, noise, _BLOCK)
        assumptions = rule.assumptions(state.num_observations, state, norm.assumption)
        band = RidgeBand(state, state.regularizer, width, assumptions)
        super().__init__(model, band, maximize, posterior_transform, X_pending)
        self.norm_bound, self.width = norm.in_outcome_units(state), width


def _sketched(model: Any) -> SketchedModel:
    if not hasattr(model, "regression") or not hasattr(model, "qbar"):
        raise UnsupportedError(
            f"{type(model).__name__} has no inducing points drawn by posterior variance; "
            "use BKBModel of kernelucb.models."
        )
    return model
