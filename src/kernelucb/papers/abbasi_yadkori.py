r"""Self-normalised bound: Abbasi-Yadkori (2012), Online learning for linearly
parametrized control problems.

The band of Theorem 3.11 and its upper side. The width, ``abbasi_yadkori_width``, stands in
``kernelucb.confidence.ridge``, where ``KernelBandit`` takes it as well.

What differs from the thesis: kernels in place of finitely many features, as in Theorem 1 of
Durand, Maillard & Pineau (2018), and whitened outcomes, each with its own noise scale.
"""

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar
from kernelucb.acquisition.bounds import RegressionUCB, of_state
from kernelucb.confidence.band import Band, rebuildable
from kernelucb.confidence.norm import (
    NormBoundLike,
)
from kernelucb.confidence.ridge import (
    abbasi_yadkori_theorem,
    ridge_inputs,
)
from kernelucb.data import KernelRegression
from kernelucb.data.from_model import NoiseStd


@rebuildable()
def abbasi_yadkori(
    model: Model | KernelRegression,
    norm_bound: NormBoundLike,
    noise_std: NoiseStd,
    delta: float,
    alpha: float | None,
) -> Band:
    r"""The band of ``AbbasiYadkoriUCB``."""
    state, norm = ridge_inputs(model, norm_bound, noise_std, delta, one_scale=False)
    noise_variance = float(state.noise_scales.max()) ** 2
    tau = 1.0 if alpha is None else positive_scalar("alpha", alpha) / noise_variance
    whole = abbasi_yadkori_theorem(delta, tau).band(state, norm)
    return of_state(whole, state, norm_bounds=(norm.in_outcome_units(state),))


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
        noise_std: NoiseStd = None,
        delta: float = 0.05,
        alpha: float | None = None,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        band = abbasi_yadkori(model, norm_bound, noise_std, delta, alpha)
        super().__init__(band, maximize, posterior_transform, X_pending, model)
