r"""Confidence bounds in common use, as thin acquisition functions."""

import math
from typing import Any

from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, probability
from kernelucb.acquisition.base import RegressionUCB
from kernelucb.confidence.noise import UnknownNoise
from kernelucb.confidence.norm import (
    NormBound,
    NormBoundLike,
    norm_bound_under_prior,
)
from kernelucb.confidence.ridge import (
    abbasi_yadkori_band,
    fixed_ridge_band,
    igp_ucb_band,
    wang_de_freitas_band,
)
from kernelucb.confidence.srinivas import FiniteDomain, Theorem
from kernelucb.confidence.streaming import (
    StreamingNoiseTracker,
    streaming_band,
)
from kernelucb.regression import KernelRegression


class AbbasiYadkoriUCB(RegressionUCB):
    r"""Self-normalised bound of Abbasi-Yadkori, anytime.

    ``mean_alpha +- (B + noise_std sqrt(log_det + 2 ln(1/delta)) / sqrt(alpha)) sd_alpha``.

    Source: Abbasi-Yadkori (2012), Theorem 3.11; Durand et al. (2018), Theorem 1. Assumes
    a kernel and mean fixed before the data, conditionally sub-Gaussian noise,
    ``||f - mean||_H <= norm_bound``, and outcomes that are reported whatever their noise.
    Looser than ``MartingaleMixtureUCB(fit="martingale", form="analytic")`` at the same
    ridge parameter.

    Other arguments and errors: see ``MartingaleMixtureUCB``.

    Args:
        alpha: Ridge parameter, outcome units squared; ``noise_std^2`` when absent. With one
            noise scale per observation, relative to the largest noise variance.
    """

    def __init__(
        self,
        model: Model | KernelRegression,
        *,
        norm_bound: NormBoundLike = None,
        noise_std: float | Tensor | None = None,
        delta: float = 0.05,
        alpha: float | None = None,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        regression, norm = _data(self._taken(model), norm_bound, noise_std, delta)
        noise_variance = float(regression.noise_scales.max()) ** 2
        tau = 1.0 if alpha is None else positive_scalar("alpha", alpha) / noise_variance
        band = abbasi_yadkori_band(regression, norm, delta, tau)
        super().__init__(model, band, maximize, posterior_transform, X_pending)
        self.norm_bound = norm.in_outcome_units(regression)


class IGPUCB(RegressionUCB):
    r"""Improved GP-UCB, valid for all rounds up to a horizon.

    Source: Chowdhury & Gopalan (2017), Theorem 2, with ``eta = 2 / horizon`` and
    ``t eta`` taken as 2. Assumptions as for ``AbbasiYadkoriUCB``; one noise scale for all
    observations (the largest, where the model has several).

    Other arguments and errors: see ``MartingaleMixtureUCB``.

    Args:
        horizon: Number of rounds ``T`` that the bound must hold for; at least the number of
            observations.

    Raises:
        ValueError: If there are more observations than ``horizon``.
    """

    def __init__(
        self,
        model: Model | KernelRegression,
        *,
        norm_bound: NormBoundLike = None,
        noise_std: float | Tensor | None = None,
        delta: float = 0.05,
        horizon: int = 1000,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        positive_scalar("horizon", horizon)
        regression, norm = _data(
            self._taken(model), norm_bound, noise_std, delta, one_scale=True
        )
        if regression.num_observations > horizon:
            raise ValueError(
                f"horizon is {horizon}, but there are {regression.num_observations} "
                "observations already; the bound holds up to the horizon only."
            )
        band = igp_ucb_band(regression, norm, delta, horizon)
        super().__init__(model, band, maximize, posterior_transform, X_pending)
        self.norm_bound = norm.in_outcome_units(regression)


class WangDeFreitasUCB(RegressionUCB):
    r"""Bound of Wang & de Freitas, for a fixed design and each round alone (not anytime).

    Source: Wang & de Freitas (2014), Proposition 1, as Lemma 3 of Durand et al. (2018) with
    its last term corrected (see ``wang_de_freitas_band``). Assumptions as for
    ``AbbasiYadkoriUCB``, and inputs that were fixed before the noise: inputs that an
    acquisition function chose from earlier outcomes are not covered, so in a search this is
    a heuristic, and ``assumptions`` says so unless ``fixed_design`` is set. One noise scale
    for all observations (the largest, where the model has several).

    Other arguments and errors: see ``MartingaleMixtureUCB``.

    Args:
        delta: Failure probability of one round.
        fixed_design: Whether the inputs were fixed before any outcome was seen.
    """

    def __init__(
        self,
        model: Model | KernelRegression,
        *,
        norm_bound: NormBoundLike = None,
        noise_std: float | Tensor | None = None,
        delta: float = 0.05,
        fixed_design: bool = False,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        regression, norm = _data(
            self._taken(model), norm_bound, noise_std, delta, one_scale=True
        )
        band = wang_de_freitas_band(regression, norm, delta, fixed_design)
        super().__init__(model, band, maximize, posterior_transform, X_pending)
        self.norm_bound = norm.in_outcome_units(regression)


def _data(
    model: Any,
    norm_bound: NormBoundLike,
    noise_std: float | Tensor | None,
    delta: float,
    one_scale: bool = False,
) -> tuple[KernelRegression, NormBound]:
    r"""The data, with one noise scale where that is wanted, and the norm bound."""
    probability("delta", delta)
    regression = KernelRegression.of(model, noise_std)
    if one_scale:
        regression = regression.with_largest_noise()
    return regression, norm_bound_under_prior(norm_bound, regression, delta)


_FINITE_DOMAIN = FiniteDomain()


class SrinivasUCB(RegressionUCB):
    r"""GP-UCB with the betas of Srinivas et al. (2010), anytime.

    ``posterior mean +- sqrt(scale * beta_t) * posterior sd`` with ``t`` the round about to
    be played (observations plus one), and ``beta_t`` by Theorem 1 (``FiniteDomain``: at the
    points of the domain), Theorem 2 (``CompactDomain``: at the points played) or Theorem 3
    (``BoundedNorm``: at every point).

    Other arguments and errors: see ``MartingaleMixtureUCB``.

    Example:
        >>> acqf = SrinivasUCB(model, theorem=FiniteDomain(size=1000))

    Args:
        theorem: ``FiniteDomain(...)``, ``CompactDomain(...)`` or ``BoundedNorm(...)``.
        scale: Factor of ``beta_t``. A factor below 1 (the paper's experiments use 0.2) has
            no guarantee, and ``assumptions`` says so.

    Attributes:
        beta: ``beta_t``, without ``scale``.
    """

    def __init__(
        self,
        model: Model | KernelRegression,
        *,
        noise_std: float | Tensor | None = None,
        delta: float = 0.05,
        theorem: Theorem = _FINITE_DOMAIN,
        scale: float = 1.0,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        probability("delta", delta)
        positive_scalar("scale", scale)
        known: Any = theorem
        if not isinstance(known, Theorem):
            raise UnsupportedError(
                "theorem must be an instance of FiniteDomain, CompactDomain or "
                f"BoundedNorm, got {theorem!r}."
            )
        terms = theorem.terms(KernelRegression.of(self._taken(model), noise_std), delta)
        assumptions = terms.assumptions
        if scale < 1.0:
            assumptions = assumptions.without_guarantee(
                f"beta is multiplied by {scale:g}; no theorem covers that"
            )
        width = math.sqrt(scale * terms.beta)
        band = fixed_ridge_band(terms.regression, 1.0, width, assumptions)
        super().__init__(model, band, maximize, posterior_transform, X_pending)
        self.beta = terms.beta


class StreamingKernelUCB(RegressionUCB):
    r"""Kernel UCB with unknown noise and adaptive regularisation, anytime.

    ``f_alpha +- sqrt(k_alpha / alpha) (sqrt(alpha) B + noise_upper sqrt(D))`` with
    ``alpha = noise_upper^2 / B^2``, where ``noise_upper``, an upper bound on the noise
    scale, comes from the data.

    With a ``tracker`` the noise interval is the interval of Corollary 1, a running maximum
    and minimum over all rounds so far. Without a tracker the corollary takes one step for
    each observation, every step on all data: valid, since the noise bounds hold for every
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
        norm_bound: Bound on the RKHS norm of ``f - mean``, outcome units. By default the
            norm bound of the ``tracker``; estimated without a ``tracker``, or with a
            ``NormTracker``.
        noise_std: Limits of the noise scale: a lower limit, which is required, and an upper
            limit or None.
        delta: Failure probability of the band and the noise interval together.
        tracker: Bounds on the noise so far, built with the same limits and norm bound and
            at most this ``delta``. It is updated with the model's data.

    Raises:
        ValueError: If the tracker has other limits, a larger ``delta`` or more observations
            than the model.
        UnsupportedError: If the model has one noise scale for each observation.

    Attributes:
        noise_interval: Lower and upper bound on the noise scale from the data, outcome
            units; the upper bound is infinite while no limit is known and data are few.
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
        regression = KernelRegression.of(self._taken(model))
        band, tracker = streaming_band(regression, tracker, norm_bound, noise_std, delta)
        interval = tracker.lower, tracker.upper
        super().__init__(model, band, maximize, posterior_transform, X_pending)
        self.noise_interval = interval
        norm_in_use = float(tracker.norm_bound) / regression.outcome_scale
        self.alpha = (float(interval[1]) / norm_in_use) ** 2
        self.norm_bound = band.assumptions["norm"].number(tracker.norm_bound)
