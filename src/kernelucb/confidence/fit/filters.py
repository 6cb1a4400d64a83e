r"""The fit by a mixture of filters: which weights, and the ellipsoid they make."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from kernelucb.confidence.fit.e_processes import EProcesses
from kernelucb.confidence.fit.mixture import FitConstraint, Radius
from kernelucb.regression import KernelRegression, Projection
from kernelucb.regression.filtered import FilteredRegression

FILTERS_SOURCE = "Mixture of filters (ours; docs/mathematics.md)"

# Steps towards the best weights, each by a share of the way in ln(w). More of them, or
# gradient descent until nothing changes, narrow the band by less than 0.1 %.
_STEPS = (1.0, 0.5, 0.5)
_UNUSED = -50.0  # ln of a weight that does not count
# Where widths are compared: at a quasi-random set in the box of the inputs, and at inputs.
_SPREAD_POINTS, _OBSERVED_POINTS = 32, 16
# Regularisers for that, in units of the squared radius over the squared norm.
_REGULARIZERS = torch.logspace(-4.0, 2.0, 12, dtype=torch.float64)
_SMALLEST = 1e-12  # share of the squared radius that an excess counts at least


class Appraisal(NamedTuple):
    r"""What one weighting achieves.

    Attributes:
        loss: What is to be made small.
        log_weights: Of the members, those that are best for the residuals which decide it,
            up to a constant.
        tau_ref: Regulariser that the ellipsoid is described at.
    """

    loss: float
    log_weights: Tensor
    tau_ref: float


class FilterMixture:
    r"""The fit by a mixture of e-processes, whose weights follow the purpose, anytime.

    Whatever the weights, and though they depend on the data, the true function satisfies
    every constraint of the mixture at all rounds at once with probability ``1 - delta``.

    Source: ours; see ``EProcesses`` and ``docs/mathematics.md``.
    """

    source = FILTERS_SOURCE

    def __init__(self, e_processes: EProcesses) -> None:
        self.e_processes, self.regression = e_processes, e_processes.regression

    def for_band(self, norm: float) -> FitConstraint:
        r"""The constraint of a narrow band, for a norm bound in prior units."""
        widths = _Widths(self.e_processes, reference_points(self.regression), norm)
        return self.best(widths.appraise)

    @torch.no_grad()
    def best(self, appraise: Callable[[Tensor], Appraisal]) -> FitConstraint:
        r"""The constraint of the best weights on the way of a fixed-point iteration.

        For residuals ``eps`` the least constraint is that of weights proportional to the
        members, ``exp((sum_i a_i eps_i^2 - b) / 2)``; but which residuals decide depends
        on the weights. Starts with Flynn & Reeb's member and the energy of the noise.
        """
        log_weights = torch.full_like(self.e_processes.prices, _UNUSED)
        log_weights[0] = 0.0
        chosen, least = log_weights, math.inf
        for step in (*_STEPS, 0.0):
            weights = torch.softmax(log_weights, 0)
            found = appraise(weights)
            if found.loss < least or math.isinf(least):
                chosen, least, tau_ref = weights, found.loss, found.tau_ref
            target = torch.log_softmax(found.log_weights, 0)
            log_weights = torch.log_softmax(log_weights, 0).lerp(target, step)
        return self._constraint(chosen, tau_ref)

    def filtered(self, weights: Tensor) -> FilteredRegression:
        r"""The data, counted by the filter of ``J`` weights."""
        spectral_filter = self.e_processes.spectral_filter(weights)
        return FilteredRegression(self.regression, spectral_filter)

    def _constraint(self, weights: Tensor, tau_ref: float) -> FitConstraint:
        regression = self.filtered(weights)
        squared = float(self.e_processes.squared_radius(weights))
        slack = squared - float(regression.quadratic_form(tau_ref))
        return FitConstraint(regression, Radius(tau_ref, slack))


class _Widths:
    r"""Mean half-width of the exact band at a few points, and what would narrow it.

    The half-width is the least over a few regularisers of ``sqrt(excess var / tau)``, at
    most that of the norm ball.
    """

    def __init__(self, e_processes: EProcesses, points: Projection, norm: float) -> None:
        self.e_processes, self.squared_norm = e_processes, norm**2
        self.eigenvalues = e_processes.regression.eigenvalues
        self.squared_targets = e_processes.regression.targets.square()
        self.squared_features = points.features.square()
        self.residual_variance = points.residual_variance
        self.largest = self.squared_norm * points.prior_variance

    def appraise(self, weights: Tensor) -> Appraisal:
        r"""See ``FilterMixture.best``."""
        filters, lam = self.e_processes.filters, self.eigenvalues
        squared_radius = self.e_processes.squared_radius(weights)
        tau = _REGULARIZERS.to(lam) * (squared_radius / self.squared_norm)
        values = weights @ filters
        inverse = (values * lam + tau.unsqueeze(-1)).reciprocal_()  # t x r
        form = tau * (inverse @ (values * self.squared_targets))
        excess = squared_radius + tau * self.squared_norm - form
        excess = torch.maximum(excess, _SMALLEST * squared_radius).unsqueeze(-1)
        variance = inverse @ self.squared_features.mT  # over tau, t x b
        variance += self.residual_variance / tau.unsqueeze(-1)
        squares = excess * variance
        least, index = squares.min(0)
        widths = torch.minimum(least, self.largest).sqrt()
        # Derivatives of their sum where the fit decides, by excess and by variance.
        share = torch.where(least < self.largest, 1.0 / widths.clamp_min(1e-150), 0.0)
        where = torch.zeros_like(squares).scatter_(0, index.unsqueeze(0), share.unsqueeze(0))
        by_excess = (where * variance).sum(-1)
        by_variance = (where * excess) @ self.squared_features
        inverse.square_()
        pull = (by_excess * tau.square()) @ inverse * self.squared_targets
        pull += (by_variance * inverse).sum(0) * lam
        squared_residuals = pull / by_excess.sum().clamp_min(1e-150)
        log_weights = self.e_processes.log_values(squared_residuals.sqrt())
        best = int(squares.sqrt().mean(-1).argmin())
        return Appraisal(float(widths.mean()), log_weights, float(tau[best]))


@lru_cache(maxsize=64)
def _spread(dimension: int) -> Tensor:
    r"""Quasi-random points in the unit cube; none where there are too many columns."""
    if dimension > SobolEngine.MAXDIM:
        return torch.empty(0, dimension, dtype=torch.float64)
    return SobolEngine(dimension).draw(_SPREAD_POINTS, dtype=torch.float64)


def reference_points(regression: KernelRegression) -> Projection:
    r"""Observed inputs and others in their box; whole numbers where all inputs are."""
    inputs = regression.distinct_inputs
    lower, upper = inputs.aminmax(dim=0)
    spread = lower + (upper - lower) * _spread(inputs.shape[-1]).to(inputs)
    whole = (inputs == inputs.round()).all(0)
    spread = torch.where(whole, spread.round(), spread)
    count = min(len(inputs), _OBSERVED_POINTS)
    rows = torch.linspace(0, len(inputs) - 1, count, device=inputs.device).long()
    return regression.projected(torch.cat([spread, inputs[rows]]))
