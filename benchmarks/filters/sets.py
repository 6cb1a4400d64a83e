r"""Ellipsoids of any weights and any radius, cut with the norm ball."""

from typing import Any

from benchmarks.filters.problems import Problem
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.fit.filters import Array, FilterMixture
from kernelucb.confidence.fit.radius import Radius
from kernelucb.confidence.martingale_mixture.dual import ExactSet
from kernelucb.confidence.martingale_mixture.problem import consistent_constraints
from kernelucb.confidence.norm.least import least_norm
from kernelucb.regression.exact import FilteredRegression, SpectralFilter


class Mixture:
    r"""The e-processes of a problem, and the sets that they or others make."""

    def __init__(self, problem: Problem) -> None:
        self.regression = problem.regression
        self.norm = problem.norm_bound  # in prior units: all variances are one
        self.fit = FilterMixture(problem.regression, problem.delta, 1.0, self.norm)
        self.chosen: Any = self.fit.for_band(self.norm)
        self.assumptions = problem.band("filters").assumptions

    def of_weights(self, weights: Array) -> ConfidenceSet:
        r"""The set of ``J`` weights that sum up to one."""
        state = self.fit.constraint(weights).regression
        return self._of(state, self.fit.ellipsoid(weights).squared_radius)

    def of_filter(self, spectral_filter: SpectralFilter, squared: float) -> ConfidenceSet:
        r"""The set of a filter and a squared radius in noise units."""
        return self._of(FilteredRegression(self.regression, spectral_filter), squared)

    def _of(self, state: FilteredRegression, squared: float) -> ConfidenceSet:
        tau = squared / self.norm**2
        radius = Radius(tau, squared - float(state.quadratic_form(tau)))
        least = least_norm(state, radius)
        constraints = consistent_constraints(state, radius, self.norm, least)
        return ExactSet(state, constraints, self.assumptions)
