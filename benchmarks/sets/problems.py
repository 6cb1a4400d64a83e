r"""Candidates with several outcomes, and the simulators whose failures are counted."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.runner import sobol_points
from benchmarks.runner.files import BenchmarkError
from benchmarks.runner.simulators import SIMULATORS

TABLES = ["Test", "reaction"]  # the first comes with VOPy, the other is ours
_COUNT = 60  # candidates of ours


class Table(NamedTuple):
    r"""Candidates in the unit cube, and their outcomes, all to be large, standardised."""

    X: Tensor
    Y: Tensor


def reaction(X: Any) -> Any:
    r"""Yield (%) of the batch reaction, and what it makes in an hour with one to refill."""
    made = SIMULATORS["batch reaction"](X)
    return np.stack([made, made / (1.0 + 0.2 * 100.0 ** X[:, 1])], -1)


def vopy() -> Any:
    r"""VOPy, made to run with today's BoTorch, and with our table beside its own.

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
    X = sobol_points(_COUNT, 3, seed=0).numpy()
    sizes = {"_in_dim": 3, "_out_dim": 2, "_cardinality": _COUNT}
    made = {"in_data": X, "out_data": reaction(X), **sizes}
    vars(dataset)["reaction"] = type("reaction", (datasets.Dataset,), made)
    return epal


def table(name: str) -> Table:
    r"""A table by name, as VOPy scales it."""
    vopy()
    from vopy.datasets import get_dataset_instance

    data = get_dataset_instance(name)
    return Table(*(torch.from_numpy(np.array(x)) for x in (data.in_data, data.out_data)))
