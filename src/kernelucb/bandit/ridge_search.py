r"""Ridge estimates that satisfy a fit and a norm constraint."""

import math
from collections.abc import Callable

import torch

from kernelucb._numerics.roots import increasing_root
from kernelucb.bandit.eigenbasis import RidgeEstimate
from kernelucb.bandit.spectral import SpectralHistory

# Tolerance in ln(tau) of the least norm, and of the most consistent estimate.
_ROOT, _NEAR = 1e-13, 0.05
# Relative round-off of a Schur complement above which a new eigenbasis takes its place.
# Sets are relaxed by a hundred times this share of the norm.
_SCHUR_ERROR = 1e-8
_TINY = torch.finfo(torch.float64).tiny


class RidgeSearch:
    r"""Ridge estimates along ``tau``; with it the misfit rises and the norm falls.

    Args:
        spectrum: The observations.
        squared_radius: Of the fit, noise units.
        norm: Norm bound, prior units.
    """

    def __init__(
        self, spectrum: SpectralHistory, squared_radius: float, norm: float
    ) -> None:
        self.spectrum = spectrum
        self.squared_radius, self.norm = squared_radius, norm

    def satisfied(self, estimate: RidgeEstimate) -> bool:
        r"""Whether an estimate satisfies both constraints."""
        fits = estimate.squared_misfit <= self.squared_radius
        return fits and estimate.squared_norm <= self.norm**2

    def consistent(self, tau: float) -> RidgeEstimate:
        r"""The estimate at ``tau`` if it satisfies both constraints.

        Otherwise the one that satisfies both by the most, or comes nearest to it.
        """
        found = self.estimate(math.log(tau))

        def imbalance(log_tau: float) -> float:
            nonlocal found
            found = self.estimate(log_tau)
            misfit = max(found.squared_misfit / self.squared_radius, _TINY)
            return math.log(misfit / max(found.squared_norm / self.norm**2, _TINY))

        if not self.satisfied(found):
            self._root(imbalance, found.regularizer, _NEAR)
        return found

    def least_norm(self, tau: float) -> float:
        r"""``min ||f - m||`` subject to the fit; infinity where nothing fits.

        As ``kernelucb.confidence.norm.least_norm``, without the whole spectrum; the search
        starts at ``tau``.
        """
        if self.spectrum.squared_targets <= self.squared_radius:
            return 0.0

        def misfit_slack(log_tau: float) -> float:
            return self.estimate(log_tau).squared_misfit - self.squared_radius

        root = self._root(misfit_slack, tau, _ROOT)
        return math.inf if root is None else math.sqrt(self.estimate(root).squared_norm)

    def estimate(self, log_tau: float) -> RidgeEstimate:
        r"""The ridge estimate at ``tau``, with a new eigenbasis where that is needed."""
        tau, spectrum = math.exp(log_tau), self.spectrum
        rounding = torch.finfo(torch.float64).eps * spectrum.largest_variance
        if spectrum.newest > 0 and rounding > _SCHUR_ERROR * spectrum.noise_std**2 * tau:
            spectrum.renew()
        return spectrum.ridge_estimate(tau)

    def _root(
        self, function: Callable[[float], float], tau: float, tolerance: float
    ) -> float | None:
        lowest = math.log(self.spectrum.basis.eigenvalue_cutoff)
        return increasing_root(function, math.log(tau), lowest, tolerance)
