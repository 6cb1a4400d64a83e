r"""The likelihood of the outcomes under a mixture of functions, bounded from below.

By Ville's inequality the true function's likelihood is then bounded from below as well.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from kernelucb._numerics.checks import as_double
from kernelucb.confidence.assumptions import (
    Assumption,
    Assumptions,
    Knowledge,
    Status,
    rkhs_assumptions,
)
from kernelucb.confidence.fit import MixtureFit
from kernelucb.confidence.radius import CovarianceScale, covariance_scales
from kernelucb.regression.likelihood.losses import Likelihood, Loss
from kernelucb.regression.likelihood.regression import LikelihoodRegression, Mode

LIKELIHOOD_SCALES = tuple(4.0**power for power in range(-2, 3))

Array = NDArray[np.float64]
_MOST_STEPS, _CONVERGED = 40, 1e-5
_SMALLEST_WEIGHT = 1e-10
# Prior weight of values at each input that no kernel connects: 0.1 nats for the others.
_INDEPENDENT = 0.1
_SOURCE = (
    "Likelihood ratio with a mixture (Emmenegger et al. 2023), evidence bounded (ours)"
)
_OUTCOMES: dict[Likelihood, str] = {
    "bernoulli": "is 1 with probability sigmoid(f(x)), else 0",
    "binomial": "is a number of successes, each with probability sigmoid(f(x)), in a "
    "number of trials that was fixed before",
    "poisson": "is a Poisson count of mean exposure * exp(f(x)), with an exposure that was "
    "fixed before",
}
_REPORTED = Assumption(
    "outcomes",
    "outcomes are not changed after they were observed, their trials or exposures were "
    "fixed before, and whether and when one is reported does not depend on what it is",
    Status.GIVEN,
)


class Ratio(NamedTuple):
    r"""The likelihood-ratio constraint for counts, in place of a fit.

    Attributes:
        delta: Failure probability.
        covariance_scale: Scales of the mixture ``N(mean, c k)``, fixed before the data.
    """

    delta: float
    covariance_scale: CovarianceScale = LIKELIHOOD_SCALES

    @classmethod
    def of(cls, delta: float, fit: object) -> "Ratio":
        r"""With the scales of a fit, or the default scales."""
        scales = fit.covariance_scale if isinstance(fit, MixtureFit) else None
        return cls(delta) if scales is None else cls(delta, scales)

    def level(self, data: LikelihoodRegression) -> float:
        r"""Upper bound on the sum of the losses of the true function, anytime.

        Beside Gaussian processes the mixture has a part with independent values at each
        input, under which no kernel connects the inputs: so the data can contradict a
        kernel that is too smooth.

        Source: the likelihood ratio of Emmenegger et al. (2023) with Ville's inequality;
        the bound on the evidence is ours, see ``docs/mathematics.md``.
        """
        evidence = log_evidence(data, covariance_scales(self.covariance_scale))
        independent = data.loss.log_independent(data.mean)
        if independent is not None:
            shares = math.log1p(-_INDEPENDENT), math.log(_INDEPENDENT)
            evidence = np.logaddexp(shares[0] + evidence, shares[1] + independent)
        return math.log(1.0 / self.delta) - float(evidence)

    def assumptions(
        self, likelihood: Likelihood, estimated: frozenset[str], norm: Assumption
    ) -> Assumptions:
        r"""The assumptions of a set; ``norm`` is the assumption on its norm bound.

        ``estimated`` is the subset of ``"kernel"`` and ``"mean"`` that was fitted to the
        data.
        """
        known = Knowledge(estimated, torch.ones(1))
        assumptions = rkhs_assumptions(_SOURCE, known, self.delta, norm)
        statement = f"given the past, the outcome at x {_OUTCOMES[likelihood]}"
        own = {
            "noise": Assumption("likelihood", statement, Status.GIVEN),
            "outcomes": _REPORTED,
        }
        items = tuple(own.get(item.name, item) for item in assumptions.items)
        return replace(assumptions, items=items)


def log_evidence(data: LikelihoodRegression, scales: Sequence[float]) -> float:
    r"""Lower bound on the log-evidence of an equal mixture of Gaussian process priors.

    The evidence is ``int prod_i exp(-l_i(f)) dQ(f)``, with ``Q`` an equal mixture of
    ``N(mean, c k)`` over the ``scales`` ``c``. Any Gaussian gives a lower bound on each
    part: the expected log-likelihood under the Gaussian minus its divergence from the
    prior. The best Gaussian is searched for among those with independent coordinates in the
    eigenbasis at the mode; the posterior is of this kind if the loss is a parabola.

    Source: the evidence lower bound (for Gaussian processes Opper & Archambeau 2009); the
    basis in which coordinates are independent is ours.
    """
    regularizer = 1.0 / math.exp(sum(map(math.log, scales)) / len(scales))
    start = data.mode(regularizer, data.most_probable)
    basis = _Basis.of(data, start)
    parts = [basis.evidence_bound(start.latent, 1.0 / scale) for scale in scales]
    return float(torch.logsumexp(as_double(parts), 0)) - math.log(len(parts))


class _Basis(NamedTuple):
    r"""Orthonormal directions of functions on ``u`` distinct inputs.

    ``f = mean + features w`` there, and ``|w|`` is the norm of ``f - mean``. Gaussians have
    independent ``w`` of some means and variances; the prior has the variance ``1 / tau``.
    """

    loss: Loss  # at the inputs
    mean: Tensor  # `u` prior means
    features: Tensor  # `u x r` values of the directions
    squares: Tensor  # the same, squared
    rest: Tensor  # `u` prior variances that no direction explains (round-off)

    @classmethod
    def of(cls, data: LikelihoodRegression, mode: Mode) -> "_Basis":
        r"""The eigenbasis of the data where the loss is replaced by parabolas at a mode."""
        curvature = data.loss.curvature(mode.latent)
        curvature = curvature.clamp_min(_SMALLEST_WEIGHT * float(curvature.max()))
        state = data.linearised(mode.latent, curvature.clamp_min(1e-300))
        rows = torch.arange(len(curvature), device=curvature.device)
        features = state.observed_features(rows)
        squares = features.square()
        rest = (data.variance - squares.sum(-1)).clamp_min(0.0)
        return cls(data.loss, data.mean, features, squares, rest)

    def evidence_bound(self, latent: Tensor, tau: float) -> float:
        r"""The largest bound that the search from a Newton step at ``latent`` found."""
        slope, curvature = self.loss.slope(latent), self.loss.curvature(latent)
        variances = 1.0 / (tau + self.squares.mT @ curvature)
        target = curvature * (latent - self.mean) - slope
        mean = variances * (self.features.mT @ target)
        units = variances.sqrt()

        def gaussian(x: Tensor) -> tuple[Tensor, Tensor]:
            shift, log_ratio = x.chunk(2)
            return mean + units * shift, variances * log_ratio.exp()

        def negative(x: Array) -> tuple[float, Array]:
            at = torch.from_numpy(x).to(mean).requires_grad_()
            with torch.enable_grad():
                value = self._negative(self.loss.expected, *gaussian(at), tau)
                (slope,) = torch.autograd.grad(value, at)
            return float(value.detach()), slope.cpu().numpy()

        origin = np.zeros(2 * len(mean))
        options = {"maxiter": _MOST_STEPS, "maxfun": 2 * _MOST_STEPS, "gtol": _CONVERGED}
        found: Any = minimize(
            negative, origin, jac=True, method="L-BFGS-B", options=options
        )
        at = found.x if found.fun < negative(origin)[0] else origin
        best = gaussian(torch.from_numpy(at).to(mean))
        return -float(self._negative(self.loss.expected_bound, *best, tau))

    def _negative(
        self,
        expected: Callable[[Tensor, Tensor], Tensor],
        weights: Tensor,
        variances: Tensor,
        tau: float,
    ) -> Tensor:
        r"""The expected loss, and the divergence of the Gaussian from the prior; nats."""
        latent = self.mean + self.features @ weights
        spread = self.squares @ variances + self.rest / tau
        ratio = tau * variances
        divergence = 0.5 * (tau * weights.square() + ratio - 1.0 - ratio.log()).sum()
        return expected(latent, spread).sum() + divergence
