r"""The likelihood of the outcomes under a mixture of functions, bounded from below.

By Ville's inequality the true function's likelihood is then bounded from below as well.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from kernelucb._numerics.arrays import Array
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
from kernelucb.regression.counts import Likelihood, LikelihoodRegression

LIKELIHOOD_SCALES = tuple(4.0**power for power in range(-2, 3))

# Of the search for a Gaussian: steps, evaluations, and a slope in nats at which it ends.
_SEARCH = {"maxiter": 40, "maxfun": 80, "gtol": 1e-5}
# Least curvature of a parabola, over the largest.
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
_REPORTED = (
    "outcomes are not changed after they were observed, their trials or exposures were "
    "fixed before, and whether and when one is reported does not depend on what it is"
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
        independent = data.loss.log_independent(data.mean) + math.log(_INDEPENDENT)
        evidence = np.logaddexp(evidence + math.log1p(-_INDEPENDENT), independent)
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
        instead = {
            "noise": Assumption("likelihood", statement, Status.GIVEN),
            "outcomes": Assumption("outcomes", _REPORTED, Status.GIVEN),
        }
        items = tuple(instead.get(item.name, item) for item in assumptions.items)
        return replace(assumptions, items=items)


@torch.no_grad()
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
    loss, middle = data.loss, sum(map(math.log, scales)) / len(scales)
    latent = data.mode(math.exp(-middle), data.most_probable).latent
    slope, curvature = loss.slope(latent), loss.curvature(latent)
    weights = curvature.clamp_min(_SMALLEST_WEIGHT * float(curvature.max()))
    state = data.linearised(latent, weights.clamp_min(1e-300))
    # Functions are mean + features w, and |w| is the norm: orthonormal directions.
    features = state.observed_features(torch.arange(len(latent), device=latent.device))
    squares = features.square()
    hidden = (data.variance - squares.sum(-1)).clamp_min(0.0)  # by round-off
    precision = squares.mT @ curvature
    target = features.mT @ (curvature * (latent - data.mean) - slope)

    def bound(tau: float) -> float:
        r"""For the prior of variance ``1 / tau`` along each direction."""
        variances = 1.0 / (tau + precision)
        # One step of Newton's from the mode, about which the search is in its units.
        start, units = variances * target, variances.sqrt()

        def negative(x: Tensor, expected: Any) -> Tensor:
            shift, log_ratio = x.chunk(2)
            mean, spread = start + units * shift, variances * log_ratio.exp()
            ratio = tau * spread
            divergence = 0.5 * (tau * mean.square() + ratio - 1.0 - ratio.log()).sum()
            values = data.mean + features @ mean
            return expected(values, squares @ spread + hidden / tau).sum() + divergence

        def with_slope(x: Array) -> tuple[float, Array]:
            at = torch.from_numpy(x).to(start).requires_grad_()
            with torch.enable_grad():
                value = negative(at, loss.expected)
                (slope,) = torch.autograd.grad(value, at)
            return float(value.detach()), slope.cpu().numpy()

        origin: Any = np.zeros(2 * len(start))
        found: Any = minimize(
            with_slope, origin, jac=True, method="L-BFGS-B", options=_SEARCH
        )
        best = found.x if found.fun < with_slope(origin)[0] else origin
        return -float(negative(torch.from_numpy(best).to(start), loss.expected_bound))

    parts = as_double([bound(1.0 / scale) for scale in scales])
    return float(torch.logsumexp(parts, 0)) - math.log(len(scales))
