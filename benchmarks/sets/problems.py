r"""Candidates with several outcomes, and the simulators whose failures are counted."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.runner import sobol_points
from benchmarks.runner.files import BenchmarkError
from benchmarks.runner.simulators import SIMULATORS

TABLES = ["Test", "reaction", "tube"]  # the first comes with VOPy, the others are ours
_COUNT = 60  # candidates of ours


class Table(NamedTuple):
    r"""Candidates in the unit cube, and their outcomes, all to be large, standardised."""

    X: Tensor
    Y: Tensor


def reaction(X: Any) -> Any:
    r"""Yield (%) of the batch reaction, and what it makes in an hour with one to refill."""
    made = SIMULATORS["batch reaction"](X)
    return np.stack([made, made / (1.0 + 0.2 * 100.0 ** X[:, 1])], -1)


def tube(X: Any) -> Any:
    r"""Minus the mass (kg) of a steel tube, and minus the logarithm of its sag (m)."""
    outer, wall = 0.04 + 0.08 * X[:, 0], 0.002 + 0.008 * X[:, 1]  # m; 3 m, one end free
    inner = outer - 2.0 * wall
    mass = 7850.0 * 3.0 * np.pi / 4.0 * (outer**2 - inner**2)
    inertia = np.pi / 64.0 * (outer**4 - inner**4)
    return np.stack([-mass, -np.log(2e3 * 3.0**3 / (3.0 * 2.1e11 * inertia))], -1)


def vopy() -> Any:
    r"""VOPy, made to run with today's BoTorch, and with our tables beside its own.

    Raises:
        BenchmarkError: If it is not installed.
    """
    try:
        from vopy import datasets
        from vopy.algorithms import epal
        from vopy.datasets import dataset
        from vopy.models import gpytorch as models
    except ImportError as error:
        raise BenchmarkError(
            "VOPy is not installed: pip install --no-deps vopy==0.2.0 (it asks for an "
            "older BoTorch, and runs with this one)."
        ) from error
    # What BoTorch asks of a model since 0.12.
    models.BatchIndependentExactGPModel.transform_inputs = lambda self, X: X
    for outcomes, dimension in ((reaction, 3), (tube, 2)):
        X, name = sobol_points(_COUNT, dimension, seed=0).numpy(), outcomes.__name__
        sizes = {"_in_dim": dimension, "_out_dim": 2, "_cardinality": _COUNT}
        made = {"in_data": X, "out_data": outcomes(X), **sizes}
        vars(dataset)[name] = type(name, (datasets.Dataset,), made)
    return epal


def table(name: str) -> Table:
    r"""A table by name, as VOPy scales it."""
    vopy()
    from vopy.datasets import get_dataset_instance

    data = get_dataset_instance(name)
    return Table(*(torch.from_numpy(np.array(x)) for x in (data.in_data, data.out_data)))
