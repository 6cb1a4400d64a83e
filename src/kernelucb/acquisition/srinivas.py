r"""GP-UCB with the betas of Srinivas, Krause, Kakade & Seeger (2010)."""

import math
from typing import Any

from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, probability
from kernelucb.acquisition.base import RegressionUCB
from kernelucb.confidence.ridge_band import fixed_ridge_band
from kernelucb.confidence.srinivas import FiniteDomain, Theorem
from kernelucb.regression import KernelRegression

_FINITE_DOMAIN = FiniteDomain()


class SrinivasUCB(RegressionUCB):
    r"""GP-UCB with the betas of Srinivas et al. (2010), anytime.

    ``posterior mean +- sqrt(scale * beta_t) * posterior sd`` with ``t`` the round about to
    be played (observations plus one), and ``beta_t`` by Theorem 1 (``FiniteDomain``),
    Theorem 2 (``CompactDomain``) or Theorem 3 (``BoundedNorm``).

    Other arguments and errors: see ``MartingaleMixtureUCB``.

    Example:
        >>> acqf = SrinivasUCB(model, theorem=FiniteDomain(size=1000))

    Args:
        theorem: ``FiniteDomain(...)``, ``CompactDomain(...)`` or ``BoundedNorm(...)``.
        scale: Multiplies beta. Any number below 1 (their experiments use 0.2) gives up the
            guarantee, and ``assumptions`` says so.

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
        terms = theorem.terms(KernelRegression.of(model, noise_std), delta)
        assumptions = terms.assumptions
        if scale < 1.0:
            assumptions = assumptions.without_guarantee(
                f"beta is multiplied by {scale:g}; no theorem covers that"
            )
        width = math.sqrt(scale * terms.beta)
        band = fixed_ridge_band(terms.regression, 1.0, width, assumptions)
        super().__init__(model, band, maximize, posterior_transform, X_pending)
        self.beta = terms.beta
