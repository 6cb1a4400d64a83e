r"""Widths against sets whose radius is calibrated for one design and one round.

For fixed inputs and Gaussian noise ``eps^T A eps`` has a known distribution, and
``{ f : eps^T A eps <= its 1 - delta quantile, ||f|| <= B }`` holds the function with
probability ``1 - delta`` at this one round. Nothing is paid for other rounds, for inputs
that follow the outcomes, or for noise that is not Gaussian.
"""

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from benchmarks.filters.problems import Problem, setting_name
from benchmarks.filters.sets import Mixture
from benchmarks.filters.width import FITS
from benchmarks.runner import stream
from kernelucb.confidence.fit.filters import Hybrids
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression.exact import SpectralFilter

_PART = 2000


def play_calibrated(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Mean widths, over the domain and at the data, and squared radii.

    ``bands``: of ``FITS``, in their order. ``calibrated``: of each ``A`` of ``forms``, with
    its calibrated radius. ``squared_radius``: of the chosen weights; ``quantile``: the
    calibrated square of the same ``A``.
    """
    task = SimpleNamespace(**settings)
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
    return {
        "bands": bands,
        "calibrated": calibrated,
        "forms": list(filters),
        "squared_radius": radius.squared(state),
        "quantile": quantiles[0],
    }


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


def _quantiles(task: SimpleNamespace, values: np.ndarray) -> list[float]:
    r"""Of ``sum_i a_i eps_i^2`` for each row ``a``, at ``1 - delta``."""
    generator = stream(task.seed, "quantiles", setting_name(task), task.function)
    sums = [
        values @ generator.chisquare(1.0, (values.shape[1], _PART))
        for _ in range(task.simulations // _PART)
    ]
    quantiles = np.quantile(np.concatenate(sums, axis=1), 1.0 - task.delta, axis=1)
    return quantiles.tolist()


def _widths(problem: Problem, band) -> list[float]:
    return list(problem.measure(band)[0].values())
