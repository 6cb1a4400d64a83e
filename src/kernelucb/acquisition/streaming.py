r"""Upper confidence bound that does not know the noise scale."""

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from kernelucb.acquisition.base import RegressionUCB
from kernelucb.confidence.norm.tracker import NormBoundLike
from kernelucb.confidence.streaming import (
    StreamingNoiseTracker,
    corollary_tracker,
    streaming_band,
)
from kernelucb.confidence.unknown_noise import UnknownNoise
from kernelucb.regression import KernelRegression


class StreamingKernelUCB(RegressionUCB):
    r"""Kernel UCB with unknown noise and adaptive regularisation, anytime.

    ``f_alpha +- sqrt(k_alpha / alpha) (sqrt(alpha) B + noise_upper sqrt(D))`` with
    ``alpha = noise_upper^2 / B^2``, where ``noise_upper``, an upper bound on the noise
    scale, comes from the data.

    With a ``tracker`` the noise interval is the one of Corollary 1, a running maximum and
    minimum over all rounds so far. Without one, the corollary takes one step for each
    observation, every step on all data: valid, since the noise bounds hold for every
    regulariser on the same event, but the interval may widen again in the next round.

    Source: Durand, Maillard & Pineau (2018), Corollary 1 at ``delta / 4`` (their Kernel
    UCB, Theorem 4). Assumes a kernel and mean fixed before the data, noise that is
    conditionally sub-Gaussian and second-order sub-Gaussian of one scale (Gaussian noise
    is), ``||f - mean||_H <= norm_bound``, and outcomes that are reported whatever their
    noise. The noise of the model's likelihood is not used.

    Other arguments and errors: see ``MartingaleMixtureUCB``.

    Example:
        >>> acqf = StreamingKernelUCB(
        ...     model, norm_bound=5.0, noise_std=UnknownNoise(0.01, 1.0)
        ... )

    Args:
        norm_bound: Bound on the RKHS norm of ``f - mean``, outcome units. By default that
            of the ``tracker``; without one, or with a ``NormTracker``, it is estimated.
        noise_std: What is known of the noise scale: its lower limit, which must be given,
            and its upper limit or None.
        delta: Failure probability of the band and the noise interval together.
        tracker: Bounds on the noise so far, built with the same limits and norm bound and
            at most this ``delta``. It is updated with the model's data.

    Raises:
        ValueError: If the tracker has other limits, a larger ``delta`` or more observations
            than the model.
        UnsupportedError: If the model has one noise scale for each observation.

    Attributes:
        noise_interval: Lower and upper bound on the noise scale from the data, outcome
            units; the upper one is infinite while no limit is known and the data are few.
        alpha: Ridge parameter ``noise_upper^2 / B^2``, as the prior covariance in
            outcome units squared.
    """

    def __init__(
        self,
        model: Model | KernelRegression,
        *,
        norm_bound: NormBoundLike = None,
        noise_std: UnknownNoise,
        delta: float = 0.05,
        tracker: StreamingNoiseTracker | None = None,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        regression = KernelRegression.of(model)
        tracker, norm = corollary_tracker(tracker, regression, norm_bound, noise_std, delta)
        interval = tracker.observe(regression)
        band = streaming_band(regression, tracker, delta, norm)
        super().__init__(model, band, maximize, posterior_transform, X_pending)
        self.noise_interval = interval
        norm_in_use = regression.norm_in_prior_units(float(tracker.norm_bound))
        self.alpha = (float(interval[1]) / norm_in_use) ** 2
        self.norm_bound = band.assumptions["norm"].number(tracker.norm_bound)
