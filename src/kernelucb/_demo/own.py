r"""A black box of the user's own, given as ``module:name``."""

import importlib
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from gpytorch.kernels import ScaleKernel
from torch import Tensor

from kernelucb._demo.expansion import matern


class BlackBoxError(Exception):
    r"""The black box cannot be found or gave no number."""


@dataclass(frozen=True, eq=False)
class OwnProblem:
    r"""A black box that somebody else wrote, whose outcomes are noisy as they come.

    Kernel and mean are what its owner says before the first outcome.
    """

    name: str  # ``module:name``
    call: Callable[[list[float]], float]
    bounds: Tensor  # ``2 x d`` corners of the box
    kernel: ScaleKernel  # Matern 5/2 of variance one, on inputs scaled to the unit cube
    mean: float

    @property
    def dimension(self) -> int:
        r"""Number of inputs."""
        return self.bounds.shape[-1]

    def evaluate(self, X: Tensor) -> Tensor:
        r"""``n`` outcomes at ``n x d`` points, one call for each.

        Raises:
            BlackBoxError: If the function raises or returns no finite number.
        """
        values = [self._evaluate_one(point) for point in X.tolist()]
        return torch.tensor(values, dtype=torch.float64)

    def _evaluate_one(self, point: list[float]) -> float:
        where = f"{self.name} at x = [{', '.join(f'{x:.4g}' for x in point)}]"
        try:
            value = self.call(point)
        except Exception as error:
            raise BlackBoxError(
                f"{where} raised {type(error).__name__}: {error}"
            ) from error
        try:
            number = float(value)
        except (TypeError, ValueError, RuntimeError) as error:
            kind = type(value).__name__
            raise BlackBoxError(f"{where} returned a {kind}, no number") from error
        if not math.isfinite(number):
            raise BlackBoxError(f"{where} returned {number}, no finite number")
        return number


def own_problem(name: str, bounds: Tensor, length_scale: float, mean: float) -> OwnProblem:
    r"""The problem of a function ``module:name``; ``length_scale`` in sides of the box.

    Raises:
        BlackBoxError: If there is no such function.
    """
    kernel = matern(2.5, length_scale, 1.0)
    return OwnProblem(name, load_function(name), bounds, kernel, mean)


def load_function(name: str) -> Callable[[list[float]], float]:
    r"""The function ``module:name``; modules in the current folder are found as well.

    Raises:
        BlackBoxError: If there is no such module or function, or the import fails.
    """
    module_name, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # it may raise anything
        raise BlackBoxError(
            f"cannot import {module_name!r}: {type(error).__name__}: {error}"
        ) from error
    function = getattr(module, attribute, None)
    if not callable(function):
        state = "has no function" if function is None else "holds no function under"
        raise BlackBoxError(f"module {module_name!r} {state} {attribute!r}")
    return cast(Callable[[list[float]], float], function)
