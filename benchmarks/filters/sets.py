r"""Ellipsoids of any weights and any radius, cut with the norm ball."""

from typing import Any

from benchmarks.filters.problems import Problem
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.fit.e_processes import Array, EProcesses
from kernelucb.confidence.fit.filters import FilterMixture
from kernelucb.confidence.fit.mixture import Radius
from kernelucb.confidence.martingale_mixture.dual import ExactSet
from kernelucb.confidence.martingale_mixture.problem import (
    mixture_assumptions,
    mixture_problem,
)
from kernelucb.confidence.norm.tracker import NormBound
from kernelucb.regression.filtered import FilteredRegression, SpectralFilter


class Mixture:
    r"""The e-processes of a problem, and the sets that they or others make."""

    def __init__(self, problem: Problem) -> None:
        self.regression = problem.regression
        self.norm = NormBound.given(problem.norm_bound, problem.regression)
        self.delta = problem.delta
        unit = self.norm.value
        self.e_processes = EProcesses(problem.regression, problem.delta, 1.0, unit)
        self.chosen: Any = FilterMixture(self.e_processes).for_band(unit)

    def of_weights(self, weights: Array) -> ConfidenceSet:
        r"""The set of ``J`` weights that sum up to one."""
        squared = self.e_processes.squared_radius(weights)
        return self.of_filter(self.e_processes.spectral_filter(weights), squared)

    def of_filter(self, spectral_filter: SpectralFilter, squared: float) -> ConfidenceSet:
        r"""The set of a filter and a squared radius in noise units."""
        state = FilteredRegression(self.regression, spectral_filter)
        tau = squared / self.norm.value**2
        radius = Radius(tau, squared - float(state.quadratic_form(tau)))
        assumptions = mixture_assumptions(
            "", self.regression, "filters", self.delta, self.norm
        )
        found = mixture_problem(state, radius, self.norm, assumptions, strict=False)
        return ExactSet(found.regression, found.constraints, found.assumptions)
