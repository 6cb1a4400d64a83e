r"""Widths against sets whose radius is calibrated for one design and one round.

For fixed inputs and Gaussian noise ``eps^T A eps`` has a known distribution, and
``{ f : eps^T A eps <= its 1 - delta quantile, ||f|| <= B }`` holds the function with
probability ``1 - delta`` at this one round. Nothing is paid for other rounds, for inputs
that follow the outcomes, or for noise that is not Gaussian.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.filters import configuration
from benchmarks.filters.problems import Problem
from benchmarks.filters.sets import Mixture
from benchmarks.filters.width import FITS
from benchmarks.runner import stream
from kernelucb.confidence.fit.filters import Hybrids
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression.exact import SpectralFilter

_PART = 2000


@dataclass(frozen=True)
class Task(configuration.Task):
    r"""As that of ``width``, with the number of simulated noises."""

    simulations: int


@dataclass(frozen=True)
class Run:
    r"""Mean widths of one function's bands, over the domain and at the data.

    Attributes:
        bands: Of ``FITS``, in their order.
        calibrated: Of each of ``forms``, with its calibrated radius.
        forms: What ``A`` is.
        squared_radius: Of the chosen weights.
        quantile: The calibrated one of the same ``A``.
    """

    bands: list[list[float]]
    calibrated: list[list[float]]
    forms: list[str]
    squared_radius: float
    quantile: float


def play(task: Task) -> Run:
    r"""Both bands, and the calibrated set of every ``A`` that is tried."""
    problem = Problem.of(task)
    mixture, lam = Mixture(problem), problem.regression.eigenvalues
    filters = _filters(mixture)
    values = torch.stack([each(lam) for each in filters.values()]).numpy()
    quantiles = _quantiles(task, values)
    bands = [_widths(problem, problem.band(fit)) for fit in FITS]
    calibrated = []
    with warnings.catch_warnings():
        # In a share delta of the runs the calibrated set may be empty; it is widened.
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        for each, quantile in zip(filters.values(), quantiles, strict=True):
            calibrated.append(_widths(problem, mixture.of_filter(each, quantile)))
    state, radius = mixture.chosen
    return Run(bands, calibrated, list(filters), radius.squared(state), quantiles[0])


def _filters(mixture: Mixture) -> dict[str, SpectralFilter]:
    r"""The chosen ``A`` first, then the identity, then the hybrids of the norm bound."""
    hybrids = Hybrids.for_norm(mixture.norm)
    corners, floors = hybrids.corners, hybrids.floors
    powers = mixture.norm**2 / hybrids.scales
    nothing = torch.zeros_like(corners)
    found = {"chosen": mixture.chosen.regression.spectral_filter}
    found["identity"] = SpectralFilter(1.0, nothing, floors, corners)
    for index in range(len(corners)):
        weights = nothing.clone()
        weights[index] = 1.0
        name = f"l = {floors[index]:g}, c = B^2 / {powers[index]:.0f}"
        found[name] = SpectralFilter(0.0, weights, floors, corners)
    return found


def _quantiles(task: Task, values: np.ndarray) -> list[float]:
    r"""Of ``sum_i a_i eps_i^2`` for each row ``a``, at ``1 - delta``."""
    setting, protocol = task.setting, task.protocol
    generator = stream(protocol.seed, "quantiles", setting.name, task.function)
    sums = [
        values @ generator.chisquare(1.0, (values.shape[1], _PART))
        for _ in range(task.simulations // _PART)
    ]
    quantiles = np.quantile(np.concatenate(sums, axis=1), 1.0 - protocol.delta, axis=1)
    return quantiles.tolist()


def _widths(problem: Problem, band) -> list[float]:
    return list(problem.measure(band)[0].values())
