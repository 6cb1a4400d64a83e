r"""A regression whose outcomes count by a filter of the spectrum."""

from typing import NamedTuple

import torch
from torch import Tensor

from kernelucb.regression.exact import KernelRegression
from kernelucb.regression.state import Projection, RidgeState


class SpectralFilter(NamedTuple):
    r"""``a(lam) = level + sum_j w_j (lam + l_j g_j) / (lam + g_j)``, between 0 and 1."""

    level: float  # what every direction counts
    weights: Tensor  # `J` values `w_j`; with `level` they sum up to at most one
    floors: Tensor  # `J` values `l_j` in `[0, 1)`, the filters' values at `lam = 0`
    corners: Tensor  # `J` values `g_j` above zero, where they turn from `l_j` to one

    def __call__(self, eigenvalues: Tensor) -> Tensor:
        r"""Values at ``r`` eigenvalues, in their order."""
        values = filter_values(self.floors, self.corners, eigenvalues)
        return self.level + self.weights.to(eigenvalues) @ values


def filter_values(floors: Tensor, corners: Tensor, eigenvalues: Tensor) -> Tensor:
    r"""``(lam + l_j g_j) / (lam + g_j)`` at ``r`` eigenvalues, ``J x r``."""
    corners = corners.to(eigenvalues).unsqueeze(-1)
    floors = floors.to(eigenvalues).unsqueeze(-1)
    return (eigenvalues + floors * corners) / (eigenvalues + corners)


class FilteredRegression(RidgeState):
    r"""A state in which direction ``i`` counts ``a_i`` times, ``a_i = filter(lam_i)``.

    The fit ``sum_i a_i (sqrt(lam_i) u_i - z_i)^2`` of a function with coordinates ``u`` is
    that of a state with eigenvalues ``a_i lam_i`` and targets ``sqrt(a_i) z_i``; the
    coordinates of query points stay as they are. ``mean`` and ``variance`` are those of
    the data without the filter.
    """

    def __init__(self, state: KernelRegression, spectral_filter: SpectralFilter) -> None:
        super().__init__()
        self.state, self.spectral_filter = state, spectral_filter
        self.prior, self.estimated = state.prior, state.estimated
        self.dimension, self.eigenvalue_cutoff = state.dimension, state.eigenvalue_cutoff
        values = spectral_filter(state.eigenvalues)
        self._least_filter = float(values[0])
        self.register_buffer("noise_scales", state.noise_scales)
        self._set_spectrum(values * state.eigenvalues, values.sqrt() * state.targets)

    @property
    def scatter(self) -> float:
        r"""Misfit of repeated outcomes alone, whatever the function."""
        rest = len(self.eigenvalues) - len(self.state.distinct_inputs)
        return float(self.targets[:rest].square().sum())

    def hidden_part(self, norm: float) -> float:
        r"""The hidden part of ``state``, times the filter there."""
        return self._least_filter * self.state.hidden_part(norm)

    def project(self, X: Tensor) -> Projection:
        r"""Coordinates as in the state of the data."""
        return self.state.project(X)

    def with_pending(self, X_pending: Tensor) -> RidgeState:
        r"""The state with ``p x d`` raw inputs added that have no outcomes yet.

        They count once each; where the spectrum of all inputs is computed anew, by the
        filter at its eigenvalues.
        """
        with torch.no_grad():
            design = self.state.pending_in(self, X_pending)
        if isinstance(design, KernelRegression):
            return FilteredRegression(design, self.spectral_filter)
        return design

    @property
    def prior_std(self) -> float:
        r"""Prior standard deviation of the outcome (root mean square over the inputs)."""
        return self.state.prior_std

    def mean(self, X: Tensor, regularizer: float | Tensor = 1.0) -> Tensor:
        r"""Ridge estimate of the data at ``b x d`` points; see ``RidgeState``."""
        return self.state.mean(X, regularizer)

    def variance(self, X: Tensor, regularizer: float | Tensor = 1.0) -> Tensor:
        r"""Latent variance of the data at ``b x d`` points; see ``RidgeState``."""
        return self.state.variance(X, regularizer)
