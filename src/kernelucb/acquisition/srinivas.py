r"""GP-UCB with the betas of Srinivas, Krause, Kakade & Seeger (2010)."""

import math
from typing import Literal

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, probability
from kernelucb.acquisition.base import KernelUCB
from kernelucb.confidence.norm.tracker import NormBoundLike, norm_bound_under_prior
from kernelucb.confidence.ridge_band import fixed_ridge_band
from kernelucb.confidence.srinivas import (
    compact_domain_beta,
    finite_domain_beta,
    norm_bound_beta,
)
from kernelucb.confidence.statements import (
    bayesian_assumptions,
    bounded_noise_assumptions,
    compact_domain,
    finite_domain,
)
from kernelucb.regression import KernelRegression

_DOMAIN_SIZE = 1000


class SrinivasUCB(KernelUCB[KernelRegression]):
    r"""GP-UCB with the betas of Srinivas et al. (2010).

    ``posterior mean +- sqrt(scale * beta_t) * posterior sd`` with ``t`` the round about to
    be played (observations plus one). Theorem 1: ``f`` a GP sample on a finite domain.
    Theorem 2: ``f`` a GP sample on a compact domain. Theorem 3: ``f`` of bounded RKHS norm,
    noise bounded by ``noise_std``. Any ``scale`` below 1 (their experiments use 0.2) gives
    up the guarantee, and ``assumptions`` says so.
    """

    def __init__(
        self,
        model: Model | KernelRegression,
        *,
        noise_std: float | Tensor | None = None,
        delta: float = 0.05,
        theorem: Literal[1, 2, 3] = 1,
        domain_size: int | None = None,
        domain_length: float | None = None,
        lipschitz_a: float | None = None,
        lipschitz_b: float | None = None,
        norm_bound: NormBoundLike = None,
        information_gain: float | None = None,
        scale: float = 1.0,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""GP-UCB.

        Args:
            model: A single-output exact GP, or a ``KernelRegression``.
            noise_std: Noise scale, outcome units; from the likelihood when absent.
            delta: Failure probability.
            theorem: 1, 2 or 3.
            domain_size: Theorem 1: number of points of the domain (not its dimension);
                1000 when absent, which counts as an estimate.
            domain_length: Theorem 2: side of the cube that holds the domain.
            lipschitz_a: Theorem 2: ``a`` of the tail bound on the derivatives.
            lipschitz_b: Theorem 2: ``b`` of the tail bound on the derivatives. Each of
                these is 1 when absent, which counts as an estimate.
            norm_bound: Theorem 3: bound on the RKHS norm of ``f - mean``, outcome units; a
                ``NormTracker``, ``"cautious"`` or None to estimate it from the data.
            information_gain: Theorem 3: bound on the maximum information gain of ``t``
                points, nats (see ``kernelucb.information_gain``). When absent, the gain
                of the observed points stands in for it, which is not certified.
            scale: Multiplies beta.
            maximize: If False, the value is minus the lower bound.
            posterior_transform: A ``ScalarizedPosteriorTransform`` with one weight.
            X_pending: ``p x d`` points under evaluation.

        Raises:
            ValueError: If a scalar is out of its range.
            UnsupportedError: If the model or the transform cannot be represented.
        """
        probability("delta", delta)
        positive_scalar("scale", scale)
        regression = KernelRegression.of(model, noise_std)
        source = f"Srinivas et al. (2010), Theorem {theorem}"
        round_number = regression.num_observations + 1
        if theorem == 1:
            size = _DOMAIN_SIZE if domain_size is None else domain_size
            beta = finite_domain_beta(round_number, delta, size)
            domain = f"for every point of a domain of {size} points"
            assumptions = bayesian_assumptions(source, regression, delta, domain)
            assumptions = assumptions.with_extra(finite_domain(size, domain_size is None))
        elif theorem == 2:
            given = (domain_length, lipschitz_a, lipschitz_b)
            length, a, b = (1.0 if value is None else value for value in given)
            beta = compact_domain_beta(
                round_number, delta, regression.dimension, length, a, b
            )
            domain = "for the points played (at the maximiser up to 1/t^2)"
            assumptions = bayesian_assumptions(source, regression, delta, domain)
            assumptions = assumptions.with_extra(
                compact_domain(length, a, b, None in given)
            )
        else:
            regression = regression.with_largest_noise()
            norm = norm_bound_under_prior(norm_bound, regression, delta)
            observed = 0.5 * float(regression.log_det(1.0))
            gain = observed if information_gain is None else information_gain
            positive_scalar("information_gain", gain)
            beta = norm_bound_beta(round_number, delta, norm.value, gain)
            assumptions = bounded_noise_assumptions(
                source, regression, delta, norm.assumption, information_gain, observed
            )
        if scale < 1.0:
            assumptions = assumptions.without_guarantee(
                f"beta is multiplied by {scale:g}; no theorem covers that"
            )
        band = fixed_ridge_band(regression, 1.0, math.sqrt(scale * beta), assumptions)
        super().__init__(model, band, maximize, posterior_transform, X_pending)
        self.beta = beta
