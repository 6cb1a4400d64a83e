r"""Posterior band of one round: Wang & de Freitas (2014), Theoretical analysis of Bayesian
optimisation with unknown Gaussian process hyper-parameters.

The band of Proposition 1 (``wang_de_freitas_band``) and its upper side.

What differs from the paper: the form is that of Lemma 3 of Durand, Maillard & Pineau
(2018), with the last term in noise units, since the band fails with the printed one; and a
search, whose inputs follow from outcomes, has no guarantee.
"""

import math

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from kernelucb.acquisition.bounds import RegressionUCB, of_state
from kernelucb.confidence.assumptions import Assumption, Status, rkhs_assumptions
from kernelucb.confidence.band import Band, rebuildable
from kernelucb.confidence.norm import (
    NormBound,
    NormBoundLike,
)
from kernelucb.confidence.ridge import (
    RidgeBand,
    fixed_ridge_band,
    ridge_inputs,
)
from kernelucb.data import KernelRegression
from kernelucb.data.from_model import NoiseStd

_WANG_DE_FREITAS_SOURCE = (
    "Wang & de Freitas (2014), Proposition 1 (Durand, Maillard & Pineau (2018), Lemma 3), "
    "its last term in noise units (ours)"
)
FIXED_DESIGN = Assumption(
    "design", "the inputs were fixed before any outcome was seen", Status.GIVEN
)


def wang_de_freitas_band(
    regression: KernelRegression, norm: NormBound, delta: float, fixed_design: bool
) -> RidgeBand:
    r"""Posterior band of width ``l``, for fixed inputs and each round alone.

    ``l^2 = B^2 + sqrt(8 g ln(2/delta)) + sqrt(2 ln(4/delta)) B + 2 g + 2 ln(2/delta)`` with
    ``g`` half the log-determinant and ``B`` the norm bound, for one noise scale.

    Source: Wang & de Freitas (2014), Proposition 1, as Lemma 3 of Durand, Maillard &
    Pineau (2018), whose last term is printed as ``2 noise_std ln(2/delta)``. In the units
    of its other terms it is ``2 ln(2/delta)``; with the printed one the band fails far
    more often than ``delta`` where ``noise_std`` is below one.
    """
    gain = 0.5 * float(regression.log_det(1.0))
    squared = (
        norm.value**2
        + math.sqrt(8.0 * gain * math.log(2.0 / delta))
        + math.sqrt(2.0 * math.log(4.0 / delta)) * norm.value
        + 2.0 * gain
        + 2.0 * math.log(2.0 / delta)
    )
    assumptions = rkhs_assumptions(
        _WANG_DE_FREITAS_SOURCE, regression, delta, norm.assumption, anytime=False
    )
    if fixed_design:
        assumptions = assumptions.with_extra(FIXED_DESIGN)
    else:
        assumptions = assumptions.without_guarantee(
            "the inputs must have been fixed before any outcome was seen, which an "
            "acquisition function does not do (fixed_design=True if they were)",
            kind=FIXED_DESIGN.kind,
        )
    return fixed_ridge_band(regression, 1.0, math.sqrt(squared), assumptions)


@rebuildable()
def wang_de_freitas(
    model: Model | KernelRegression,
    norm_bound: NormBoundLike,
    noise_std: NoiseStd,
    delta: float,
    fixed_design: bool,
) -> Band:
    r"""The band of ``WangDeFreitasUCB``."""
    state, norm = ridge_inputs(model, norm_bound, noise_std, delta, one_scale=True)
    whole = wang_de_freitas_band(state, norm, delta, fixed_design)
    return of_state(whole, state, norm_bounds=(norm.in_outcome_units(state),))


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
        noise_std: NoiseStd = None,
        delta: float = 0.05,
        fixed_design: bool = False,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        band = wang_de_freitas(model, norm_bound, noise_std, delta, fixed_design)
        super().__init__(band, maximize, posterior_transform, X_pending, model)
