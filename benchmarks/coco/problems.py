r"""The functions of COCO's suites ``bbob`` and ``bbob-noisy`` (Hansen et al., 2021).

The instance of a function is the seed of a run.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from botorch.utils.transforms import unnormalize
from cocoex import BareProblem, Suite
from torch import Tensor

from benchmarks.practical.problems import Synthetic

# Gaussian, uniform and Cauchy noise make three functions of each (Finck et al., 2010).
NOISELESS = (1, 8, 1, 8, 7, 10, 14, 17, 19, 21)
_EVALUATIONS = 101  # of a function with Cauchy noise, whose median has none


class Function:
    r"""Minus a function of ``bbob``, called as BoTorch's test functions are."""

    def __init__(self, function: int, dimension: int, instance: int) -> None:
        self.problem: Any = BareProblem("bbob", function, dimension, instance)
        self.optimal_value = -self.problem.best_value()
        self.bounds = [[-5.0] * dimension, [5.0] * dimension]

    def __call__(self, point: Tensor, noise: bool = False) -> float:
        r"""At ``d`` values; ``noise`` where there is any."""
        return -float(self.problem(point.numpy()))


class NoisyFunction(Function):
    r"""Minus a function of ``bbob-noisy``.

    The suite gives no values without noise. The same function with Cauchy noise does, in
    most of its evaluations, but for a constant: 10 where the noise is moderate, else 1000.
    """

    def __init__(self, function: int, dimension: int, instance: int) -> None:
        family = (function - 101) // 3
        super().__init__(NOISELESS[family], dimension, instance)
        self.added = 10.0 if function <= 106 else 1000.0
        # Making a suite begins the noise anew; all problems share it from there on.
        self.problem, self.cauchy = (
            _noisy(each, dimension, instance) for each in (function, 103 + 3 * family)
        )

    def __call__(self, point: Tensor, noise: bool = False) -> float:
        if noise:
            return super().__call__(point)
        values = [self.cauchy(point.numpy()) for _ in range(_EVALUATIONS)]
        # Within 1e-8 of the optimum there is no noise, and nothing is added.
        return min(self.added - float(np.median(values)), self.optimal_value)


def _noisy(function: int, dimension: int, instance: int) -> Any:
    chosen = {"dimensions": dimension, "function_indices": function - 100}
    chosen["instance_indices"] = instance
    suite = Suite("bbob-noisy", "", " ".join(f"{k}: {v}" for k, v in chosen.items()))
    return suite.get_problem(0)


class Coco(Synthetic):
    r"""A function of one of the suites."""

    function: Any

    def __init__(self, task: SimpleNamespace) -> None:
        super().__init__(task)
        if task.noisy:  # another part of the noise for every problem and instance
            for _ in range(int(self._noise.integers(1000))):
                self.function(torch.zeros(task.dimension), noise=True)

    def function_of(self, task: SimpleNamespace) -> Any:
        made = NoisyFunction if task.noisy else Function
        return made(task.function, task.dimension, task.seed)

    def observe(self, point: Tensor) -> float:
        return self.function(unnormalize(point, self.box), noise=True)
