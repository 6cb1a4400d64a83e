r"""Wrong values, and right ones in unusual clothes."""

import decimal
import fractions
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.acquisition.objective import (
    ExpectationPosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.models import (
    KroneckerMultiTaskGP,
    MixedSingleTaskGP,
    ModelListGP,
    MultiTaskGP,
    SingleTaskGP,
    SingleTaskVariationalGP,
)
from botorch.models.contextual import LCEAGP
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.transforms import Log, Standardize, Warp
from gpytorch.kernels import IndexKernel, RBFKernel, RBFKernelGrad, ScaleKernel
from gpytorch.means import ConstantMean, LinearMean
from torch import Tensor

from benchmarks.attack.fuzz.world import world


class Value(NamedTuple):
    r"""A value to put in place of an argument.

    Attributes:
        name: For the report.
        make: Builds it.
        refused: Whether a bound must refuse it as its model: the band would be of another
            function than the model's.
    """

    name: str
    make: Callable[[], Any]
    refused: bool = False


class WarpedGP(SingleTaskGP):
    r"""A model that warps its inputs in ``forward``, as deep kernels do."""

    def forward(self, x: Tensor) -> Any:
        r"""Prior at the warped inputs."""
        return super().forward(x.pow(3))


class StubEnsemble(SingleTaskGP):
    r"""A model that calls itself fully Bayesian."""

    _is_fully_bayesian = True
    _is_ensemble = True


def _tensor(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.rand(*shape, generator=generator, dtype=torch.float64).to(dtype)


def _with(entry: float) -> Tensor:
    values = _tensor(8, 2)
    values[3, 1] = entry
    return values


def _model(build: Callable[..., Any], **options: Any) -> Callable[[], Any]:
    r"""A model of another kind on the data of the world, built once."""

    @cache
    def make() -> Any:
        return build(world().X, world().Y.unsqueeze(-1), **options).eval()

    return make


def _two_outputs(X: Tensor, Y: Tensor) -> SingleTaskGP:
    return SingleTaskGP(X, torch.cat([Y, Y], -1))


def _list(X: Tensor, Y: Tensor) -> ModelListGP:
    return ModelListGP(SingleTaskGP(X, Y), SingleTaskGP(X, -Y))


def _batched(X: Tensor, Y: Tensor) -> SingleTaskGP:
    return SingleTaskGP(X.expand(3, -1, -1), Y.expand(3, -1, -1))


def _multi_task(X: Tensor, Y: Tensor) -> MultiTaskGP:
    X = torch.cat([X, (torch.arange(len(X)) % 2).unsqueeze(-1)], -1)
    return MultiTaskGP(X, Y, task_feature=-1)


def _kronecker(X: Tensor, Y: Tensor) -> KroneckerMultiTaskGP:
    return KroneckerMultiTaskGP(X, torch.cat([Y, Y], -1))


def _contextual(X: Tensor, Y: Tensor) -> LCEAGP:
    parts = {"a": [0], "b": [1]}
    return LCEAGP(X, Y, torch.full_like(Y, 0.01), decomposition=parts)


def _gradients(X: Tensor, Y: Tensor) -> SingleTaskGP:
    return SingleTaskGP(X, Y, covar_module=RBFKernelGrad().double())


def _kernel(build: Callable[..., Any], **options: Any) -> Callable[[], Any]:
    return lambda: build(**options).double().requires_grad_(False)


_SCALARS = [
    None, "", "text", "1.0", b"x", True, False, 0, 1, -1, 2.5, 0.0, -0.5, 1e-3, 1j,
    math.nan, math.inf, -math.inf, 10**400, -(10**400), 1e160, 1e308, 5e-324, 1e-200,
    decimal.Decimal("0.5"), fractions.Fraction(1, 2), np.float64(0.5), np.int64(3),
]  # fmt: skip
_CONTAINERS: dict[str, Callable[[], Any]] = {
    "object": object,
    "class": lambda: RBFKernel,
    "function": lambda: len,
    "[]": list,
    "[1.0]": lambda: [1.0],
    "[1.0, 2.0]": lambda: [1.0, 2.0],
    "['a']": lambda: ["a"],
    "[None, None]": lambda: [None, None],
    "[nan]": lambda: [math.nan],
    "()": tuple,
    "(2.0, 1.0)": lambda: (2.0, 1.0),
    "{}": dict,
    "{'a': 1}": lambda: {"a": 1},
    "{0: 0.5}": lambda: {0: 0.5},
    "set": lambda: {1.0},
    "array": lambda: np.ones((8, 2)),
    "linear layer": lambda: torch.nn.Linear(2, 1),
}
_TENSORS: dict[str, Callable[[], Tensor]] = {
    "0-dim": lambda: torch.tensor(0.5, dtype=torch.float64),
    "0-dim nan": lambda: torch.tensor(math.nan, dtype=torch.float64),
    "empty": lambda: _tensor(0),
    "0 x 2": lambda: _tensor(0, 2),
    "8 x 0": lambda: _tensor(8, 0),
    "8": lambda: _tensor(8),
    "3": lambda: _tensor(3),
    "1 x 2": lambda: _tensor(1, 2),
    "8 x 1": lambda: _tensor(8, 1),
    "8 x 3": lambda: _tensor(8, 3),
    "2 x 8 x 2": lambda: _tensor(2, 8, 2),
    "4 x 1 x 2": lambda: _tensor(4, 1, 2),
    "4 x 2 x 2": lambda: _tensor(4, 2, 2),
    "integers": lambda: (3 * _tensor(8, 2)).long(),
    "integers 4 x 1 x 2": lambda: (3 * _tensor(4, 1, 2)).long(),
    "complex": lambda: _tensor(8, 2, dtype=torch.complex128),
    "booleans": lambda: _tensor(8, 2) > 0.5,
    "half": lambda: _tensor(8, 2, dtype=torch.float16),
    "bfloat16": lambda: _tensor(8, 2, dtype=torch.bfloat16),
    "single": lambda: _tensor(8, 2, dtype=torch.float32),
    "nan": lambda: _with(math.nan),
    "inf": lambda: _with(math.inf),
    "one 1e160": lambda: _with(1e160),
    "all 1e200": lambda: 1e200 * _tensor(8, 2),
    "gradient": lambda: _tensor(8, 2).requires_grad_(),
    "strided": lambda: _tensor(2, 8).mT,
    "sparse": lambda: _tensor(8, 2).to_sparse(),
    "reversed box": lambda: torch.tensor([[1.0, 1.0], [0.0, 0.0]], dtype=torch.float64),
}
_MODELS = [
    Value("model list", _model(_list), True),
    Value("two outputs", _model(_two_outputs), True),
    Value("batched model", _model(_batched), True),
    Value("multi-task", _model(_multi_task), True),
    Value("ensemble", _model(StubEnsemble), True),
    Value("warped in forward", _model(WarpedGP), True),
    Value("LCEAGP", _model(_contextual)),
    Value("RBFKernelGrad model", _model(_gradients)),
    Value("variational", _model(SingleTaskVariationalGP), True),
    Value("Kronecker", _model(_kronecker), True),
    Value("mixed", _model(MixedSingleTaskGP, cat_dims=[1])),
    Value("log outcomes", lambda: _positive(Log())),
    Value("standardized", _model(SingleTaskGP, outcome_transform=Standardize(1))),
    Value("warped inputs", _model(SingleTaskGP, input_transform=Warp(2, [0]))),
    Value("deterministic", lambda: GenericDeterministicModel(lambda X: X[..., :1]), True),
]
_MODULES = [
    Value("kernel of 5 columns", _kernel(RBFKernel, ard_num_dims=5)),
    Value("kernel of column 7", _kernel(RBFKernel, active_dims=(7,))),
    Value("batched kernel", _kernel(RBFKernel, batch_shape=torch.Size([3]))),
    Value("gradient kernel", _kernel(RBFKernelGrad)),
    Value("index kernel", _kernel(IndexKernel, num_tasks=3)),
    Value("kernel in training", lambda: ScaleKernel(RBFKernel())),
    Value("batched mean", _kernel(ConstantMean, batch_shape=torch.Size([3]))),
    Value("mean of 5 columns", _kernel(LinearMean, input_size=5)),
    Value("two weights", lambda: ScalarizedPosteriorTransform(torch.ones(2))),
    Value("weight zero", lambda: ScalarizedPosteriorTransform(torch.zeros(1))),
    Value("weight nan", lambda: ScalarizedPosteriorTransform(torch.tensor([math.nan]))),
    Value("offset nan", lambda: ScalarizedPosteriorTransform(torch.ones(1), math.nan)),
    Value("expectation", lambda: ExpectationPosteriorTransform(n_w=2)),
]


@cache
def _positive(transform: Any) -> SingleTaskGP:
    X, Y = world().X, world().Y.unsqueeze(-1).abs() + 0.1
    return SingleTaskGP(X, Y, outcome_transform=transform).eval()


VALUES: list[Value] = [
    *(Value(repr(value)[:20], lambda value=value: value) for value in _SCALARS),
    *(Value(name, make) for name, make in _CONTAINERS.items()),
    *(Value(f"tensor {name}", make) for name, make in _TENSORS.items()),
    *_MODELS,
    *_MODULES,
]
