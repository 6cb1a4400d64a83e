r"""Upper confidence bound of a budgeted GP."""

from typing import Any, Literal

from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, probability
from kernelucb.acquisition.base import KernelUCB
from kernelucb.confidence.bkb import (
    bkb_assumptions,
    budget_of,
    certified_width,
    practical_width,
)
from kernelucb.confidence.posterior_band import PosteriorBand, PosteriorState

Radius = Literal["certified", "practical"]


class BKBUCB(KernelUCB[PosteriorState]):
    r"""Upper confidence bound of budgeted kernel bandits.

    ``mean(x) +- beta / sqrt(lam) sd(x)`` with the posterior of a ``BKBModel``; a prediction
    costs ``O(m^2)`` for ``m`` inducing points, whatever the number of observations.

    Source: Calandriello et al. (2019), Theorem 2 (``radius="certified"``), and the lighter
    radius of the authors' code (``"practical"``), which no theorem covers. The certified
    one holds for all rounds up to the ``T`` that the model's ``qbar`` is enough for
    (Theorem 1); ``assumptions`` names it, and says so where there are more observations.
    Assumes a kernel and mean fixed before the data, conditionally sub-Gaussian noise of
    scale ``noise_std``, ``||f - mean||_H <= norm_bound``, and outcomes that are reported
    whatever their noise.

    Example:
        >>> model = BKBModel(train_X, train_Y, kernel, noise_variance=0.01)
        >>> acqf = BKBUCB(model, norm_bound=1.0, noise_std=0.1, radius="practical")
        >>> point, value, index = argmax(acqf, candidates)
        >>> model.observe(point, play(point))

    Attributes:
        width: Multiplier of the latent standard deviation, ``beta / sqrt(lam)``.
    """

    def __init__(
        self,
        model: Any,
        *,
        norm_bound: float,
        noise_std: float | None = None,
        delta: float = 0.05,
        radius: Radius = "certified",
        epsilon: float = 0.5,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""Budgeted upper confidence bound.

        Args:
            model: A ``BKBModel``.
            norm_bound: Bound on the RKHS norm of ``f - mean`` for the kernel as it was
                given to the model, outcome units.
            noise_std: Sub-Gaussian noise scale, outcome units; the root of the model's
                noise variance when absent.
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
        if not hasattr(model, "summed_variance"):
            raise UnsupportedError(
                f"{type(model).__name__} has no inducing points drawn by posterior "
                "variance; use BKBModel of kernelucb.models."
            )
        probability("delta", delta)
        probability("epsilon", epsilon)
        scale = model.outcome_scale
        norm = positive_scalar("norm_bound", norm_bound) / scale
        given = noise_std is not None
        noise = model.noise_variance**0.5
        if given:
            noise = positive_scalar("noise_std", noise_std) / scale
        if radius == "certified":
            width = certified_width(budget_of(model), norm, noise, delta, epsilon)
        elif radius == "practical":
            width = practical_width(budget_of(model), norm, noise, delta)
        else:
            raise ValueError(f'radius must be "certified" or "practical", got {radius!r}.')
        assumptions = bkb_assumptions(
            radius,
            model.num_observations,
            model.qbar,
            delta,
            epsilon,
            norm_bound,
            noise * scale,
            model.estimated,
        )
        band = PosteriorBand(PosteriorState(model), width, assumptions)
        super().__init__(model, band, maximize, posterior_transform, X_pending)
        self.width = width
