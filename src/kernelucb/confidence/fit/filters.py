r"""The fit by a mixture of filters: which weights, and the ellipsoid they make."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from kernelucb.confidence.fit.e_processes import Array, EProcesses
from kernelucb.confidence.fit.mixture import FitConstraint, Radius
from kernelucb.regression import RidgeState
from kernelucb.regression.filtered import FilteredRegression

FILTERS_SOURCE = "Mixture of filters (ours; docs/mathematics.md)"

# Steps towards the best weights, each by a share of the way in ln(w). More of them, or
# gradient descent until nothing changes, narrow the band by less than 0.1 %.
_STEPS = (1.0, 0.5, 0.5)
# Shares of the first member that are tried beside one hybrid.
_SHARES = (1.0, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.03)
_UNUSED = -50.0  # ln of a weight that does not count
# Widths are compared at so many observed inputs; at others too, nothing is gained.
_POINTS = 16
# Regularisers for that, in units of the squared radius over the squared norm.
_REGULARIZERS = np.logspace(-4.0, 2.0, 12)
_TINY = 1e-150
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
    log_weights: Array
    tau_ref: float


class Weighting(NamedTuple):
    r"""``J`` weights that sum up to one.

    Attributes:
        weights: Of the members.
        loss: Mean half-width.
        gain: Share of it that they take off beside the first member alone.
    """

    weights: Array
    loss: float
    gain: float = 0.0


class FilterMixture:
    r"""The fit by a mixture of e-processes, whose weights follow the purpose, anytime.

    Whatever the weights, and though they depend on the data, the true function satisfies
    every constraint of the mixture at all rounds at once with probability ``1 - delta``.

    Source: ours; see ``EProcesses`` and ``docs/mathematics.md``.
    """

    def __init__(self, e_processes: EProcesses) -> None:
        self.e_processes, self.regression = e_processes, e_processes.regression

    @property
    def alone(self) -> FitConstraint[RidgeState]:
        r"""The constraint of Flynn & Reeb's member."""
        return FitConstraint(self.regression, self.e_processes.predicted)

    def for_band(self, norm: float) -> FitConstraint[FilteredRegression]:
        r"""The constraint of a narrow band, for a norm bound in prior units."""
        return self.best(_Widths(self.e_processes, norm).appraise).beside_hidden(norm)

    def two_for_band(self, norm: float) -> Weighting:
        r"""As ``for_band`` with the first member and one hybrid.

        The one with the largest weight in the whole mixture; its share is the best of a
        few.
        """
        appraise = _Widths(self.e_processes, norm).appraise
        weights = np.zeros(len(self.e_processes.prices))
        largest = 1 + int(self._search(appraise)[0][1:].argmax())
        found: list[Weighting] = []
        for share in _SHARES:
            weights[[0, largest]] = share, 1.0 - share
            found.append(Weighting(weights.copy(), appraise(weights).loss))
        best = min(found, key=lambda weighting: weighting.loss)
        return best._replace(gain=1.0 - best.loss / found[0].loss)

    def best(
        self, appraise: Callable[[Array], Appraisal], num_steps: int = len(_STEPS)
    ) -> FitConstraint[FilteredRegression]:
        r"""The constraint of the best weights, as ``appraise`` says."""
        return self.constraint(*self._search(appraise, num_steps))

    @torch.no_grad()
    def _search(
        self, appraise: Callable[[Array], Appraisal], num_steps: int = len(_STEPS)
    ) -> tuple[Array, float]:
        r"""The best weights on the way of a fixed-point iteration, and their ``tau_ref``.

        For residuals ``eps`` the least constraint is that of weights proportional to the
        members, ``exp((sum_i a_i eps_i^2 - b) / 2)``; but which residuals decide depends
        on the weights. Starts with Flynn & Reeb's member and the energy of the noise.
        """
        log_weights = np.full(len(self.e_processes.prices), _UNUSED)
        log_weights[0] = 0.0
        chosen, least, tau_ref = _normalized(log_weights), math.inf, 1.0
        for step in (*_STEPS[:num_steps], 0.0):
            weights = _normalized(log_weights)
            found = appraise(weights)
            if found.loss < least:
                chosen, least, tau_ref = weights, found.loss, found.tau_ref
            target = np.maximum(found.log_weights - found.log_weights.max(), _UNUSED)
            log_weights = (1.0 - step) * log_weights + step * target
        return chosen, tau_ref

    def filtered(self, weights: Array) -> FilteredRegression:
        r"""The data, counted by the filter of ``J`` weights."""
        spectral_filter = self.e_processes.spectral_filter(weights)
        return FilteredRegression(self.regression, spectral_filter)

    def constraint(
        self, weights: Array, tau_ref: float = 1.0
    ) -> FitConstraint[FilteredRegression]:
        r"""The constraint of ``J`` weights that sum up to one."""
        regression = self.filtered(weights)
        squared = self.e_processes.squared_radius(weights)
        slack = squared - float(regression.quadratic_form(tau_ref))
        return FitConstraint(regression, Radius(tau_ref, slack))


class _Widths:
    r"""Mean half-width of the exact band at observed inputs, and what would narrow it.

    The half-width is the least over a few regularisers of ``sqrt(excess var / tau)``, at
    most that of the norm ball.
    """

    def __init__(self, e_processes: EProcesses, norm: float) -> None:
        self.e_processes, self.squared_norm = e_processes, norm**2
        state = e_processes.regression
        self.hidden_part = state.hidden_part(norm)
        count = len(state.distinct_variance)
        rows = torch.linspace(0, count - 1, min(count, _POINTS)).long()
        features, variance = state.observed_features(rows), state.distinct_variance[rows]
        self.eigenvalues = state.eigenvalues.cpu().numpy()
        self.squared_targets = state.targets.cpu().numpy() ** 2
        self.squared_features = features.cpu().numpy() ** 2
        self.largest = self.squared_norm * variance.cpu().numpy()

    def appraise(self, weights: Array) -> Appraisal:
        r"""See ``FilterMixture.best``."""
        filters, lam = self.e_processes.filters, self.eigenvalues
        values = weights @ filters
        squared_radius = self.e_processes.squared_radius(weights)
        squared_radius += float(values[0]) * self.hidden_part
        tau = _REGULARIZERS * (squared_radius / self.squared_norm)
        inverse = 1.0 / (values * lam + tau[:, None])  # t x r
        form = tau * (inverse @ (values * self.squared_targets))
        excess = squared_radius + tau * self.squared_norm - form
        excess = np.maximum(excess, _SMALLEST * squared_radius)[:, None]
        variance = inverse @ self.squared_features.T  # over tau, t x b
        squares = excess * variance
        index, columns = squares.argmin(0), np.arange(squares.shape[1])
        least = squares[index, columns]
        widths = np.sqrt(np.minimum(least, self.largest))
        # Derivatives of their sum where the fit decides, by excess and by variance.
        inside = least < self.largest
        share = np.zeros_like(squares)
        share[index[inside], columns[inside]] = 1.0 / widths[inside]
        by_excess = (share * variance).sum(-1)
        by_variance = (share * excess) @ self.squared_features
        inverse *= inverse
        pull = (by_excess * tau**2) @ inverse * self.squared_targets
        pull += (by_variance * inverse).sum(0) * lam
        residuals = pull / max(float(by_excess.sum()), _TINY)
        best = int(np.sqrt(squares).sum(-1).argmin())
        residuals *= self.e_processes.decisive_share(weights)
        log_weights = self.e_processes.log_values(residuals)
        return Appraisal(float(widths.mean()), log_weights, float(tau[best]))


def _normalized(log_weights: Array) -> Array:
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()
