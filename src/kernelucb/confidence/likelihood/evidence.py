r"""How probable the outcomes are under a mixture of functions, bounded from below."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from kernelucb._numerics.checks import as_double
from kernelucb.regression.likelihood.losses import Expectation, Loss
from kernelucb.regression.likelihood.regression import LikelihoodRegression, Mode

Array = NDArray[np.float64]
_MOST_STEPS, _CONVERGED = 40, 1e-5
_SMALLEST_WEIGHT = 1e-10


class Basis(NamedTuple):
    r"""Orthonormal directions of functions on ``u`` distinct inputs.

    ``f = mean + features w`` there, and ``|w|`` is the norm of ``f - mean``.

    Attributes:
        mean: ``u`` prior means.
        features: ``u x r`` values of the directions.
        squares: The same, squared.
        rest: ``u`` prior variances that no direction explains (round-off).
        eigenvalues: ``r`` sums of squares, weighted by the curvature of the loss.
    """

    mean: Tensor
    features: Tensor
    squares: Tensor
    rest: Tensor
    eigenvalues: Tensor

    @classmethod
    def of(cls, data: LikelihoodRegression, mode: Mode) -> "Basis":
        r"""The eigenbasis of the data where the loss is replaced by parabolas at a mode."""
        curvature = data.loss.curvature(mode.latent)
        curvature = curvature.clamp_min(_SMALLEST_WEIGHT * float(curvature.max()))
        state = data.linearised(mode.latent, curvature.clamp_min(1e-300))
        rows = torch.arange(len(curvature), device=curvature.device)
        features = state.observed_features(rows)
        squares = features.square()
        rest = (data.variance - squares.sum(-1)).clamp_min(0.0)
        return cls(data.mean, features, squares, rest, state.eigenvalues)

    def latent(self, weights: Tensor) -> Tensor:
        r"""Values of a function at the inputs, ``u``."""
        return self.mean + self.features @ weights

    def variance(self, variances: Tensor, regularizer: float) -> Tensor:
        r"""Variances at the inputs of independent weights, ``u`` values."""
        return self.squares @ variances + self.rest / regularizer


def log_evidence(data: LikelihoodRegression, scales: Sequence[float]) -> float:
    r"""Lower bound on the log-evidence of an equal mixture of Gaussian process priors.

    The evidence is ``int prod_i exp(-l_i(f)) dQ(f)``, with ``Q`` an equal mixture of
    ``N(mean, c k)`` over the ``scales`` ``c``. Each part is bounded from below by the
    expectation of the log-likelihood under a Gaussian minus its divergence from the prior,
    whatever Gaussian that is; it is searched for among those with independent coordinates
    in the eigenbasis at the mode, which is the posterior where the loss is a parabola.

    Source: the evidence lower bound (for Gaussian processes Opper & Archambeau 2009); the
    basis in which coordinates are independent is ours.
    """
    regularizer = 1.0 / math.exp(sum(map(math.log, scales)) / len(scales))
    start = data.mode(regularizer, data.most_probable)
    basis = Basis.of(data, start)
    parts = [_Part(data.loss, basis, 1.0 / c).bound(start.latent) for c in scales]
    return float(torch.logsumexp(as_double(parts), 0)) - math.log(len(parts))


class _Part:
    r"""The bound for one scale, as a function of the Gaussian.

    Args:
        loss: At the distinct inputs.
        basis: Of the functions there.
        regularizer: One over the scale.
    """

    def __init__(self, loss: Loss, basis: Basis, regularizer: float) -> None:
        self.loss, self.basis, self.regularizer = loss, basis, regularizer

    def bound(self, latent: Tensor) -> float:
        r"""The largest bound that the search from a Newton step at ``latent`` found."""
        basis, tau = self.basis, self.regularizer
        slope, curvature = self.loss.slope(latent), self.loss.curvature(latent)
        variances = 1.0 / (tau + basis.squares.mT @ curvature)
        target = curvature * (latent - basis.mean) - slope
        mean = (basis.features.mT @ target) / (tau + basis.eigenvalues)
        units = variances.sqrt()

        def unpacked(x: Array) -> tuple[Tensor, Tensor]:
            shift, log_ratio = torch.from_numpy(x).to(mean).chunk(2)
            return mean + units * shift, variances * log_ratio.exp()

        def negative(x: Array) -> tuple[float, Array]:
            value, slopes = self._negative(*unpacked(x))
            slopes = torch.cat([slopes[0] * units, slopes[1]])
            return value, slopes.cpu().numpy()

        origin = np.zeros(2 * len(mean))
        options = {"maxiter": _MOST_STEPS, "maxfun": 2 * _MOST_STEPS, "gtol": _CONVERGED}
        found: Any = minimize(
            negative, origin, jac=True, method="L-BFGS-B", options=options
        )
        at = found.x if found.fun < negative(origin)[0] else origin
        return -self._value(*unpacked(at))

    def _negative(
        self, weights: Tensor, variances: Tensor
    ) -> tuple[float, tuple[Tensor, Tensor]]:
        r"""Minus the bound, nearly, with slopes in weights and log variances."""
        basis, tau = self.basis, self.regularizer
        latent, spread = basis.latent(weights), basis.variance(variances, tau)
        expected: Expectation = self.loss.expected(latent, spread)
        value = float(expected.value.sum()) + self._divergence(weights, variances)
        shift = basis.features.mT @ expected.slope + tau * weights
        bend = basis.squares.mT @ expected.curvature + tau
        return value, (shift, 0.5 * (variances * bend - 1.0))

    def _value(self, weights: Tensor, variances: Tensor) -> float:
        r"""Minus the bound, or a little more."""
        spread = self.basis.variance(variances, self.regularizer)
        expected = self.loss.expected_bound(self.basis.latent(weights), spread)
        return float(expected.sum()) + self._divergence(weights, variances)

    def _divergence(self, weights: Tensor, variances: Tensor) -> float:
        r"""Of the Gaussian from the prior of this scale, nats."""
        ratio = self.regularizer * variances
        parts = self.regularizer * weights.square() + ratio - 1.0 - ratio.log()
        return 0.5 * float(parts.sum())
