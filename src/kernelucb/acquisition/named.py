r"""Confidence bounds in common use, as thin acquisition functions."""

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, probability
from kernelucb.acquisition.base import RegressionUCB
from kernelucb.confidence.norm.tracker import (
    NormBound,
    NormBoundLike,
    norm_bound_under_prior,
)
from kernelucb.confidence.ridge_band import (
    ABBASI_YADKORI_SOURCE,
    FIXED_DESIGN,
    IGP_UCB_SOURCE,
    WANG_DE_FREITAS_SOURCE,
    abbasi_yadkori_band,
    igp_ucb_band,
    wang_de_freitas_band,
)
from kernelucb.confidence.statements import rkhs_assumptions
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
            noise scale per observation it is read against the largest.
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
        regression, norm = _data(model, norm_bound, noise_std, delta)
        noise_variance = float(regression.noise_scales.max()) ** 2
        tau = 1.0 if alpha is None else positive_scalar("alpha", alpha) / noise_variance
        assumptions = rkhs_assumptions(
            ABBASI_YADKORI_SOURCE, regression, delta, norm.assumption
        )
        band = abbasi_yadkori_band(regression, norm.value, delta, tau, assumptions)
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
        regression, norm = _data(model, norm_bound, noise_std, delta, one_scale=True)
        if regression.num_observations > horizon:
            raise ValueError(
                f"horizon is {horizon}, but there are {regression.num_observations} "
                "observations already; the bound holds up to the horizon only."
            )
        assumptions = rkhs_assumptions(
            IGP_UCB_SOURCE, regression, delta, norm.assumption, horizon=horizon
        )
        band = igp_ucb_band(regression, norm.value, delta, horizon, assumptions)
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
        regression, norm = _data(model, norm_bound, noise_std, delta, one_scale=True)
        assumptions = rkhs_assumptions(
            WANG_DE_FREITAS_SOURCE, regression, delta, norm.assumption, anytime=False
        )
        if fixed_design:
            assumptions = assumptions.with_extra(FIXED_DESIGN)
        else:
            assumptions = assumptions.without_guarantee(
                "the inputs must have been fixed before any outcome was seen, which an "
                "acquisition function does not do (fixed_design=True if they were)",
                name=FIXED_DESIGN.name,
            )
        band = wang_de_freitas_band(regression, norm.value, delta, assumptions)
        super().__init__(model, band, maximize, posterior_transform, X_pending)
        self.norm_bound = norm.in_outcome_units(regression)


def _data(
    model: Model | KernelRegression,
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
