r"""Functions of known norm on the unit cube, all from named streams."""

from dataclasses import dataclass

import numpy as np
import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.experiments.configuration import Protocol, Setting
from benchmarks.runner import fixed_kernel, rkhs_norm, stream


@dataclass(frozen=True)
class KnownFunction:
    r"""``sum_i weights_i k(., centres_i)``, of the norm of its setting."""

    kernel: Kernel
    centres: Tensor
    weights: Tensor

    @classmethod
    def draw(cls, protocol: Protocol, setting: Setting, *names: str | int):
        r"""The function of these names."""
        random = drawn(protocol, setting, "function", *names)
        kernel = fixed_kernel(setting.kernel, setting.lengthscale)
        centres = torch.from_numpy(random.random((protocol.centres, setting.dimension)))
        weights = torch.from_numpy(random.standard_normal(protocol.centres))
        weights *= setting.norm / rkhs_norm(kernel, centres, weights)
        return cls(kernel, centres, weights)

    def __call__(self, X: Tensor) -> Tensor:
        r"""From ``n x d`` points to ``n`` values."""
        return self.kernel(X, self.centres).to_dense() @ self.weights


def drawn(
    protocol: Protocol, setting: Setting, what: str, *names: str | int
) -> np.random.Generator:
    r"""The stream of what is drawn for a function of a setting."""
    return stream(protocol.seed, what, setting.name, *names)


def cube(dimension: int) -> Tensor:
    r"""``2 x d`` limits of the unit cube."""
    zero = torch.zeros(dimension, dtype=torch.float64)
    return torch.stack([zero, zero + 1.0])
