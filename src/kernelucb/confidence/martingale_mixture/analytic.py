r"""The closed-form bound (AMM): one regulariser."""

import torch

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import RidgeStateT
from kernelucb.confidence.geometry import Constraints
from kernelucb.confidence.ridge_band import RidgeBand

ANALYTIC_SOURCE = "Flynn & Reeb (2024), Corollary 4.6"


def analytic_band(
    regression: RidgeStateT,
    constraints: Constraints,
    regularizer: float,
    assumptions: Assumptions,
) -> RidgeBand[RidgeStateT]:
    r"""The ellipsoid around the ridge estimate that holds the confidence set, anytime.

    Source: Flynn & Reeb (2024), Corollary 4.6. At ``tau = 1 / c`` the width is
    ``sqrt(c log_det + 2 c ln(1/delta) + norm^2)`` (Lemma C.2). Valid at any ``tau``; one
    below the ``eigenvalue_cutoff``, where round-off would decide, is raised to it.
    """
    regularizer = max(regularizer, regression.eigenvalue_cutoff)
    tau = torch.tensor(regularizer, dtype=torch.float64).to(regression.eigenvalues)
    excess = constraints.excess(regression, tau).clamp_min(0.0)
    width = float(safe_sqrt(excess / tau))
    return RidgeBand(regression, regularizer, width, assumptions)
