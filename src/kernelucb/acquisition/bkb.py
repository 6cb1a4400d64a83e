r"""Upper confidence bound of a budgeted GP."""

from typing import Any, Literal

from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar
from kernelucb.acquisition.base import KernelUCB
from kernelucb.confidence.bkb import BKBRule, Budget, SketchedModel
from kernelucb.confidence.norm.tracker import NormBoundLike
from kernelucb.confidence.ridge_band import RidgeBand
from kernelucb.regression.lowrank.ridge import DTCRegression


class BKBUCB(KernelUCB[DTCRegression]):
    r"""Upper confidence bound of budgeted kernel bandits.

    ``mean(x) +- beta / sqrt(alpha) sd(x)`` with the posterior of a ``BKBModel``; a
    prediction costs ``O(m^2)`` for ``m`` inducing points, whatever the number of
    observations.

    Source: Calandriello et al. (2019), Theorem 2 (``radius="certified"``), and the lighter
    radius of the authors' code (``"practical"``), which no theorem covers. The certified
    one holds for all rounds up to the ``T`` that the model's ``qbar`` is enough for
    (Theorem 1); ``assumptions`` names it, and says so where there are more observations.
    Assumes a kernel and mean fixed before the data, conditionally sub-Gaussian noise of
    scale ``noise_std``, ``||f - mean||_H <= norm_bound``, and outcomes that are reported
    whatever their noise.

    Example:
        >>> model = BKBModel(train_X, train_Y, kernel, alpha=0.01)
        >>> acqf = BKBUCB(model, norm_bound=1.0, noise_std=0.1, radius="practical")
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
        radius: Literal["certified", "practical"] = "certified",
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
            radius: ``"certified"``, that of Theorem 2, or ``"practical"``. Whether the band
                is certified depends on ``qbar`` and on what is given as well: see
                ``assumptions``.
            epsilon: Accuracy of the sketch that the certified radius counts on.
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
        noise = float(state.noise_std) / scale
        width = rule.width(Budget.of(model.state), norm.value, noise)
        assumptions = rule.assumptions(state.num_observations, state, norm.assumption)
        band = RidgeBand(state, state.regularizer, width, assumptions)
        super().__init__(model, band, maximize, posterior_transform, X_pending)
        self.norm_bound, self.width = norm.value * scale, width


def _sketched(model: Any) -> SketchedModel:
    if not hasattr(model, "regression") or not hasattr(model, "qbar"):
        raise UnsupportedError(
            f"{type(model).__name__} has no inducing points drawn by posterior variance; "
            "use BKBModel of kernelucb.models."
        )
    return model
