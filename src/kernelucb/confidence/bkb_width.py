r"""The certified width around the posterior of inducing points, at any choice of them."""

import math
from typing import NamedTuple

from torch import Tensor

from kernelucb.regression.lowrank.ridge import Sketched


class Budget(NamedTuple):
    r"""What the widths are computed from, in any units that kernel and outcomes share.

    Attributes:
        num_observations: ``t``.
        summed_variance: ``sum_s var(x_s) / alpha`` over the observations.
        summed_prior_variance: ``sum_s k(x_s, x_s)``, at most ``kappa^2 t``.
        alpha: Ridge parameter.
        log_det: Upper bound on ``ln det(I + K / alpha)``; see ``certified_width``.
        residual: ``sum_s e_s / alpha`` with ``e_s = k(x_s, x_s) - |z(x_s)|^2``.
    """

    num_observations: int
    summed_variance: float
    summed_prior_variance: float
    alpha: float
    log_det: float
    residual: float

    @classmethod
    def of(cls, data: Sketched) -> "Budget":
        r"""What the observations contribute, in their own units."""
        counts, alpha, prior_variance = data.counts, data.sketch.alpha, data.prior_variance
        residual = _residual(data, prior_variance) / alpha
        return cls(
            int(counts.sum()),
            float(counts @ data.variance) / alpha,
            float(counts @ prior_variance),
            alpha,
            data.sketch.log_det + float(residual.log1p().sum()),
            float(residual.sum()),
        )


def _residual(data: Sketched, prior_variance: Tensor) -> Tensor:
    r"""``c_s e_s`` for each input with its number of observations, rounded up."""
    rounding = data.basis.round_off * prior_variance
    return data.counts * (data.residual_variance + rounding)


def certified_width(budget: Budget, norm: float, noise_std: float, delta: float) -> float:
    r"""Multiplier of the latent standard deviation, for all rounds at once.

    With ``g = sum_s e_s / lam`` and ``N = xi / sqrt(lam) sqrt(ln det(I + Z^T Z / lam) +
    sum_s ln(1 + e_s / lam) + 2 ln(1/delta))`` it is, in closed form,
    ``max over 0 <= q <= 1 of sqrt((N + F sqrt(1 + (g - 1) q))^2 + F^2 q)``: at most
    ``N + F sqrt(1 + g)``. Where every observed point is inducing, ``g = 0`` and it is the
    width of Abbasi-Yadkori (2012), Theorem 3.11.

    Source: ours. Nothing is assumed about the inducing points: they may be any, and depend
    on all data, because the noise enters through the kernel itself. In feature space let
    ``Phi`` hold the observed inputs, ``P`` project on the span of the inducing points,
    ``Z = Phi P``, ``R = Phi (I - P)``, ``A = Phi^T Phi + lam I`` and ``V = Z^T Z + lam I``.
    The estimate minus ``f`` at ``x`` is ``phi(x)^T V^-1 w`` with ``w = Z^T noise + Z^T R f
    - lam f``, and ``phi(x)^T V^-1 phi(x) = var(x) / lam``, so by Cauchy-Schwarz the width
    is a bound on ``|w| / sqrt(lam)`` in the norm of ``V^-1``.

    *Noise.* The inverse of a block is at most the block of the inverse, ``P V^-1 P <= P
    A^-1 P`` on the span of ``P``, or ``Z Z^T <= K`` and ``t / (t + lam)`` is operator
    monotone: ``Z V^-1 Z^T <= K (K + lam)^-1``. The self-normalised bound of Abbasi-Yadkori
    gives ``noise^T K (K + lam)^-1 noise <= xi^2 (ln det(I + K / lam) + 2 ln(1/delta))`` in
    all rounds at once. ``K = Z Z^T + R R^T``, and by the inequalities of Fischer (blocks
    ``P`` and ``I - P`` of ``A``) and Hadamard ``det(I + K / lam)`` is at most ``det(I + Z^T
    Z / lam) prod_s (1 + e_s / lam)``. Inputs observed ``c`` times count as one with ``c
    e_s``.

    *Bias.* Let ``q`` be the share of ``|f|^2`` outside the span. ``V`` is ``lam`` there, so
    that part of ``w`` has the square ``lam F^2 q``. Inside, ``V^{-1/2} [Z^T, sqrt(lam) I]``
    has norm one, so ``Z^T R f - lam P f`` has at most the square ``|R f|^2 + lam |P f|^2 <=
    (g lam q + lam (1 - q)) F^2``; the noise adds to this part only.

    Args:
        budget: What the observations contribute.
        norm: Norm bound ``F``.
        noise_std: Noise scale ``xi``.
        delta: Failure probability.
    """
    gain = budget.log_det + 2.0 * math.log(1.0 / delta)
    noise = noise_std * math.sqrt(gain / budget.alpha)
    outside = _worst_share(noise, norm, budget.residual)
    inside = math.sqrt(1.0 + (budget.residual - 1.0) * outside)
    return math.hypot(noise + norm * inside, norm * math.sqrt(outside))


def _worst_share(noise: float, norm: float, residual: float) -> float:
    r"""The ``q`` of the maximum: its square is concave in ``s = sqrt(1 + (g - 1) q)``.

    For ``g < 1`` the derivative is zero at ``s = N (1 - g) / (F g)``.
    """
    rise, fall = noise * (1.0 - residual), norm * residual
    if rise >= fall:
        return 0.0
    if residual >= 1.0 or rise <= fall * math.sqrt(residual):
        return 1.0
    return min((1.0 - (rise / fall) ** 2) / (1.0 - residual), 1.0)
