r"""The certified width around the posterior of inducing points, at any choice of them."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from kernelucb.regression.lowrank.arms import SketchedArms
from kernelucb.regression.lowrank.ridge import Sketched
from kernelucb.regression.prior import Prior

# Residuals of less than this share of the ridge parameter in all do not widen the band.
_NEGLIGIBLE = 0.01


class Budget(NamedTuple):
    r"""What the widths are computed from, in any units that kernel and outcomes share.

    Attributes:
        num_observations: ``t``.
        summed_variance: ``sum_s var(x_s) / alpha`` over the observations.
        summed_prior_variance: ``sum_s k(x_s, x_s)``, at most ``kappa^2 t``.
        alpha: Ridge parameter.
        log_det: Upper bound on ``ln det(I + K / alpha)``; see ``certified_width``.
        residual: Upper bound on the largest eigenvalue of ``R R^T / alpha``, what the
            inducing points leave of the kernel matrix.
    """

    num_observations: int
    summed_variance: float
    summed_prior_variance: float
    alpha: float
    log_det: float
    residual: float

    @classmethod
    def of(cls, data: Sketched, block: int = 1) -> "Budget":
        r"""What the observations contribute, in their own units.

        Args:
            data: The observations and their sketch.
            block: How many inputs the bound on the residual takes together: 1 for its
                trace. For ``u`` inputs and ``r`` features ``O(u block (r + block))``.
        """
        alpha = data.sketch.alpha
        seen = _Residuals.of(data)
        singly = (seen.counts * seen.variance / alpha).double()
        residual = float(singly.sum())
        if block > 1 and residual > _NEGLIGIBLE:
            residual = seen.largest_eigenvalue(block) / alpha
        return cls(
            int(data.counts.sum()),
            float(data.counts @ data.variance) / alpha,
            float(data.counts @ data.prior_variance),
            alpha,
            data.sketch.log_det + float(singly.log1p().sum()),
            residual,
        )


class _Residuals(NamedTuple):
    r"""What the inducing points leave of the observed inputs.

    Attributes:
        prior: The kernel.
        inputs: ``u x d`` distinct inputs.
        counts: ``u`` numbers of observations.
        features: ``u x r`` features.
        variance: ``u`` values ``e_s``, rounded up.
        rounding: ``u`` bounds on the error of an inner product of features.
    """

    prior: Prior
    inputs: Tensor
    counts: Tensor
    features: Tensor
    variance: Tensor
    rounding: Tensor

    @classmethod
    def of(cls, data: Sketched) -> "_Residuals":
        r"""Of all observed inputs."""
        rounding = data.basis.round_off * data.prior_variance
        left = data.residual_variance + rounding
        if not isinstance(data, SketchedArms):
            inputs, counts = data.distinct_inputs, data.counts
            return cls(data.prior, inputs, counts, data.features, left, rounding)
        seen = data.observed
        parts = (data.candidates, data.counts, data.features, left, rounding)
        return cls(data.prior, *(part[seen] for part in parts))

    def largest_eigenvalue(self, block: int) -> float:
        r"""Upper bound on that of ``R R^T``: the sum of those of its diagonal blocks."""
        return sum(
            self._part(slice(start, start + block))._largest()
            for start in range(0, len(self.counts), block)
        )

    def _part(self, rows: slice) -> "_Residuals":
        return _Residuals(self.prior, *(part[rows] for part in self[1:]))

    def _largest(self) -> float:
        r"""Largest eigenvalue of all, with repeats, rounded up; at most the trace."""
        matrix = self.prior.covariance(self.inputs, self.inputs)
        matrix = matrix - self.features @ self.features.mT
        matrix = matrix.diagonal_scatter(self.variance)
        weights = self.counts.sqrt()
        values = torch.linalg.eigvalsh(weights.outer(weights) * matrix)
        rounding = float((self.counts * self.rounding).sum())
        trace = float(self.counts @ self.variance)
        return min(max(float(values[-1]), 0.0) + rounding, trace)


def certified_width(budget: Budget, norm: float, noise_std: float, delta: float) -> float:
    r"""Multiplier of the latent standard deviation, for all rounds at once.

    With ``g`` at least the largest eigenvalue of ``R R^T / lam`` and ``N = xi / sqrt(lam)
    sqrt(ln det(I + Z^T Z / lam) + sum_s ln(1 + e_s / lam) + 2 ln(1/delta))`` it is, in
    closed form, ``max over 0 <= q <= 1 of sqrt((N + F sqrt(1 + (g - 1) q))^2 + F^2 q)``: at
    most ``N + F sqrt(1 + g)``. The sum over diagonal blocks of ``R R^T`` of their largest
    eigenvalues is such a ``g``; blocks of one give the trace, ``sum_s e_s / lam``. Where
    every observed point is inducing, ``g = 0``, and the width is that of Abbasi-Yadkori
    (2012), Theorem 3.11.

    Source: ours; ``docs/mathematics.md``, "Few inducing points". Nothing is assumed about
    the inducing points: they may be any, and depend on all data, because the noise enters
    through the kernel itself. Inputs observed ``c`` times count as one with ``c e_s``.

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
