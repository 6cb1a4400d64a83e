r"""Improved GP-UCB: Chowdhury & Gopalan (2017), On kernelized multi-armed bandits.

The band of Theorem 2 and its upper side. The width, ``igp_ucb_width``, stands in
``kernelucb.confidence.ridge``, where ``KernelBandit`` takes it as well.

What differs from the paper: their ``t eta`` is taken as 2, its largest value with
``eta = 2 / T``.
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
    igp_ucb_theorem,
    ridge_inputs,
)
from kernelucb.data import KernelRegression
from kernelucb.data.from_model import NoiseStd


@rebuildable()
def igp(
    model: Model | KernelRegression,
    norm_bound: NormBoundLike,
    noise_std: NoiseStd,
    delta: float,
    horizon: int,
) -> Band:
    r"""The band of ``IGPUCB``."""
    positive_scalar("horizon", horizon)
    state, norm = ridge_inputs(model, norm_bound, noise_std, delta, one_scale=True)
    if state.num_observations > horizon:
        raise ValueError(
            f"horizon is {horizon}, but there are {state.num_observations} "
            "observations already; the bound holds up to the horizon only."
        )
    noise = float(state.noise_scales[0]) / state.outcome_scale
    whole = igp_ucb_theorem(delta, noise, horizon).band(state, norm)
    return of_state(whole, state, norm_bounds=(norm.in_outcome_units(state),))


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
        noise_std: NoiseStd = None,
        delta: float = 0.05,
        horizon: int = 1000,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        band = igp(model, norm_bound, noise_std, delta, horizon)
        super().__init__(band, maximize, posterior_transform, X_pending, model)
